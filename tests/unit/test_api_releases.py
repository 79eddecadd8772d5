"""What older releases of Karpenter do not know of their API."""

from collections.abc import Mapping
from typing import Any

import pytest

from configuration.api import EC2NodeClassSpec, NodePoolSpec, unknown_to

NEWEST = "1.14.1"

CLASS: Mapping[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
    "subnetSelectorTerms": [{"id": "subnet-0a"}],
    "securityGroupSelectorTerms": [{"id": "sg-0a"}],
}


def _pool(*requirements: Mapping[str, Any], labels: Mapping[str, str] | None = None, **spec: Any) -> NodePoolSpec:
    template = {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": list(requirements)}
    content = {"template": {"metadata": {"labels": dict(labels or {})}, "spec": template}, **spec}
    return NodePoolSpec.model_validate(content, by_name=False)


def _key(key: str) -> NodePoolSpec:
    return _pool({"key": key, "operator": "Exists"})


def _class(**spec: Any) -> EC2NodeClassSpec:
    return EC2NodeClassSpec.model_validate({**CLASS, **spec}, by_name=False)


@pytest.mark.parametrize(
    ("spec", "thing", "since", "before"),
    [
        (_pool({"key": "a", "operator": "Gte", "values": ["1"]}), "operator Gte on a", "1.9", "1.8.8"),
        (_pool({"key": "a", "operator": "Lte", "values": ["1"]}), "operator Lte on a", "1.9", "1.8.8"),
        (
            _key("karpenter.k8s.aws/instance-tenancy"),
            "label karpenter.k8s.aws/instance-tenancy",
            "1.9",
            "1.8.8",
        ),
        (
            _key("karpenter.k8s.aws/capacity-reservation-interruptible"),
            "label karpenter.k8s.aws/capacity-reservation-interruptible",
            "1.10",
            "1.9.2",
        ),
        (
            _pool(labels={"karpenter.k8s.aws/placement-group-id": "pg-0a"}),
            "label karpenter.k8s.aws/placement-group-id",
            "1.11",
            "1.10.2",
        ),
        (
            _key("karpenter.k8s.aws/placement-group-partition"),
            "label karpenter.k8s.aws/placement-group-partition",
            "1.11",
            "1.10.2",
        ),
        (
            _pool(disruption={"consolidateAfter": "1m", "consolidationPolicy": "Balanced"}),
            "consolidationPolicy Balanced",
            "1.14",
            "1.13.1",
        ),
        (_key("example.kubernetes.io/a"), "label example.kubernetes.io/a", "1.9", "1.8.8"),
        (_key("topology.k8s.aws/zone-id"), None, "", "1.8.0"),
        (_pool(labels={"a.k8s.io/b": "c"}), "label a.k8s.io/b", "1.9", "1.8.8"),
        (_class(placementGroupSelector={"id": "pg-0a"}), "placementGroupSelector", "1.11", "1.10.2"),
        (_class(networkInterfaces=[]), "networkInterfaces", "1.11", "1.10.2"),
        (_class(connectionTracking={"udpTimeout": 30}), "connectionTracking", "1.13", "1.12.2"),
        (_class(cpuOptions={}), "cpuOptions", "1.13", "1.12.2"),
        (
            _class(amiSelectorTerms=[{"id": "ami-0a"}], amiFamily="Windows2025"),
            "amiFamily Windows2025",
            "1.9",
            "1.8.8",
        ),
        (
            _class(amiSelectorTerms=[{"alias": "windows2025@latest"}]),
            "alias windows2025@latest",
            "1.9",
            "1.8.8",
        ),
    ],
)
def test_a_release_does_not_know_what_came_after_it(
    spec: NodePoolSpec | EC2NodeClassSpec, thing: str | None, since: str, before: str
) -> None:
    expected = [f"{thing} needs Karpenter >= {since}, and karpenter.version is {before}; raise it or remove this"]
    assert unknown_to(before, spec) == (expected if thing else [])
    assert unknown_to(f"{since}.0" if thing else NEWEST, spec) == []
    assert unknown_to(NEWEST, spec) == []


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/arch",
        "topology.kubernetes.io/zone",
        "node.kubernetes.io/instance-type",
        "a.node-restriction.kubernetes.io/b",
        "kops.k8s.io/instancegroup",
        "karpenter.sh/capacity-type",
        "nvidia.com/gpu.present",
        "nodeType",
    ],
)
def test_these_labels_were_always_taken(key: str) -> None:
    assert unknown_to("1.8.0", _key(key)) == []
