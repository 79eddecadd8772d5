"""Which GPU pool a scenario asks, and what its pod must bear for it."""

from __future__ import annotations

from typing import Any

from rehearsal import scenarios
from rehearsal.scenarios import gpu_pool


def _pool(
    name: str, after: str | None, *taints: dict[str, str], gpus: int | None = 8, **requirement: str
) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"taints": list(taints), "requirements": [requirement] if requirement else []}},
            "limits": {"cpu": "1000"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {}),
            "disruption": {"consolidateAfter": after} if after else {},
        },
    }


WORKSHOP = _pool("gpu-pool", "1m", {"key": "gpu-workload", "effect": "NoSchedule"})
NVIDIA = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TRAINING = {"key": "workload", "value": "training", "effect": "NoSchedule"}
POD = scenarios.pod("one_gpu")


def test_s0_10_the_workshops_pod_stays_as_it_is_written() -> None:
    pools = [WORKSHOP, _pool("gpu", "20m", NVIDIA), _pool("default", "30s", gpus=None)]
    pool = gpu_pool.choose(pools)
    assert pool is WORKSHOP
    assert gpu_pool.fit(POD, WORKSHOP, pools) == POD
    assert POD["spec"]["tolerations"] == [{"key": "gpu-workload", "operator": "Exists"}]


def test_the_pool_that_is_consolidated_soonest_is_asked_and_the_first_by_name_among_equals() -> None:
    def chosen(*pools: dict[str, Any]) -> str | None:
        found = gpu_pool.choose(pools)
        return found["metadata"]["name"] if found else None

    assert chosen(_pool("a", "1h30m"), _pool("b", "90s"), _pool("c", "2m")) == "b"
    assert chosen(_pool("b", "60s"), _pool("a", "1m")) == "a"
    assert chosen(_pool("a", "Never"), _pool("b", "1h")) == "b"
    assert chosen(_pool("a", "1m"), _pool("b", None)) == "b"
    assert chosen(_pool("cpu", "1s", gpus=None)) is None
    assert chosen(_pool("asks", "1s", gpus=None, key="karpenter.k8s.aws/instance-gpu-count")) == "asks"
    assert chosen() is None


def test_the_pod_tolerates_the_taints_of_the_pool() -> None:
    pool = _pool("gpu", "2m", NVIDIA, {"key": "soft", "effect": "PreferNoSchedule"})
    pod = gpu_pool.fit(POD, pool, [pool, _pool("training", "5m", NVIDIA, TRAINING)])
    assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "nodeSelector" not in pod["spec"]
    assert gpu_pool.describe(pod) == "tolerates nvidia.com/gpu:NoSchedule"
    assert POD["spec"]["tolerations"] == [{"key": "gpu-workload", "operator": "Exists"}]


def test_the_pod_selects_the_pool_where_another_gpu_pool_would_take_it() -> None:
    pool = _pool("strict", "1m", NVIDIA, TRAINING)
    pod = gpu_pool.fit(POD, pool, [pool, _pool("open", "5m", NVIDIA), _pool("cpu", "5m", gpus=None)])
    assert pod["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": "strict"}
    assert gpu_pool.describe(pod).endswith(", selects NodePool strict")
    alone = gpu_pool.fit(POD, pool, [pool, _pool("cpu", "5m", gpus=None)])
    assert "nodeSelector" not in alone["spec"]
