"""Running a command that gets a tool ready: its output is followed line by line, and no child outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from rehearsal.tools.errors import tool_error

TAIL_LINES = 25
"""How many of a failed command's last lines a user sees."""

STOP_GRACE_S = 5
"""Seconds between SIGTERM and SIGKILL for a command that must end."""


def end_on_sigterm() -> None:
    """Let SIGTERM end this process as Ctrl-C does, so that what it started and what is half-made is cleared away."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def follow(
    tool: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    on_line: Callable[[str], None],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    called: str | None = None,
) -> None:
    """Run a command to its end in a process group of its own, which is ended with us (Ctrl-C, an exception).

    Args:
        tool: name and version of what is got ready, for the error message.
        command: program and arguments.
        log: file that gets the whole output (appended).
        on_line: called with every line of output, standard error included.
        cwd: working folder.
        env: the whole environment; this process's own when left out.
        called: what a user calls the command; the program's name when left out.

    Raises:
        ToolError: the command cannot be started, or does not end with exit code 0.
    """
    last: deque[str] = deque(maxlen=TAIL_LINES)
    name = called or Path(command[0]).name
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as whole:
        whole.write(f"$ {' '.join(str(part) for part in command)}\n")
        whole.flush()
        try:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=None if env is None else dict(env),
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise tool_error(tool, f"{name} cannot be started", str(error)) from error
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            for line in process.stdout:
                whole.write(line)
                last.append(line.rstrip())
                on_line(line.rstrip())
            code = process.wait()
        finally:
            _end_group(process)
            if process.stdout:
                process.stdout.close()
    if code:
        raise tool_error(tool, f"{name} ended with exit code {code}", "\n".join(last), log=str(log))


def _end_group(process: subprocess.Popen[str]) -> None:
    """End what is left of the command's process group; nothing to do after a regular end."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
