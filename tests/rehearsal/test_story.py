"""The story of one GPU, whole: from nothing to a pod on a node that the real Karpenter bought, and back to nothing.

Told of each environment that the product ships.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from .conftest import Outcome, Rehearse


@dataclass(frozen=True)
class Told:
    """An environment, and what its rehearsal must have told."""

    environment: str
    pool: str
    bears: str
    kept_for: str
    extra_steps: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()


WORKSHOP = Told(
    "workshop", "gpu-pool", "tolerates gpu-workload", "1m", stays=("service-linked role AWSServiceRoleForEC2Spot",)
)
PRODUCTION = Told(
    "production",
    "gpu",
    "tolerates nvidia.com/gpu:NoSchedule",
    "2m",
    extra_steps=("unprotect",),
    stays=("service-linked role AWSServiceRoleForEC2Spot", "KMS key"),
)


@pytest.fixture(scope="module", params=[WORKSHOP, PRODUCTION], ids=lambda told: told.environment)
def expected(request: pytest.FixtureRequest) -> Told:
    """The environment that is told of."""
    return cast("Told", request.param)


@pytest.fixture(scope="module")
def told(rehearse: Rehearse, expected: Told) -> Outcome:
    """One rehearsal of the environment."""
    return rehearse("--environment", expected.environment)


def test_every_step_holds_and_the_exit_code_says_so(told: Outcome) -> None:
    assert told.failed() == []
    assert told.code == 0
    assert told.record["held"] is True


def test_the_steps_are_those_of_the_story(told: Outcome, expected: Told) -> None:
    assert [step["name"] for step in told.record["steps"]] == [
        "synth",
        "start",
        "bootstrap",
        "deploy",
        "templates",
        "workloads",
        "pod-pending",
        "node-claim",
        "instance",
        "node",
        "gpu",
        "pod-served",
        "consolidated",
        *expected.extra_steps,
        "destroy",
        "census-aws",
        "census-machine",
    ]


def test_the_deployed_templates_are_the_synthesised_ones_byte_for_byte(told: Outcome) -> None:
    assert told.step("templates")["result"] == "4 templates"


def test_s0_9_a_gpu_instance_of_the_pool_is_bought_as_the_pool_says(told: Outcome, expected: Told) -> None:
    (instance,) = told.record["instances"]
    assert re.match(r"[gp]\d", instance["type"])
    assert instance["capacity_type"] == ("on-demand" if expected is WORKSHOP else "spot")
    assert told.step("instance")["result"].endswith(
        f"{instance['capacity_type']}, {instance['usd_per_hour']:.4f} USD per hour"
    )
    assert told.step("node-claim")["result"].endswith(f"of NodePool {expected.pool}")
    assert instance["zone"].startswith("us-west-2")
    assert instance["usd_per_hour"] > 0


def test_s0_10_the_pod_waits_for_a_gpu_then_runs_on_the_new_node(told: Outcome, expected: Told) -> None:
    waiting, asked = told.step("pod-pending")["result"].splitlines()
    assert "Insufficient nvidia.com/gpu" in waiting
    assert asked == f"asks NodePool {expected.pool}, {expected.bears}"
    node = told.step("node")["result"].split()[0]
    assert node in told.step("gpu")["result"]
    assert node in told.step("pod-served")["result"]


def test_the_node_is_consolidated_after_the_pools_own_time(told: Outcome, expected: Told) -> None:
    assert f"consolidateAfter is {expected.kept_for}" in told.step("consolidated")["result"]
    assert told.record["instances"][0]["seconds"] > 60 * int(expected.kept_for.removesuffix("m"))


def test_nothing_is_left_behind_but_what_aws_keeps_too(told: Outcome, expected: Told) -> None:
    assert told.record["census"] == {"processes": [], "ports": []}
    said = told.step("census-aws")["result"]
    assert "as on AWS these stay: what cdk bootstrap made" in said
    assert all(kept in said for kept in expected.stays)
    assert ("KMS key" in said) == any("KMS" in kept for kept in expected.stays)


def test_what_is_simulated_is_said(told: Outcome) -> None:
    for name in ("instance", "node", "gpu", "pod-served"):
        assert told.step(name)["simulated"]
        assert f"simulated: {told.step(name)['simulated']}" in told.output


def test_a_run_that_held_leaves_no_folder(told: Outcome, state: Path) -> None:
    assert told.code == 0
    assert not (state / "eks-gpu" / "runs" / told.record["run"]).exists()


def test_the_record_is_json_for_machines(told: Outcome, expected: Told) -> None:
    assert json.loads(json.dumps(told.record)) == told.record
    assert told.record["source"] == f"environment {expected.environment}"
