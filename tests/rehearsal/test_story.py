"""The story of one GPU, whole: from nothing to a pod on a node that the real Karpenter bought, and back to nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import Outcome, Rehearse


@pytest.fixture(scope="module")
def told(rehearse: Rehearse) -> Outcome:
    """One rehearsal of the workshop."""
    return rehearse("--environment", "workshop")


def test_every_step_holds_and_the_exit_code_says_so(told: Outcome) -> None:
    assert told.failed() == []
    assert told.code == 0
    assert told.record["held"] is True


def test_the_steps_are_those_of_the_story(told: Outcome) -> None:
    assert [step["name"] for step in told.record["steps"]] == [
        "synth",
        "start",
        "bootstrap",
        "deploy",
        "templates",
        "pod-pending",
        "node-claim",
        "instance",
        "node",
        "gpu",
        "pod-served",
        "consolidated",
        "destroy",
        "census-aws",
        "census-machine",
    ]


def test_the_deployed_templates_are_the_synthesised_ones_byte_for_byte(told: Outcome) -> None:
    assert told.step("templates")["result"] == "4 templates"


def test_s0_9_a_gpu_instance_of_the_pool_is_bought_on_demand(told: Outcome) -> None:
    (instance,) = told.record["instances"]
    assert re.match(r"[gp]\d", instance["type"])
    assert instance["capacity_type"] == "on-demand"
    assert instance["zone"].startswith("us-west-2")
    assert instance["usd_per_hour"] > 0


def test_s0_10_the_pod_waits_for_a_gpu_then_runs_on_the_new_node(told: Outcome) -> None:
    assert "Insufficient nvidia.com/gpu" in told.step("pod-pending")["result"]
    node = told.step("node")["result"].split()[0]
    assert node in told.step("gpu")["result"]
    assert node in told.step("pod-served")["result"]


def test_the_node_is_consolidated_after_the_pools_own_minute(told: Outcome) -> None:
    assert "consolidateAfter is 1m" in told.step("consolidated")["result"]
    assert told.record["instances"][0]["seconds"] > 60


def test_nothing_is_left_behind(told: Outcome) -> None:
    assert told.record["census"] == {"processes": [], "ports": []}


def test_what_is_simulated_is_said(told: Outcome) -> None:
    for name in ("instance", "node", "gpu", "pod-served"):
        assert told.step(name)["simulated"]
        assert f"simulated: {told.step(name)['simulated']}" in told.output


def test_a_run_that_held_leaves_no_folder(told: Outcome, state: Path) -> None:
    assert told.code == 0
    assert not (state / "eks-gpu" / "runs" / told.record["run"]).exists()


def test_the_record_is_json_for_machines(told: Outcome) -> None:
    assert json.loads(json.dumps(told.record)) == told.record
    assert told.record["source"] == "environment workshop"
