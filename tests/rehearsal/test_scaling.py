"""The workshop's CPU pool as S4 has it: scaled up for pending pods, and down to a smaller node when they are gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from rehearsal.kubernetes.api import KubeApi, Manifest

from .conftest import PROJECT, SCRIPTS, Rehearse

CORES = {"medium": 1, "large": 2, "xlarge": 4}


@pytest.fixture
def cluster(rehearse: Rehearse, assembly: Path, state: Path) -> Iterator[KubeApi]:
    """A deployed workshop, kept running for the test."""
    outcome = rehearse("--assembly", assembly, "--keep")
    try:
        assert outcome.code == 0
        (line,) = [line for line in outcome.output.splitlines() if line.startswith("export KUBECONFIG=")]
        api = KubeApi(Path(line.removeprefix("export KUBECONFIG=")), manager="test")
        yield api
        api.close()
    finally:
        down = [SCRIPTS / "rehearse", "down", outcome.record["run"]]
        subprocess.run(down, env=os.environ | {"XDG_STATE_HOME": str(state)}, check=True)


def _until(find: Callable[[], list[Manifest] | None], within_s: float, what: str) -> list[Manifest]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.2)
    pytest.fail(f"not within {within_s:.0f} s: {what}")


def _cores(claim: Manifest) -> int:
    """Return the vCPU of a claim's instance, by EC2's names: 2xlarge has 8."""
    size = claim["metadata"]["labels"]["node.kubernetes.io/instance-type"].partition(".")[2]
    return CORES[size] if size in CORES else 4 * int(size.removesuffix("xlarge"))


def _is(claim: Manifest, condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in claim.get("status", {}).get("conditions", []))


def _running(api: KubeApi) -> list[Manifest]:
    return [pod for pod in api.list("Pod", labels={"app": "inflate"}) if pod["status"].get("phase") == "Running"]


def test_s4_2_s4_3_five_replicas_get_a_node_and_one_gets_a_smaller(cluster: KubeApi) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "charts", "inflate"], cwd=PROJECT, check=True, capture_output=True, text=True
    )
    inflate = yaml.safe_load(printed.stdout)
    inflate["metadata"]["namespace"] = "default"
    # The pool of S4.1, not the spot pool beside it, whose Bottlerocket nodes a rehearsal does not have.
    inflate["spec"]["template"]["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": "default"}
    cluster.apply(inflate)

    def ready() -> list[Manifest] | None:
        claims = cluster.list("NodeClaim")
        done = claims and all(_is(claim, c) for claim in claims for c in ("Launched", "Registered", "Initialized"))
        return claims if done and len(_running(cluster)) == 5 else None

    before = _until(ready, 90, "five replicas run on initialized NodeClaims")
    assert sum(_cores(claim) for claim in before) > 5
    nodes = {claim["status"]["nodeName"] for claim in before}

    cluster.patch("Deployment", "inflate", {"spec": {"replicas": 1}}, "default")
    tainted: set[str] = set()

    def replaced() -> list[Manifest] | None:
        for node in cluster.list("Node"):
            if any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", [])):
                tainted.add(node["metadata"]["name"])
        claims = cluster.list("NodeClaim")
        gone = not nodes & {claim.get("status", {}).get("nodeName", "") for claim in claims}
        return claims if gone and claims and len(_running(cluster)) == 1 else None

    (after,) = _until(replaced, 300, "the node is replaced by a smaller one")
    assert tainted & nodes, "the old node was tainted karpenter.sh/disrupted before it went"
    assert _cores(after) < sum(_cores(claim) for claim in before)
