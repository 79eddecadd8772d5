"""Labels that a NodePool may not set or ask for."""

import re
from typing import Final

CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"

_DOCUMENTED: Final = "https://karpenter.sh/docs/concepts/scheduling/#well-known-labels"

WELL_KNOWN_AWS_LABELS: Final = frozenset(
    f"karpenter.k8s.aws/{name}"
    for name in (
        *("capacity-reservation-id", "capacity-reservation-interruptible", "capacity-reservation-type"),
        *("ec2nodeclass", "instance-accelerator-count", "instance-accelerator-manufacturer"),
        *("instance-accelerator-name", "instance-capability-flex", "instance-category", "instance-cpu"),
        *("instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-ebs-bandwidth"),
        *("instance-encryption-in-transit-supported", "instance-family", "instance-generation"),
        *("instance-gpu-count", "instance-gpu-manufacturer", "instance-gpu-memory", "instance-gpu-name"),
        *("instance-hypervisor", "instance-local-nvme", "instance-memory", "instance-network-bandwidth"),
        *("instance-size", "instance-tenancy", "placement-group-id", "placement-group-partition"),
    )
)
"""The labels of domain karpenter.k8s.aws that the NodePool CRD accepts.

Source: karpenter-provider-aws v1.14.1, pkg/apis/crds/karpenter.sh_nodepools.yaml, the rule on `karpenter.k8s.aws`.
"""


def domain_of(key: str) -> str:
    """Return the part of a label's key before its first slash: the whole key where there is none."""
    found = re.match("[^/]+", key)
    return found[0] if found else ""


def check_label_key(key: str) -> str:
    """Refuse a label of a domain that is Karpenter's own, as the CRDs do: domains are compared by their end.

    Args:
        key: The key of a label or of a requirement.

    Returns:
        The key.

    Raises:
        ValueError: It is not one of the labels of a restricted domain that may be used.
    """
    domain = domain_of(key)
    if domain.endswith("karpenter.k8s.aws") and key not in WELL_KNOWN_AWS_LABELS:
        raise ValueError(f"{key} is not a label of Karpenter's; those it knows: {_DOCUMENTED}")
    if domain.endswith("karpenter.sh") and key != CAPACITY_TYPE:
        raise ValueError(f"{key} is set by Karpenter itself; of this domain only {CAPACITY_TYPE} may be used")
    if key == "kubernetes.io/hostname":
        raise ValueError("kubernetes.io/hostname is set by the node itself and cannot be chosen for a pool")
    return key
