"""A thread that does one thing again and again until it is stopped; a failure is reported and tried again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rehearsal.compute.notices import Reporter, Trouble

log = logging.getLogger(__name__)


class Loop:
    """Calls a step at an interval, in a thread of its own.

    Args:
        name: what it does, for reports.
        step: looks at the world and brings it closer to what it should be.
        interval_s: seconds between the end of a step and the next; four times that after a failure.
        reporter: told of failures.
    """

    def __init__(self, name: str, step: Callable[[], None], interval_s: float, reporter: Reporter) -> None:
        self._name = name
        self._step = step
        self._interval_s = interval_s
        self._reporter = reporter
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{reporter.cluster}-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """Let the step that is under way be the last; returns at once."""
        self._stopping.set()

    def join(self, *, within_s: float = 60) -> None:
        """Wait until the thread has ended; one that was never started has."""
        if self._thread.is_alive():
            self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait_s = self._interval_s
            try:
                self._step()
                self._reporter.forget(self._name)
            except Exception as error:  # whatever it is, the thread must live, and someone must hear of it
                if self._stopping.is_set():
                    return
                message = f"{type(error).__name__}: {error}"
                if self._reporter.once(self._name, Trouble(self._reporter.cluster, self._name, message)):
                    log.warning("%s failed and is tried again", self._name, exc_info=True)
                wait_s *= 4
            self._stopping.wait(wait_s)
