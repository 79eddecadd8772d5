"""Every process of a run is found by its mark and ended, also when whoever started it was killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.processes import RUN_VARIABLE, Run, end_all, free_port, of_run, spawn, stop, tail


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(f"test-{tmp_path.name}-{os.getpid()}", tmp_path)
    yield run
    end_all(run.id, grace_s=1)


def _sleep(run: Run) -> subprocess.Popen[bytes]:
    return spawn(run, "sleeper", [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"])


def _wait_until(held: object, within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if callable(held) and held():
            return True
        time.sleep(0.02)
    return False


def test_a_spawned_process_carries_the_mark_and_writes_its_log(run: Run) -> None:
    process = _sleep(run)
    assert [found.pid for found in of_run(run.id)] == [process.pid]
    assert _wait_until(lambda: tail(run.logs / "sleeper.log") == "here")
    stop(process)


def test_stop_kills_what_ignores_sigterm(run: Run) -> None:
    ignore = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    process = spawn(run, "deaf", [sys.executable, "-c", ignore])
    assert _wait_until(lambda: tail(run.logs / "deaf.log") == "deaf")
    stop(process, grace_s=0.2)
    assert process.returncode == -signal.SIGKILL


def test_a_grandchild_in_a_session_of_its_own_is_found_too(run: Run) -> None:
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " start_new_session=True); print(p.pid, flush=True)"
    )
    spawn(run, "parent", [sys.executable, "-c", code]).wait()
    grandchild = int(tail(run.logs / "parent.log"))
    assert [found.pid for found in of_run(run.id)] == [grandchild]
    end_all(run.id)
    assert of_run(run.id) == []


def test_processes_of_another_run_are_left_alone(run: Run, tmp_path: Path) -> None:
    other = Run(f"{run.id}-other", tmp_path)
    process = _sleep(other)
    end_all(run.id)
    assert process.poll() is None
    stop(process)


def test_the_janitor_ends_what_a_killed_owner_left(run: Run) -> None:
    """An owner with a janitor and a child is killed; the child is ended all the same."""
    code = (
        "import subprocess, sys, time;"
        f"j = subprocess.Popen([sys.executable, '-m', 'rehearsal.janitor', {run.id!r}], stdin=subprocess.PIPE);"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('ready', flush=True); time.sleep(60)"
    )
    environment = dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[2])}
    owner = spawn(run, "owner", [sys.executable, "-c", code], env=environment)
    assert _wait_until(lambda: tail(run.logs / "owner.log") == "ready" and len(of_run(run.id)) == 3)
    owner.kill()
    owner.wait()
    assert _wait_until(lambda: of_run(run.id) == [])


def test_the_mark_replaces_an_inherited_one(run: Run, tmp_path: Path) -> None:
    inner = Run(f"{run.id}-inner", tmp_path)
    process = spawn(inner, "sleeper", [sys.executable, "-c", "import time; time.sleep(60)"], env={RUN_VARIABLE: run.id})
    assert of_run(run.id) == []
    stop(process)


def test_a_free_port_can_be_bound() -> None:
    assert 1024 < free_port() < 65536


def test_tail_gives_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(str(number) for number in range(1000)))
    assert tail(log, 3) == "997\n998\n999"
    assert tail(tmp_path / "absent.log") == ""
