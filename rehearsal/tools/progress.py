"""How a user sees tools being got ready: one line that moves, and one that stays."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

PLAIN_INTERVAL_S = 30
"""Seconds between two lines about one tool where the output is no terminal."""


@dataclass(frozen=True)
class Step:
    """One tool that is got ready.

    Args:
        number, of: the how many-th of how many.
        title: name and version.
        doing: what is done, for example ``building``.
    """

    number: int
    of: int
    title: str
    doing: str

    def __str__(self) -> str:
        return f"[{self.number}/{self.of}] {self.doing} {self.title}"


class Progress(Protocol):
    """Where the tools say what they do. Nothing is said when all tools are there already."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def start(self, step: Step) -> None:
        """A tool is being got ready."""

    def detail(self, text: str) -> None:
        """What moves at this moment, within the tool of the last :meth:`start`."""

    def finish(self, outcome: str) -> None:
        """The tool of the last :meth:`start` is done with, for example ``ready``; called after a failure too."""


class ConsoleProgress:
    """Progress on a terminal (live), or as plain lines where there is none (a log).

    Args:
        console: where it is written; standard error when left out, so that standard output stays the command's own.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: RichProgress | None = None
        self._task = TaskID(0)
        self._step: Step | None = None
        self._started = 0.0
        self._last_line = 0.0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def start(self, step: Step) -> None:
        """Begin the moving line of a step."""
        self._step = step
        self._started = self._last_line = time.monotonic()
        if not self._console.is_terminal:
            self.say(str(step))
            return
        self._live = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", style="dim", markup=False),
            console=self._console,
            transient=True,
        )
        self._task = self._live.add_task(str(step), total=None, detail="")
        self._live.start()

    def detail(self, text: str) -> None:
        """Say what moves; on a terminal at once, else at most every :data:`PLAIN_INTERVAL_S` seconds."""
        if self._live:
            room = self._console.width - len(str(self._step)) - len("S  0:00:00  ")
            self._live.update(self._task, detail=text if len(text) <= room else text[: max(0, room - 1)] + "…")
        elif self._step and time.monotonic() - self._last_line >= PLAIN_INTERVAL_S:
            self._last_line = time.monotonic()
            self.say(f"{self._counter} {duration(self._last_line - self._started)}: {text}")

    def finish(self, outcome: str) -> None:
        """End the moving line and leave one that stays."""
        if self._live:
            self._live.stop()
            self._live = None
        if self._step:
            took = duration(time.monotonic() - self._started)
            self.say(f"{self._counter} {self._step.title}: {outcome} after {took}")
        self._step = None

    @property
    def _counter(self) -> str:
        return f"[{self._step.number}/{self._step.of}]" if self._step else ""


def duration(seconds: float) -> str:
    """A duration as a person says it: ``0.4 s``, ``12 s``, ``3 min 05 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"
