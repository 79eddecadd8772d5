"""GPU nodes: by which labels they are known, and what must run on each of them.

One placement for everything that the NVIDIA device plugin's chart puts on nodes. A toleration that one of them lacks is
not seen: node feature discovery that stays off a node leaves it without labels, and the pods that wait for them never
start (NVIDIA/k8s-device-plugin#1934).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from configuration import NodeClass, Taint
from configuration.pools import GPU_NODE_LABEL

COMPUTE_TYPE_LABEL: Final = "eks.amazonaws.com/compute-type"
"""Label that EKS puts on its own nodes; `auto` are those of EKS Auto Mode, which has the device plugin built in.

Source: Amazon EKS user guide, auto-accelerated; aws/eks-charts, aws-efa-k8s-device-plugin, which keeps off them too.
"""

NODE_CLASS_LABEL: Final = "karpenter.k8s.aws/ec2nodeclass"
"""Label that Karpenter puts on each of its nodes: the name of its EC2NodeClass (karpenter-provider-aws v1.14.1)."""

_CHART_TOLERATIONS: Final[list[dict[str, str]]] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]
"""What the chart tolerates by itself (NVIDIA/k8s-device-plugin v0.18.2, values.yaml)."""


def classes_with_plugin(node_classes: Mapping[str, NodeClass]) -> list[str]:
    """Return the names of the node classes whose image registers a node's GPUs by itself: Bottlerocket's.

    A second plugin would fight the built-in one for the kubelet. Source: bottlerocket.dev 1.54,
    settings.kubelet-device-plugins.nvidia; bottlerocket-os/bottlerocket#4309.

    Args:
        node_classes: Node classes by name.
    """
    return sorted(name for name, node_class in node_classes.items() if _is_bottlerocket(node_class))


def _is_bottlerocket(node_class: NodeClass) -> bool:
    aliases = (term.alias or "" for term in node_class.ami_selector_terms)
    return node_class.ami_family == "Bottlerocket" or any(alias.startswith("bottlerocket@") for alias in aliases)


def tolerations(taints: Iterable[Taint]) -> list[dict[str, str]]:
    """Return what tolerates the chart's own taints and each of those given, whatever its value.

    Args:
        taints: The taints of every GPU pool.
    """
    found = list(_CHART_TOLERATIONS)
    for taint in taints:
        # Exists: a pool that gives its taint a value later must not lose its GPUs.
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        if toleration not in found:
            found.append(toleration)
    return found


def where_gpus_are() -> dict[str, Any]:
    """Return the affinity for the nodes of GPU pools, whoever registers their GPUs; never for EKS Auto Mode's."""
    return _node_affinity(_GPU_NODE)


def where_plugin_is_needed(with_plugin: Iterable[str]) -> dict[str, Any]:
    """Return the affinity for the nodes of GPU pools whose image has no device plugin.

    One term, and in it the label that only GPU pools carry. The chart's own terms go by what node feature discovery
    finds, which is there on Bottlerocket's and Auto Mode's GPU nodes as well.

    Args:
        with_plugin: Names of the node classes whose image has one.
    """
    classes = sorted(with_plugin)
    without = {"key": NODE_CLASS_LABEL, "operator": "NotIn", "values": classes}
    return _node_affinity([*_GPU_NODE, without] if classes else _GPU_NODE)


_GPU_NODE: Final[list[dict[str, Any]]] = [
    {"key": GPU_NODE_LABEL, "operator": "In", "values": ["true"]},
    {"key": COMPUTE_TYPE_LABEL, "operator": "NotIn", "values": ["auto"]},
]


def _node_affinity(all_of: list[dict[str, Any]]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(all_of)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
