"""NodePools and EC2NodeClasses as they are applied, row by row; without CDK."""

from collections.abc import Mapping
from typing import Any

import cdk8s
import pytest

from charts import NodePlacement, NodePoolsChart
from configuration import CpuPool, Environment, GpuPool, NodeClass, Pool, Requirement, Taint

PLACEMENT = NodePlacement(cluster_name="gpus", role_name="KarpenterNodeRole-gpus", tags={"team": "vision"})
DISCOVERY = [{"tags": {"karpenter.sh/discovery": "gpus"}}]

LINUX = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
AMD64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
NVIDIA = [
    {"key": "karpenter.k8s.aws/instance-gpu-manufacturer", "operator": "In", "values": ["nvidia"]},
    {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]},
    {"key": "karpenter.k8s.aws/instance-family", "operator": "NotIn", "values": ["g3", "g3s", "g7", "p2"]},
]
METADATA_OPTIONS = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 1,
    "httpTokens": "required",
}

Objects = Mapping[str, dict[str, Any]]


def _capacity(*types: str) -> dict[str, Any]:
    return {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(types)}


def _category(*categories: str) -> dict[str, Any]:
    return {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": list(categories)}


def _chart(classes: Mapping[str, NodeClass], *pools: Pool, placement: NodePlacement = PLACEMENT) -> Objects:
    chart = NodePoolsChart(cdk8s.App(), "pools", node_classes=classes, pools=pools, placement=placement)
    rendered: list[dict[str, Any]] = chart.to_json()
    return {f"{found['kind']}/{found['metadata']['name']}": found for found in rendered}


@pytest.fixture(scope="module")
def objects(environment: Environment) -> Objects:
    return _chart(environment.node_classes, *environment.pools)


def _node_pool(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def _node_class(name: str, **spec: Any) -> dict[str, Any]:
    derived = {
        "role": "KarpenterNodeRole-gpus",
        "subnetSelectorTerms": DISCOVERY,
        "securityGroupSelectorTerms": DISCOVERY,
        "metadataOptions": METADATA_OPTIONS,
        "tags": {"team": "vision"},
    }
    metadata = {"name": name}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": metadata,
        "spec": {**derived, **spec},
    }


def _root(size: str) -> list[dict[str, Any]]:
    ebs = {"volumeSize": size, "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True}
    return [{"deviceName": "/dev/xvda", "rootVolume": True, "ebs": ebs}]


def _reference(name: str) -> dict[str, str]:
    return {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}


def test_s0_9_the_pool(objects: Objects) -> None:
    assert objects["NodePool/gpu-pool"] == _node_pool(
        "gpu-pool",
        {
            "template": {
                "metadata": {"labels": {"nvidia.com/gpu.present": "true"}},
                "spec": {
                    "nodeClassRef": _reference("default"),
                    "requirements": [AMD64, LINUX, _capacity("on-demand"), _category("g", "p"), *NVIDIA],
                    "taints": [{"key": "gpu-workload", "effect": "NoSchedule"}],
                    "expireAfter": "720h",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
            "limits": {"cpu": 1000, "nvidia.com/gpu": 8},
        },
    )


def test_s0_9_the_node_class(objects: Objects) -> None:
    assert objects["EC2NodeClass/default"] == _node_class(
        "default", amiSelectorTerms=[{"alias": "al2023@v20260714"}], blockDeviceMappings=_root("100Gi")
    )


def test_s2_2_the_pool_with_spot_capacity(objects: Objects) -> None:
    assert objects["NodePool/gpu"] == _node_pool(
        "gpu",
        {
            "template": {
                "metadata": {"labels": {"nodeType": "nvidia", "nvidia.com/gpu.present": "true"}},
                "spec": {
                    "nodeClassRef": _reference("gpu"),
                    "requirements": [AMD64, _capacity("spot", "on-demand"), _category("g", "p"), LINUX, *NVIDIA],
                    "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
                    "expireAfter": "720h",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "20m"},
            "limits": {"cpu": 1000, "nvidia.com/gpu": 8},
        },
    )


def test_s2_2_the_node_class_with_room_for_large_images(objects: Objects) -> None:
    assert objects["EC2NodeClass/gpu"] == _node_class(
        "gpu", amiSelectorTerms=[{"alias": "al2023@v20260714"}], blockDeviceMappings=_root("300Gi")
    )


def test_s4_1_the_default_pool_without_gpus(objects: Objects) -> None:
    generation = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}
    assert objects["NodePool/default"] == _node_pool(
        "default",
        {
            "template": {
                "spec": {
                    "nodeClassRef": _reference("cpu"),
                    "requirements": [AMD64, LINUX, _capacity("on-demand"), _category("c", "m", "r"), generation],
                    "expireAfter": "720h",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
            "limits": {"cpu": 1000},
        },
    )
    assert objects["EC2NodeClass/cpu"] == _node_class("cpu", amiSelectorTerms=[{"alias": "al2023@v20260714"}])


def test_s4_4_the_spot_pool_on_bottlerocket(objects: Objects, environment: Environment) -> None:
    generation = {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]}
    assert objects["NodePool/spot"] == _node_pool(
        "spot",
        {
            "template": {
                "spec": {
                    "nodeClassRef": _reference("spot"),
                    "requirements": [AMD64, LINUX, _capacity("spot"), _category("c", "m", "r"), generation],
                    "expireAfter": "720h",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
            "limits": {"cpu": 1000},
        },
    )
    assert objects["EC2NodeClass/spot"] == _node_class("spot", amiSelectorTerms=[{"alias": "bottlerocket@v1.54.0"}])
    assert environment.karpenter.feature_gates.spot_to_spot_consolidation


def test_every_row_is_there_and_nothing_else(objects: Objects) -> None:
    assert sorted(objects) == [
        "EC2NodeClass/cpu",
        "EC2NodeClass/default",
        "EC2NodeClass/gpu",
        "EC2NodeClass/spot",
        "NodePool/default",
        "NodePool/gpu",
        "NodePool/gpu-pool",
        "NodePool/spot",
    ]


CLASS = NodeClass.model_validate({"amiSelectorTerms": [{"alias": "al2023@v20260714"}]})
POOL: dict[str, Any] = {
    "name": "mine",
    "nodeClass": "mine",
    "taints": [{"key": "gpu", "effect": "NoSchedule"}],
    "limits": {"nvidia.com/gpu": 8},
}


def test_a_gpu_pool_of_four_lines_is_complete() -> None:
    template = _chart({"mine": CLASS}, GpuPool.model_validate(POOL))["NodePool/mine"]["spec"]["template"]
    assert template == {
        "metadata": {"labels": {"nvidia.com/gpu.present": "true"}},
        "spec": {
            "nodeClassRef": _reference("mine"),
            "requirements": [LINUX, *NVIDIA],
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
            "expireAfter": "720h",
        },
    }


def test_what_a_pool_says_itself_is_not_added_to() -> None:
    family = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g7"]}
    pool = GpuPool.model_validate({**POOL, "requirements": [family], "labels": {"kubernetes.io/os": "linux"}})
    spec = _chart({"mine": CLASS}, pool)["NodePool/mine"]["spec"]
    assert spec["template"]["spec"]["requirements"] == [family, *NVIDIA[:2]]


def test_every_field_of_a_pool_reaches_its_node_pool() -> None:
    pool = CpuPool.model_validate(
        {
            "name": "mine",
            "nodeClass": "mine",
            "labels": {"team": "vision"},
            "annotations": {"example.com/owner": "vision"},
            "requirements": [{**_category("c", "m"), "minValues": 2}, LINUX],
            "taints": [{"key": "batch", "effect": "NoExecute"}],
            "startupTaints": [{"key": "cni", "value": "starting", "effect": "NoSchedule"}],
            "limits": {"memory": "100Gi", "nodes": 5},
            "disruption": {
                "consolidationPolicy": "Balanced",
                "consolidateAfter": "5m",
                "budgets": [{"nodes": "0", "reasons": ["Drifted"], "schedule": "@daily", "duration": "8h"}],
            },
            "expireAfter": "Never",
            "terminationGracePeriod": "1h",
            "weight": 10,
        }
    )
    assert set(pool.model_dump(exclude_unset=True)) | {"replicas"} == set(CpuPool.model_fields)
    assert _chart({"mine": CLASS}, pool)["NodePool/mine"]["spec"] == {
        "template": {
            "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "vision"}},
            "spec": {
                "nodeClassRef": _reference("mine"),
                "requirements": [{**_category("c", "m"), "minValues": 2}, LINUX],
                "taints": [{"key": "batch", "effect": "NoExecute"}],
                "startupTaints": [{"key": "cni", "value": "starting", "effect": "NoSchedule"}],
                "expireAfter": "Never",
                "terminationGracePeriod": "1h",
            },
        },
        "disruption": {
            "consolidationPolicy": "Balanced",
            "consolidateAfter": "5m",
            "budgets": [{"nodes": "0", "reasons": ["Drifted"], "schedule": "@daily", "duration": "8h"}],
        },
        "limits": {"memory": "100Gi", "nodes": 5},
        "weight": 10,
    }


def test_a_pool_of_a_fixed_size_says_how_many() -> None:
    pool = CpuPool(name="mine", node_class="mine", replicas=0)
    assert _chart({"mine": CLASS}, pool)["NodePool/mine"]["spec"]["replicas"] == 0


def test_a_node_class_says_where_and_who_itself() -> None:
    subnets, groups = [{"tags": {"tier": "gpu"}}], [{"name": "gpu-nodes"}]
    node_class = NodeClass.model_validate(
        {
            "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
            "instanceProfile": "gpu-nodes",
            "subnetSelectorTerms": subnets,
            "securityGroupSelectorTerms": groups,
            "metadataOptions": {"httpPutResponseHopLimit": 2},
            "tags": {"team": "speech", "queue": "night"},
        }
    )
    assert _chart({"mine": node_class})["EC2NodeClass/mine"]["spec"] == {
        "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
        "instanceProfile": "gpu-nodes",
        "subnetSelectorTerms": subnets,
        "securityGroupSelectorTerms": groups,
        "metadataOptions": {"httpPutResponseHopLimit": 2},
        "tags": {"team": "speech", "queue": "night"},
    }


def test_nodes_are_put_in_subnets_and_groups_by_id_where_they_are_given() -> None:
    placement = NodePlacement(
        cluster_name="gpus",
        role_name="nodes",
        tags={},
        subnet_ids=["subnet-1", "${Token[TOKEN.1]}"],
        security_group_ids=["${Token[TOKEN.2]}"],
    )
    spec = _chart({"mine": CLASS}, placement=placement)["EC2NodeClass/mine"]["spec"]
    assert spec["subnetSelectorTerms"] == [{"id": "subnet-1"}, {"id": "${Token[TOKEN.1]}"}]
    assert spec["securityGroupSelectorTerms"] == [{"id": "${Token[TOKEN.2]}"}]
    assert "tags" not in spec


def test_a_pool_waits_for_its_node_class(environment: Environment) -> None:
    chart = NodePoolsChart(
        cdk8s.App(), "pools", node_classes=environment.node_classes, pools=environment.pools, placement=PLACEMENT
    )
    found = {child.node.id: child for child in chart.node.children}
    for pool in environment.pools:
        needed = [str(other.node.id) for other in found[f"NodePool-{pool.name}"].node.dependencies]
        assert needed == [f"EC2NodeClass-{pool.node_class}"]


def test_pools_can_be_built_in_python_too() -> None:
    pool = GpuPool(
        name="mine",
        node_class="mine",
        requirements=(Requirement(key="karpenter.sh/capacity-type", operator="In", values=("spot",)),),
        taints=(Taint(key="gpu", effect="NoSchedule"),),
        limits={"nvidia.com/gpu": 1},
    )
    assert pool.capacity_types() == {"spot"}
