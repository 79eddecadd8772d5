"""Which GPU NodePool a scenario asks, and what a pod must bear to be served by it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

GPU = "nvidia.com/gpu"
POOL_LABEL = "karpenter.sh/nodepool"

Manifest = dict[str, Any]

_KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


def is_gpu_pool(pool: Mapping[str, Any]) -> bool:
    """Whether a NodePool is for GPUs: it limits ``nvidia.com/gpu``, or its requirements ask for a kind of GPU."""
    spec = pool["spec"]
    asked = [str(r.get("key")) for r in spec["template"]["spec"].get("requirements", [])]
    return GPU in spec.get("limits", {}) or any(key.startswith("karpenter.k8s.aws/instance-gpu-") for key in asked)


def choose(pools: Sequence[Manifest]) -> Manifest | None:
    """The GPU pool whose empty nodes go soonest, the first by name among equals; None where there is none.

    Its ``consolidateAfter`` is waited for in real time. A pool that is never consolidated comes last.
    """
    gpu_pools = [pool for pool in pools if is_gpu_pool(pool)]
    return min(gpu_pools, key=lambda pool: (seconds(consolidate_after(pool)), pool["metadata"]["name"]), default=None)


def consolidate_after(pool: Mapping[str, Any]) -> str:
    """How long a pool keeps an empty node, as it says; Karpenter's default is no wait."""
    return str(pool.get("spec", {}).get("disruption", {}).get("consolidateAfter", "0s"))


def seconds(duration: str) -> float:
    """Seconds of a duration such as ``1m30s``; infinite for ``Never``."""
    if duration == "Never":
        return float("inf")
    units = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+)([hms])", duration)))


def fit(pod: Manifest, pool: Manifest, pools: Sequence[Manifest]) -> Manifest:
    """A pod that the pool can serve and no other GPU pool will.

    Args:
        pod: the scenario's pod; returned as it is where it fits already.
        pool: the pool that is to serve it.
        pools: all NodePools of the cluster.
    """
    fitting = copy.deepcopy(pod)
    if not _tolerates(fitting, pool):
        fitting["spec"]["tolerations"] = [
            {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} for taint in _taints(pool)
        ]
    name = pool["metadata"]["name"]
    if any(_tolerates(fitting, other) for other in pools if other["metadata"]["name"] != name and is_gpu_pool(other)):
        fitting["spec"]["nodeSelector"] = {**fitting["spec"].get("nodeSelector", {}), POOL_LABEL: name}
    return fitting


def describe(pod: Manifest) -> str:
    """What a pod bears to be served, in words: the taints that it tolerates and the pool that it selects."""
    tolerated = ", ".join(
        ":".join(filter(None, (t["key"], t.get("effect")))) for t in pod["spec"].get("tolerations", [])
    )
    selected = pod["spec"].get("nodeSelector", {}).get(POOL_LABEL)
    said = [f"tolerates {tolerated}"] if tolerated else ["tolerates no taint"]
    return ", ".join(said + ([f"selects NodePool {selected}"] if selected else []))


def _taints(pool: Mapping[str, Any]) -> list[Manifest]:
    """The pool's lasting taints that keep pods away."""
    taints: list[Manifest] = pool["spec"]["template"]["spec"].get("taints", [])
    return [taint for taint in taints if taint["effect"] in _KEEPS_PODS_AWAY]


def _tolerates(pod: Manifest, pool: Mapping[str, Any]) -> bool:
    tolerations: list[Manifest] = pod["spec"].get("tolerations", [])
    return all(any(_matches(toleration, taint) for toleration in tolerations) for taint in _taints(pool))


def _matches(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Kubernetes documentation, "Taints and Tolerations"."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
