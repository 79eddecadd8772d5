"""NodePools, and the EC2NodeClasses that they name: what `configuration.pools` holds, as objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cdk8s import ApiObject, Chart
from constructs import Construct

from charts.objects import add_object
from configuration import NodeClass, Pool
from configuration.pools import dump

DISCOVERY_TAG: Final = "karpenter.sh/discovery"
"""Tag of the subnets and the security group that nodes are put in; its value is the cluster's name."""


@dataclass(frozen=True, kw_only=True)
class NodePlacement:
    """Where nodes are put and who they are, where their node class does not say so itself.

    Attributes:
        cluster_name: The EKS cluster that they join; value of the discovery tag.
        role_name: Name, not ARN, of the IAM role that they run as.
        tags: EC2 tags of instances, volumes and network interfaces, beside Karpenter's own.
        subnet_ids: Their subnets, which may be CDK tokens; those with the discovery tag if left out.
        security_group_ids: Their security groups, which may be CDK tokens; those with the discovery tag if left out.
    """

    cluster_name: str
    role_name: str
    tags: Mapping[str, str]
    subnet_ids: Sequence[str] | None = None
    security_group_ids: Sequence[str] | None = None


class NodePoolsChart(Chart):
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
        pools: Sequence[Pool],
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
                self, api_version="karpenter.sh/v1", kind="NodePool", name=pool.name, body={"spec": dump(pool.spec())}
            )
            added.add_dependency(classes[pool.node_class])


def _node_class(node_class: NodeClass, placement: NodePlacement) -> dict[str, Any]:
    # What is put in here was not checked by the types: ids may be tokens, which look like no id.
    derived: dict[str, Any] = {
        "subnetSelectorTerms": _selected(placement.subnet_ids, placement.cluster_name),
        "securityGroupSelectorTerms": _selected(placement.security_group_ids, placement.cluster_name),
    }
    if node_class.instance_profile is None:
        derived["role"] = placement.role_name
    tags = {**placement.tags, **(node_class.tags or {})}
    return derived | dump(node_class) | ({"tags": tags} if tags else {})


def _selected(ids: Sequence[str] | None, cluster_name: str) -> list[dict[str, Any]]:
    if ids is None:
        return [{"tags": {DISCOVERY_TAG: cluster_name}}]
    return [{"id": found} for found in ids]
