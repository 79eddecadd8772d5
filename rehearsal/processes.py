"""Processes of a run: started in one way, found again by one mark, ended without a trace.

Every process of a run, however deep, carries the run's id in its environment (:data:`RUN_VARIABLE`). That mark
survives re-parenting and new sessions, so that the janitor, ``rehearse down`` and the census find the same processes
even after a crash.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

RUN_VARIABLE = "REHEARSAL_RUN"
"""Name of the environment variable that every process of a run carries; its value is the run's id."""


@dataclass(frozen=True)
class Run:
    """One rehearsal's identity and its folder.

    Args:
        id: unique among the runs of this user, for example ``20261121-101500-4f2a``.
        folder: everything the run writes (state, kubeconfigs, logs) stands below it.
    """

    id: str
    folder: Path

    @property
    def logs(self) -> Path:
        """Folder of the logs, one file a process, named after it."""
        return self.folder / "logs"


def spawn(
    run: Run,
    name: str,
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start a process of the run in a session of its own; its output goes to ``<run>/logs/<name>.log``.

    Args:
        run: the run the process belongs to.
        name: names the log file.
        command: program and arguments.
        env: the whole environment; this process's own when left out. The run's mark is added.
        cwd: working folder.
        stdin: as for :class:`subprocess.Popen`.

    Raises:
        OSError: the program cannot be started.
    """
    run.logs.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ if env is None else env) | {RUN_VARIABLE: run.id}
    # Some machines set it for tidiness; here it would have every process compile its modules anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with (run.logs / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=stdin,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )


def stop(process: subprocess.Popen[bytes], *, grace_s: float = 5) -> None:
    """End a process that :func:`spawn` started: SIGTERM, SIGKILL after ``grace_s`` seconds; returns when it is gone."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def of_run(run_id: str) -> list[psutil.Process]:
    """All living processes that carry the mark of this run, except the calling one.

    Processes of other users cannot be read and are never ours; a process that ends while it is looked at is left out.
    """
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(RUN_VARIABLE) == run_id and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def end_all(run_id: str, *, grace_s: float = 5) -> list[str]:
    """End every process of the run that is still alive, and say which (name and id)."""
    processes = of_run(run_id)
    names: list[str] = []
    for process in processes:
        try:
            names.append(f"{process.name()} ({process.pid})")
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=grace_s)
    return names


def free_port() -> int:
    """A TCP port on loopback that is free now; the caller binds it at once and reports if it was taken meanwhile."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def tail(path: Path, lines: int = 25) -> str:
    """The last lines of a log, or an empty string where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - 400 * lines))
        return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
