"""What happened in the cloud of a run, one JSON object a line: written by the cloud, read by the story."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Args:
        at: seconds since the epoch.
        kind: what kind of thing, for example ``access-denied`` or ``instance-state``.
        text: one sentence for a person.
        data: the same for machines; JSON values only.
    """

    at: float
    kind: str
    text: str
    data: dict[str, Any]


class EventLog:
    """An append-only file of events, safe to write from many threads and to read from another process.

    Args:
        path: the file; made when the first event is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, kind: str, text: str, **data: Any) -> None:
        """Append one event, stamped with the time now."""
        line = json.dumps({"at": time.time(), "kind": kind, "text": text, "data": data}, default=str)
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def read(self) -> Iterator[Event]:
        """All events so far, oldest first; a line that is still being written is left for the next time."""
        if not self._path.exists():
            return
        with self._path.open(encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield Event(**json.loads(line))
