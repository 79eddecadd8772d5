"""What a user hears before anything is started, when this machine cannot run a rehearsal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rehearsal.tools import machine as room
from rehearsal.tools.cache import Cache, Entry
from rehearsal.tools.errors import ToolError
from rehearsal.tools.machine import GIB, Disk, Machine, available_memory, look_at_disk, preflight, problems

GOOD = Machine(("Linux", "x86_64"), (3, 11), 8 * GIB, "", ("127.0.0.1", "::1"))
ROOM = Disk(Path("/runs"), "the state of the run", 1 * GIB, 5 * GIB)


def test_a_good_machine_has_no_problem() -> None:
    assert problems(GOOD, [ROOM]) == []
    assert problems(replace(GOOD, memory_bytes=None), [ROOM]) == []


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (replace(GOOD, platform=("Linux", "aarch64")), "It is Linux aarch64; Linux x86_64 is needed, because the CDK"),
        (replace(GOOD, platform=("Darwin", "arm64")), "It is Darwin arm64; Linux x86_64 is needed"),
        (replace(GOOD, python=(3, 10)), "Python 3.10 was found; 3.11 or newer is needed."),
        (replace(GOOD, memory_bytes=int(1.5 * GIB)), "1.5 GiB of memory is available; 3.0 GiB is needed."),
        (
            replace(GOOD, loopback_error="Permission denied"),
            "listen on the loopback address 127.0.0.1: Permission denied",
        ),
        (replace(GOOD, localhost=()), "The name localhost has no address; it must be 127.0.0.1"),
        (replace(GOOD, localhost=("10.0.0.7", "::1")), "The name localhost has the address 10.0.0.7; it must be"),
    ],
)
def test_each_problem_says_what_was_found_and_what_is_needed(machine: Machine, message: str) -> None:
    (only,) = problems(machine, [ROOM])
    assert message in only


def test_a_full_disk_says_where_and_what_for() -> None:
    (only,) = problems(GOOD, [replace(ROOM, free_bytes=GIB // 2)])
    assert only == "0.5 GiB of disk is free at /runs; 1.0 GiB is needed there for the state of the run."


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    disk = look_at_disk(tmp_path / "file" / "runs", "the state of the run", 1)
    (only,) = problems(GOOD, [disk])
    assert only.endswith("cannot be written to: Not a directory.")


def test_all_problems_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad() -> Machine:
        return replace(GOOD, python=(3, 9), memory_bytes=GIB)

    monkeypatch.setattr(room, "look_at_machine", bad)
    monkeypatch.setattr(room, "RUN_DISK_BYTES", 2**70)
    with pytest.raises(ToolError) as raised:
        preflight(tmp_path / "runs", cache=Cache(tmp_path / "tools"))
    first, *rest = str(raised.value).splitlines()
    assert first == "This machine cannot run a rehearsal; nothing was started."
    assert len(rest) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cold", [True, False])
def test_room_for_the_first_build_is_only_asked_for_when_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: bool
) -> None:
    monkeypatch.setattr(room, "look_at_machine", lambda: GOOD)
    monkeypatch.setattr(room, "RUN_DISK_BYTES", 1)
    monkeypatch.setattr(room, "BUILD_DISK_BYTES", 2**70)

    def nothing(cache: Cache, kubernetes: str | None) -> list[Entry]:
        return []

    if not cold:
        monkeypatch.setattr(room, "missing_tools", nothing)
        preflight(tmp_path, cache=Cache(tmp_path / "tools"))
        return
    with pytest.raises(ToolError, match="for the first build of the tools"):
        preflight(tmp_path, cache=Cache(tmp_path / "tools"))


def test_memory_of_a_container_is_its_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{100 * 2**20}\n")
    (tmp_path / "memory.current").write_text(f"{40 * 2**20}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {10 * 2**20}\nactive_file 7\n")
    assert available_memory(tmp_path) == 70 * 2**20
    (tmp_path / "memory.max").write_text("max\n")
    whole = available_memory(tmp_path)
    assert whole is not None
    assert whole > 70 * 2**20
