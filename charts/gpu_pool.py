"""GPU pools: a NodePool each, and the EC2NodeClasses that they name.

Source of every field: karpenter-provider-aws v1.14.1, pkg/apis/crds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdk8s import ApiObject, Chart
from constructs import Construct

from charts.objects import add_object
from configuration import GpuPool, NodeClass, Requirement, Taint
from configuration.pools import GPU_NODE_LABEL

DISCOVERY_TAG: Final = "karpenter.sh/discovery"
"""Tag of the subnets and the security group that nodes are put in; its value is the cluster's name."""

ROOT_DEVICE: Final = "/dev/xvda"
"""Root device of Amazon Linux 2023."""


@dataclass(frozen=True, kw_only=True)
class NodePlacement:
    """Where nodes are put and who they are.

    Attributes:
        cluster_name: The EKS cluster that they join; value of the discovery tag.
        role_name: Name, not ARN, of the IAM role that they run as.
        tags: EC2 tags of instances, volumes and network interfaces, beside Karpenter's own.
    """

    cluster_name: str
    role_name: str
    tags: Mapping[str, str]


class GpuPoolsChart(Chart):
    """Node classes and pools.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        node_classes: Node classes by name.
        pools: Pools; each names one of the node classes.
        placement: Where their nodes are put.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        node_classes: Mapping[str, NodeClass],
        pools: Sequence[GpuPool],
        placement: NodePlacement,
    ) -> None:
        super().__init__(scope, construct_id)
        classes: dict[str, ApiObject] = {}
        for name, node_class in node_classes.items():
            # Both kinds belong to the whole cluster: a namespace would be dropped without a word.
            classes[name] = add_object(
                self,
                api_version="karpenter.k8s.aws/v1",
                kind="EC2NodeClass",
                name=name,
                body={"spec": _node_class(node_class, placement)},
            )
        for pool in pools:
            added = add_object(
                self, api_version="karpenter.sh/v1", kind="NodePool", name=pool.name, body={"spec": _pool(pool)}
            )
            added.add_dependency(classes[pool.node_class])


def _node_class(node_class: NodeClass, placement: NodePlacement) -> dict[str, Any]:
    discovery = [{"tags": {DISCOVERY_TAG: placement.cluster_name}}]
    volume = node_class.root_volume
    return {
        "role": placement.role_name,
        "amiSelectorTerms": [{"alias": node_class.ami_alias}],
        "subnetSelectorTerms": discovery,
        "securityGroupSelectorTerms": discovery,
        "blockDeviceMappings": [
            {
                "deviceName": ROOT_DEVICE,
                "rootVolume": True,
                "ebs": {
                    "volumeSize": volume.size,
                    "volumeType": volume.type,
                    "encrypted": volume.encrypted,
                    "deleteOnTermination": volume.delete_on_termination,
                },
            }
        ],
        # One hop keeps pods away from the node's credentials; tokens keep out requests forged through a proxy.
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        },
        "tags": dict(placement.tags),
    }


def _pool(pool: GpuPool) -> dict[str, Any]:
    return {
        "template": {
            "metadata": {"labels": {**pool.labels, GPU_NODE_LABEL: "true"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.node_class},
                "requirements": [_requirement(requirement) for requirement in pool.requirements],
                "taints": [_taint(taint) for taint in pool.taints],
                "expireAfter": pool.expire_after,
            },
        },
        "disruption": {
            "consolidationPolicy": pool.disruption.consolidation_policy,
            "consolidateAfter": pool.disruption.consolidate_after,
        },
        "limits": dict(pool.limits),
    }


def _requirement(requirement: Requirement) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    return expression | {"values": list(requirement.values)} if requirement.values else expression


def _taint(taint: Taint) -> dict[str, str]:
    written = {"key": taint.key, "effect": taint.effect}
    return written | {"value": taint.value} if taint.value is not None else written
