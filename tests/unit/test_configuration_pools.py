"""What the API would take of a pool or a node class, and nobody means or Karpenter cannot use."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from configuration import CpuPool, GpuPool, NodeClass
from configuration.karpenter import Karpenter
from configuration.placement import check_pools

GPU: Mapping[str, Any] = {
    "name": "mine",
    "nodeClass": "mine",
    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
    "limits": {"nvidia.com/gpu": 8},
}
CPU: Mapping[str, Any] = {"name": "mine", "nodeClass": "mine"}
CLASS: Mapping[str, Any] = {"amiSelectorTerms": [{"alias": "al2023@v20260714"}]}
CAPACITY = "karpenter.sh/capacity-type"


def _refusal(load: Callable[[], Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        load()
    (details,) = caught.value.errors()
    return details["msg"].removeprefix("Value error, ")


def _requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"requirements": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            _requirement("eks.amazonaws.com/instance-family", "In", "g6"),
            "eks.amazonaws.com/instance-family belongs to EKS Auto Mode; open-source Karpenter would accept it and "
            "filter nothing; write karpenter.k8s.aws/instance-family",
        ),
        (_requirement(CAPACITY, "In", "ondemand"), f"{CAPACITY} is never ondemand; use on-demand, spot, reserved"),
        (
            _requirement("karpenter.k8s.aws/instance-tenancy", "NotIn", "shared"),
            "karpenter.k8s.aws/instance-tenancy is never shared; use default, dedicated",
        ),
        (_requirement("team", "NotIn"), "operator NotIn on team needs at least one value; add values: [...]"),
        (_requirement("team", "Exists", "a"), "operator Exists on team takes no values; remove ['a']"),
        (
            _requirement("team", "In", "a b"),
            "values: 'a b' is no label's value, so that team can never have it",
        ),
        ({"labels": {CAPACITY: "ondemand"}}, f"{CAPACITY} is never ondemand; use on-demand, spot, reserved"),
        (
            {"labels": {"my team": "a"}},
            "'my team' is no label's key: write a name such as team, or a domain and a name, such as a.b/c",
        ),
        (
            {"startupTaints": [{"key": "gpu", "value": "other", "effect": "NoSchedule"}]},
            "taint gpu:NoSchedule is given twice; keep one",
        ),
        ({"limits": {"cpu": -1}}, "cpu -1 is negative, so that no node could ever be bought; write 0 or more"),
        (
            {"limits": {"cpu": 1000}},
            "limits: a GPU pool needs a limit on nvidia.com/gpu, the most GPUs it may hold: no other limit bounds what "
            "it may cost; add for example nvidia.com/gpu: 8",
        ),
        (
            {"replicas": 1},
            "limits: a pool with replicas takes a limit on nodes alone; remove replicas or the other limits",
        ),
        (
            {"replicas": 1, "weight": 1, "limits": {}},
            "weight: a pool with replicas takes no weight; remove one of the two",
        ),
    ],
)
def test_a_pool_that_cannot_work_is_refused(content: Mapping[str, Any], words: str) -> None:
    assert _refusal(lambda: GpuPool.model_validate({**GPU, **content}, by_name=False)) == words


def test_a_cpu_pool_needs_neither_taint_nor_limit() -> None:
    pool = CpuPool.model_validate(CPU, by_name=False)
    assert [requirement.key for requirement in pool.spec().template.spec.requirements] == ["kubernetes.io/os"]


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket"])
def test_s0_8_a_deep_learning_ami_never_joins(family: str) -> None:
    name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) *"
    content = {"amiFamily": family, "amiSelectorTerms": [{"name": name, "owner": "amazon"}]}
    assert _refusal(lambda: NodeClass.model_validate(content, by_name=False)) == (
        f"amiSelectorTerms[0].name: {name} is a Deep Learning AMI, which has no nodeadm: with amiFamily {family} the "
        f"node never joins, and Karpenter replaces it every 15 minutes; write alias: al2023@vYYYYMMDD, whose "
        f"accelerated variant has NVIDIA's driver"
    )
    own = NodeClass.model_validate({**content, "amiFamily": "Custom"}, by_name=False)
    assert own.ami_selector_terms[0].name == name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"role": "a", "instanceProfile": "b"}, "instanceProfile: stands instead of role; remove one of the two"),
        (
            {"amiSelectorTerms": [{"alias": "bottlerocket@1.54"}]},
            "amiSelectorTerms[0].alias: bottlerocket@1.54 must be bottlerocket@vX.Y.Z, a release listed at "
            "https://github.com/bottlerocket-os/bottlerocket/releases (or bottlerocket@latest, and then every release "
            "replaces every node)",
        ),
        (
            {"blockDeviceMappings": [{"ebs": {"volumeSize": "Ti"}}]},
            "blockDeviceMappings[0].ebs.volumeSize: Ti has no number; write for example 1Ti",
        ),
    ],
)
def test_a_node_class_that_cannot_work_is_refused(content: Mapping[str, Any], words: str) -> None:
    assert _refusal(lambda: NodeClass.model_validate({**CLASS, **content}, by_name=False)) == words


def _karpenter(**content: Any) -> Karpenter:
    needed = {"namespace": "karpenter", "serviceAccount": "karpenter", "replicas": 1, "cpu": "1", "memory": "1Gi"}
    return Karpenter.model_validate({"version": "1.14.1", **needed, **content}, by_name=False)


def _check(pool: Mapping[str, Any], node_class: Mapping[str, Any], karpenter: Karpenter) -> None:
    check_pools(
        {"cpuPools": [CpuPool.model_validate({**CPU, **pool}, by_name=False)]},
        {"mine": NodeClass.model_validate({**CLASS, **node_class}, by_name=False)},
        karpenter,
    )


def test_reservations_that_a_pool_may_not_buy_are_refused() -> None:
    reservations = {"capacityReservationSelectorTerms": [{"tags": {"team": "vision"}}]}
    bought: list[dict[str, Any]] = [
        {},
        _requirement(CAPACITY, "In", "reserved", "spot"),
        _requirement(CAPACITY, "Exists"),
    ]
    for pool in bought:
        _check(pool, reservations, _karpenter())
    never: list[dict[str, Any]] = [
        _requirement(CAPACITY, "In", "on-demand"),
        _requirement(CAPACITY, "NotIn", "reserved"),
        {"labels": {CAPACITY: "spot"}},
    ]
    for pool in never:
        with pytest.raises(ValueError, match=r"^cpuPools\[0\]\.requirements: node class mine selects capacity reserv"):
            _check(pool, reservations, _karpenter())


def test_a_fixed_number_of_nodes_needs_its_feature_gate() -> None:
    _check({"replicas": 1}, {}, _karpenter(featureGates={"staticCapacity": True}))
    with pytest.raises(ValueError, match=r"^cpuPools\[0\]\.replicas: .*featureGates\.staticCapacity: true"):
        _check({"replicas": 1}, {}, _karpenter())


def test_what_karpenters_release_does_not_know_is_refused() -> None:
    balanced = {"disruption": {"consolidationPolicy": "Balanced", "consolidateAfter": "1m"}}
    with pytest.raises(ValueError, match=r"^cpuPools\[0\]: consolidationPolicy Balanced needs Karpenter >= 1\.14"):
        _check(balanced, {}, _karpenter(version="1.13.1"))
    with pytest.raises(ValueError, match=r"^nodeClasses\.mine: cpuOptions needs Karpenter >= 1\.13"):
        _check({}, {"cpuOptions": {}}, _karpenter(version="1.12.2"))


def test_a_node_class_that_nobody_defines_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^cpuPools\[0\]\.nodeClass: nobody defines 'other'; use one of mine, or add"):
        _check({"nodeClass": "other"}, {}, _karpenter())


def test_s2_2_an_unpinned_image_is_a_warning() -> None:
    latest = NodeClass.model_validate({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, by_name=False)
    assert latest.warnings() == [
        "alias al2023@latest: every release of the image replaces every node; pin one, such as al2023@vYYYYMMDD"
    ]
    assert NodeClass.model_validate(CLASS, by_name=False).warnings() == []


def test_windows_which_cannot_be_pinned_is_none() -> None:
    windows = NodeClass.model_validate({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}, by_name=False)
    assert windows.warnings() == []


def test_a_pool_without_any_bound_on_its_cost_is_a_warning() -> None:
    on_demand = {**CPU, **_requirement(CAPACITY, "In", "on-demand")}
    pools = [on_demand, {**on_demand, "limits": {"cpu": 1}}, CPU, {**on_demand, "replicas": 1}]
    unbounded, *bounded = [CpuPool.model_validate(pool, by_name=False) for pool in pools]
    assert unbounded.warnings() == [
        "has neither limits nor spot capacity: nothing bounds what it may cost; add for example cpu: 1000"
    ]
    assert [pool.warnings() for pool in bounded] == [[], [], []]
