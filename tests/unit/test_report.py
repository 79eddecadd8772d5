"""A story is told step by step, with what is simulated named, and kept for machines."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal.report import Record, Reporter, StepError


def _reporter() -> tuple[Reporter, io.StringIO]:
    out = io.StringIO()
    return Reporter(Console(file=out, width=100), Record("run-1", "environment workshop")), out


def test_a_step_that_holds_shows_its_result_and_what_is_simulated() -> None:
    reporter, out = _reporter()
    with reporter.step("instance", "an instance is bought", simulated="EC2") as step:
        step.hold("g5.xlarge in us-west-2a")
    shown = out.getvalue()
    assert "✔ an instance is bought" in shown
    assert "g5.xlarge in us-west-2a" in shown
    assert "simulated: EC2" in shown


def test_a_step_that_fails_is_named_with_message_log_and_folder(tmp_path: Path) -> None:
    reporter, out = _reporter()
    failure = StepError("the GPU did not come", "the last line of the log")

    def fail() -> None:
        with reporter.step("gpu", "nvidia.com/gpu is registered"):
            raise failure

    with pytest.raises(StepError):
        fail()
    reporter.fail(failure, tmp_path)
    shown = out.getvalue()
    assert "✘ nvidia.com/gpu is registered" in shown
    assert "failed: nvidia.com/gpu is registered" in shown
    assert "the GPU did not come" in shown
    assert "the last line of the log" in shown
    assert str(tmp_path) in shown


def test_the_record_is_written_as_json(tmp_path: Path) -> None:
    reporter, _ = _reporter()
    with reporter.step("start", "a local AWS starts") as step:
        step.hold("here")
    reporter.finish(held=True)
    reporter.record.write(tmp_path / "record.json")
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["run"], record["source"], record["held"]) == ("run-1", "environment workshop", True)
    (written,) = record["steps"]
    assert (written["name"], written["outcome"], written["result"]) == ("start", "held", "here")
