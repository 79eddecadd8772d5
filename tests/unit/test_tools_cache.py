"""The cache of tools: named after what a tool is built from, whole or not there, built once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rehearsal.tools.cache import METADATA, Build, Cache, Entry
from rehearsal.tools.commands import follow
from rehearsal.tools.errors import ToolError, hint
from rehearsal.tools.progress import Step


class Heard:
    """A progress that remembers what it was told, as :class:`rehearsal.tools.Progress` has it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:  # noqa: D102
        self.lines.append(text)

    def start(self, step: Step) -> None:  # noqa: D102
        self.lines.append(str(step))

    def detail(self, text: str) -> None:  # noqa: D102
        self.lines.append(text)

    def finish(self, outcome: str) -> None:  # noqa: D102
        self.lines.append(outcome)


def write_tool(build: Build) -> None:
    (build.folder / "tool").write_text("works", encoding="utf-8")


def an_entry(
    recipe: Callable[[Build], None] = write_tool, *, source: str = "1", files: tuple[str, ...] = ("tool",)
) -> Entry:
    return Entry("tool", "1.0", "tool 1.0", "building", {"source": source}, files, recipe)


def left_in(root: Path) -> list[str]:
    """What stands in the cache, less the locks and logs."""
    return sorted(path.name for path in root.iterdir() if path.suffix != ".lock" and path.name != "logs")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "tools")


def test_a_tool_is_built_once_and_then_found_without_a_word(cache: Cache) -> None:
    first, second = Heard(), Heard()
    folder = cache.get(an_entry(), first, number=2, of=7)
    assert (folder / "tool").read_text(encoding="utf-8") == "works"
    assert first.lines == ["[2/7] building tool 1.0", "ready"]
    assert cache.get(an_entry(), second) == folder
    assert second.lines == []


def test_another_input_is_another_folder() -> None:
    same = an_entry(source="1").folder_name
    assert an_entry(source="1").folder_name == same
    assert an_entry(source="2").folder_name != same
    assert an_entry(source="1", files=("tool", "more")).folder_name != same


def test_another_platform_is_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    here = an_entry().key
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert an_entry().key != here


@pytest.mark.parametrize("failure", [ToolError("no"), OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_build_that_does_not_end_leaves_nothing(cache: Cache, failure: BaseException) -> None:
    def fail(build: Build) -> None:
        write_tool(build)
        raise failure

    heard = Heard()
    with pytest.raises((ToolError, KeyboardInterrupt)):
        cache.get(an_entry(fail), heard)
    assert left_in(cache.root) == []
    assert heard.lines[-1] in ("failed", "interrupted")
    assert (cache.get(an_entry(), Heard()) / "tool").exists()


def test_a_full_disk_is_said_as_such(cache: Cache) -> None:
    def fill(build: Build) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ToolError, match=r"(?s)tool 1\.0 cannot be got ready.*The disk is full"):
        cache.get(an_entry(fill), Heard())


def test_a_recipe_that_forgets_a_file_fails(cache: Cache) -> None:
    with pytest.raises(ToolError, match="other did not come out of it"):
        cache.get(an_entry(files=("tool", "other")), Heard())
    assert left_in(cache.root) == []


def test_a_tool_with_a_missing_file_is_built_again(cache: Cache) -> None:
    folder = cache.get(an_entry(), Heard())
    (folder / "tool").unlink()
    assert (cache.get(an_entry(), Heard()) / "tool").exists()
    assert left_in(cache.root) == [folder.name]


def test_what_a_killed_build_left_is_removed_by_the_next(cache: Cache) -> None:
    stale = cache.root / f"{an_entry().folder_name}.tmp-killed"
    stale.mkdir(parents=True)
    folder = cache.get(an_entry(), Heard())
    assert left_in(cache.root) == [folder.name]


def test_metadata_says_what_it_was_built_from(cache: Cache) -> None:
    assert '"source": "1"' in (cache.get(an_entry(), Heard()) / METADATA).read_text(encoding="utf-8")


def test_two_runs_at_once_build_once_and_the_second_says_that_it_waits(cache: Cache) -> None:
    builds: list[float] = []
    building = threading.Event()
    go_on = threading.Event()

    def slow(build: Build) -> None:
        builds.append(time.monotonic())
        building.set()
        assert go_on.wait(10)
        write_tool(build)

    heard = Heard(), Heard()
    threads = [threading.Thread(target=cache.get, args=(an_entry(slow), each)) for each in heard]
    threads[0].start()
    assert building.wait(10)
    threads[1].start()
    while not any("waiting" in line for line in heard[1].lines):
        assert threads[1].is_alive()
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert len(builds) == 1
    assert heard[0].lines[-1] == "ready"
    assert heard[1].lines[-1] == "got ready by another run,"


def test_two_processes_at_once_build_once(tmp_path: Path) -> None:
    program = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from rehearsal.tools.cache import Cache, Entry
        from rehearsal.tools.progress import ConsoleProgress

        def recipe(build):
            with Path(sys.argv[1], "builds").open("a") as builds:
                builds.write("built ")
            time.sleep(0.5)
            (build.folder / "tool").touch()

        entry = Entry("tool", "1.0", "tool 1.0", "building", {}, ("tool",), recipe)
        print(Cache(Path(sys.argv[1], "tools")).get(entry, ConsoleProgress()))
        """
    )
    clone = Path(__file__).parents[2]
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, cwd=clone, text=True)
        for _ in range(2)
    ]
    answers = {run.communicate(timeout=30)[0] for run in runs}
    assert len(answers) == 1
    assert (tmp_path / "builds").read_text() == "built "


def test_a_failed_command_says_which_tool_what_and_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('dial tcp: lookup nowhere: no such host'); raise SystemExit(3)"]
    with pytest.raises(ToolError) as raised:
        follow("etcd 3.5", command, log=tmp_path / "log", on_line=lambda _: None)
    text = str(raised.value)
    assert text.startswith("etcd 3.5 cannot be got ready: python")
    assert "ended with exit code 3" in text
    assert "    dial tcp: lookup nowhere: no such host" in text
    assert "check the network" in text
    assert f"The whole output: {tmp_path / 'log'}" in text


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="nosuch cannot be started"):
        follow("etcd", ["/nosuch"], log=tmp_path / "log", on_line=lambda _: None)


def test_ctrl_c_ends_the_command_and_its_children(tmp_path: Path) -> None:
    command = ["bash", "-c", "sleep 60 & echo $!; wait"]
    children: list[psutil.Process] = []

    def interrupt(line: str) -> None:
        children.append(psutil.Process(int(line)))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow("tool", command, log=tmp_path / "log", on_line=interrupt)
    assert children
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("write /tmp/x: no space left on device", "disk is full"),
        ("compile: signal: killed", "Memory ran out"),
        ("verifying module: checksum mismatch\nSECURITY ERROR", "not what is pinned"),
        ("npm error code EAI_AGAIN", "check the network"),
        ("npm error code ETARGET", "does not have the pinned version"),
        ("a bug", "Run the same command again"),
    ],
)
def test_the_advice_fits_the_failure(output: str, advice: str) -> None:
    assert advice in hint(output)
