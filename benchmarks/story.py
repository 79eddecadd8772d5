"""How long the whole story takes, and how much memory: `uv run python benchmarks/story.py`.

Goal, on 2 cores and with the tools already built: at most 180 seconds and at most 3 GiB. The memory is the sum of the
proportional set sizes (PSS) of every process of the run, the command line and what it starts included, sampled twice a
second; the peak of that sum is printed. Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from rehearsal.processes import RUN_VARIABLE

SECONDS = 180
GIB = 3.0
EVERY_S = 0.5


def main() -> int:
    """Run one rehearsal and print its figures beside the goals."""
    with tempfile.TemporaryDirectory() as folder:
        record_file = Path(folder) / "record.json"
        mark = f"benchmark-{os.getpid()}"
        before = {process.pid for process in psutil.process_iter()}
        started = time.monotonic()
        process = subprocess.Popen(
            [Path(sys.executable).parent / "rehearse", "--json", record_file],
            env=os.environ | {"REHEARSAL_BENCHMARK": mark},
        )
        peak, biggest = 0, dict[str, int]()
        while process.poll() is None:
            sizes = _sizes(mark, before)
            if sum(sizes.values()) > peak:
                peak, biggest = sum(sizes.values()), sizes
            time.sleep(EVERY_S)
        seconds = time.monotonic() - started
        record = json.loads(record_file.read_text())
    gib = peak / 2**30
    print(f"\nheld: {record['held']}, on {os.cpu_count()} cores")
    print(f"time: {seconds:.0f} s, {seconds / SECONDS:.2f} of the goal of {SECONDS} s")
    print(f"memory: {gib:.2f} GiB at its peak, {gib / GIB:.2f} of the goal of {GIB:.0f} GiB")
    for name, size in sorted(biggest.items(), key=lambda item: -item[1]):
        print(f"  {size / 2**20:6.0f} MiB  {name}")
    for step in record["steps"]:
        print(f"  {step['seconds']:6.1f} s    {step['title']}")
    return 0 if record["held"] and seconds <= SECONDS and gib <= GIB else 1


def _sizes(mark: str, before: set[int]) -> dict[str, int]:
    """Program -> bytes of proportional set size, of all processes of a run that started since the benchmark did."""
    sizes: dict[str, int] = {}
    for process in psutil.process_iter():
        try:
            environment = process.environ() if process.pid not in before else {}
            if environment.get("REHEARSAL_BENCHMARK") == mark or RUN_VARIABLE in environment:
                name = Path(process.exe()).name
                sizes[name] = sizes.get(name, 0) + process.memory_full_info().pss
        except (psutil.Error, OSError):
            continue
    return sizes


if __name__ == "__main__":
    sys.exit(main())
