"""What synth costs beside a bare app's, and what it makes: `uv run python benchmarks/synth.py`.

Goals: the workshop environment takes at most 1.25 times the wall time and the memory of `bare_app.py`, which has one
VPC, one EKS cluster and the kubectl layer; at most 4 Lambda functions; no CfnJson; the unit tests take at most 60
seconds. Both apps run in turns, so that whatever else the machine does falls on both; the medians are compared. Memory
is the peak of the sum of the proportional set sizes (PSS) of the app's Python and of the Node that jsii starts for it.
Exit code 1 where a goal is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
ROUNDS = 5
RATIO = 1.25
LAMBDAS = 4
UNIT_SECONDS = 60
EVERY_S = 0.02


def main() -> int:
    """Measure, print each figure beside its goal, and return the exit code."""
    bare, ours = [ROOT / "benchmarks" / "bare_app.py"], [ROOT / "app.py"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        _run(bare, out / "warm-bare")  # compiled Python files and the jsii cache are there for both
        _run(ours, out / "warm-ours")
        pairs = [(_run(bare, out / f"bare-{n}"), _run(ours, out / f"ours-{n}")) for n in range(ROUNDS)]
        templates = [json.loads(path.read_text()) for path in (out / "ours-0").glob("*.template.json")]
    started = time.monotonic()
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/unit"], cwd=ROOT, capture_output=True, text=True
    )
    unit = time.monotonic() - started
    kinds = Counter(resource["Type"] for template in templates for resource in template["Resources"].values())
    held = [
        _ratio("wall time", "s", [(b[0], o[0]) for b, o in pairs]),
        _ratio("memory", "MiB", [(b[1] / 2**20, o[1] / 2**20) for b, o in pairs]),
        _count("Lambda functions", kinds["AWS::Lambda::Function"], LAMBDAS),
        _count("CfnJson", kinds["Custom::AWSCDKCfnJson"], 0),
        _count("seconds of unit tests", unit, UNIT_SECONDS),
    ]
    print(f"unit tests: {tests.stdout.strip().splitlines()[-1]}")
    print(f"{sum(kinds.values())} resources in {len(templates)} templates, on {os.cpu_count()} cores")
    return 0 if all(held) and tests.returncode == 0 else 1


def _run(app: list[Path], outdir: Path) -> tuple[float, int]:
    """Seconds and peak bytes of one synth."""
    started = time.monotonic()
    process = psutil.Popen([sys.executable, *app], cwd=ROOT, env=os.environ | {"CDK_OUTDIR": str(outdir)})
    peak = 0
    while process.poll() is None:
        peak = max(peak, _size(process))
        time.sleep(EVERY_S)
    if process.returncode:
        sys.exit(f"{app[0]} failed")
    return time.monotonic() - started, peak


def _size(process: psutil.Process) -> int:
    size = 0
    try:
        for each in (process, *process.children(recursive=True)):
            size += each.memory_full_info().pss
    except (psutil.Error, OSError):
        return 0  # one of them has just ended: the next sample counts
    return size


def _ratio(what: str, unit: str, pairs: list[tuple[float, float]]) -> bool:
    bare = statistics.median(b for b, _ in pairs)
    ours = statistics.median(o for _, o in pairs)
    ratio = ours / bare
    print(f"{what}: {ratio:.2f} of a bare app's, goal {RATIO}  ({ours:.2f} {unit} and {bare:.2f} {unit})")
    return ratio <= RATIO


def _count(what: str, found: float, most: float) -> bool:
    print(f"{what}: {found:.0f}, goal {most:.0f}")
    return found <= most


if __name__ == "__main__":
    sys.exit(main())
