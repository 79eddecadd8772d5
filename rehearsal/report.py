"""What a rehearsal tells: to a person while it runs, to machines when it is over."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

PLAIN_EVERY_S = 10.0
"""Seconds between two lines about one step where the output is no terminal."""


class StepError(Exception):
    """A step of the story did not hold.

    Args:
        message: what was expected, what was found and what to look at, for a user.
        log: the end of the log that explains it; may be empty.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log = log


@dataclass
class StepRecord:
    """One step as it went.

    Args:
        name: stable, for machines.
        title: for a person.
        simulated: what in this step is simulated; None where everything is real.
        seconds: how long it took.
        outcome: whether it held.
        result: what was seen, one line.
    """

    name: str
    title: str
    simulated: str | None = None
    seconds: float = 0.0
    outcome: Literal["running", "held", "failed"] = "running"
    result: str = ""


@dataclass
class Record:
    """A whole run, for machines.

    Args:
        run: the run's id.
        source: the environment or the assembly that was rehearsed.
        held: whether every step held.
        seconds: from start to end.
        steps: in order.
        instances: what was bought: type, zone, capacity type, price per hour (USD), seconds of life, cost (USD).
        census: what was left behind, by kind; empty lists where nothing was.
        failure: the message of the step that failed.
    """

    run: str
    source: str
    held: bool = False
    seconds: float = 0.0
    steps: list[StepRecord] = field(default_factory=list[StepRecord])
    instances: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    census: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    failure: str | None = None

    def write(self, file: Path) -> None:
        """Write the record as JSON."""
        file.write_text(json.dumps(asdict(self), indent=2) + "\n")


class Step:
    """A step that is under way; what is said of it is shown live."""

    def __init__(self, record: StepRecord) -> None:
        self.record = record
        self.detail = ""

    def say(self, detail: str) -> None:
        """Show what is going on now, in place of what was."""
        self.detail = detail

    def hold(self, result: str) -> None:
        """Say what was seen; shown when the step ends."""
        self.record.result = result


class _Line:
    """The live line of a step: spinner, title, clock, detail; made anew each time it is drawn."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._started = time.monotonic()
        self._spinner = Spinner("dots", style="cyan")

    def __rich__(self) -> Table:
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(width=1)
        line.add_column(no_wrap=True)
        line.add_column(no_wrap=True, justify="right", style="dim")
        # Takes what the others leave, so that a long detail never hides which step it is about.
        line.add_column(no_wrap=True, overflow="ellipsis", style="dim", ratio=1)
        seconds = f"{time.monotonic() - self._started:.0f} s"
        line.add_row(self._spinner, Text(self._step.record.title), seconds, Text(self._step.detail))
        return line


class Reporter:
    """Tells a story on a console and keeps its record.

    Args:
        console: where to.
        record: filled in as the story goes.
    """

    def __init__(self, console: Console, record: Record) -> None:
        self.console = console
        self.record = record
        self._started = time.monotonic()

    @contextmanager
    def step(self, name: str, title: str, *, simulated: str | None = None) -> Generator[Step]:
        """Show a step while its block runs, and record how it went.

        Args:
            name: stable, for machines.
            title: for a person.
            simulated: what of it is simulated, shown beside the result.
        """
        record = StepRecord(name, title, simulated)
        self.record.steps.append(record)
        step = Step(record)
        started = time.monotonic()
        try:
            with self._live(step):
                yield step
            record.outcome = "held"
        except BaseException:
            record.outcome = "failed"
            raise
        finally:
            record.seconds = round(time.monotonic() - started, 2)
            self._close(record)

    def say(self, markup: str) -> None:
        """Print a line of rich markup."""
        self.console.print(markup)

    def fail(self, failure: StepError, logs: Path) -> None:
        """Print what went wrong, the log that explains it and where the rest is."""
        self.record.failure = failure.message
        failed = next((step.title for step in self.record.steps if step.outcome == "failed"), "the start")
        self.console.print()
        self.console.print(Panel(Text(failure.message), title=f"failed: {escape(failed)}", border_style="red"))
        if failure.log:
            self.console.print(Panel(Text(failure.log), title="the end of the log that explains it", style="dim"))
        self.console.print(f"All logs of this run: {logs}", highlight=False, soft_wrap=True)

    def finish(self, *, held: bool) -> None:
        """Close the record."""
        self.record.held = held
        self.record.seconds = round(time.monotonic() - self._started, 2)

    @contextmanager
    def _live(self, step: Step) -> Generator[None]:
        if self.console.is_terminal:
            with Live(_Line(step), console=self.console, refresh_per_second=8, transient=True):
                yield
            return
        self.console.print(f"… {step.record.title}", highlight=False)
        plain = _PlainDetail(self.console, step)
        try:
            yield
        finally:
            plain.stop()

    def _close(self, record: StepRecord) -> None:
        mark = "[green]✔[/]" if record.outcome == "held" else "[red]✘[/]"
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(width=1)
        line.add_column(ratio=1)
        line.add_column(justify="right", style="dim", no_wrap=True)
        said = f"{escape(record.title)}"
        if record.result:
            said += f"\n[dim]{escape(record.result)}[/]"
        if record.simulated:
            said += f"\n[dim italic]simulated: {escape(record.simulated)}[/]"
        line.add_row(mark, said, f"{record.seconds:.1f} s")
        self.console.print(line)


class _PlainDetail:
    """Now and then a line about a step, where there is no terminal to draw on."""

    def __init__(self, console: Console, step: Step) -> None:
        self._console = console
        self._step = step
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="plain-progress")
        self._thread.start()

    def _run(self) -> None:
        waited = 0.0
        while not self._stopped.wait(PLAIN_EVERY_S):
            waited += PLAIN_EVERY_S
            detail = f": {self._step.detail}" if self._step.detail else ""
            self._console.print(f"  {self._step.record.title}, {waited:.0f} s{detail}", highlight=False, markup=False)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
