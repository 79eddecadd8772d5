"""Labels, requirements and taints: where a pool's nodes come from and what may run on them."""

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model

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

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]


def check_label_key(key: str) -> str:
    """Refuse a label that open-source Karpenter would ignore or its API would reject.

    Args:
        key: The key of a label or of a requirement.

    Returns:
        The key.

    Raises:
        ValueError: Its domain belongs to EKS Auto Mode, or it is not one of the labels of a restricted domain.
    """
    domain, _, name = key.rpartition("/")
    if domain == "eks.amazonaws.com":
        # Karpenter takes such a key for a label of the user's own and filters nothing by it: any type could be bought.
        raise ValueError(
            f"{key} belongs to EKS Auto Mode; open-source Karpenter would accept it and filter nothing; "
            f"write karpenter.k8s.aws/{name}"
        )
    if domain == "karpenter.k8s.aws" and key not in WELL_KNOWN_AWS_LABELS:
        raise ValueError(f"{key} is not a label of Karpenter's; those it knows: {_DOCUMENTED}")
    if domain == "karpenter.sh" and name != "capacity-type":
        raise ValueError(
            f"{key} is set by Karpenter itself; of this domain only karpenter.sh/capacity-type may be used"
        )
    if key == "kubernetes.io/hostname":
        raise ValueError("kubernetes.io/hostname is set by the node itself and cannot be chosen for a pool")
    return key


class Requirement(Model):
    """A condition on the nodes of a pool, as in a NodePool's `spec.template.spec.requirements`."""

    key: str = Field(min_length=1)
    """A label, such as karpenter.k8s.aws/instance-category."""
    operator: Operator
    """How `values` are compared with the label."""
    values: tuple[str, ...] = Field(default=(), strict=False)
    """What to compare with: one or more for In and NotIn, one number for Gt, Lt, Gte and Lte, else none."""

    @field_validator("key")
    @classmethod
    def _known_domain(cls, key: str) -> str:
        return check_label_key(key)

    @model_validator(mode="after")
    def _values_fit_operator(self) -> Self:
        """As the NodePool CRD has it (karpenter-provider-aws v1.14.1, karpenter.sh_nodepools.yaml)."""
        count = len(self.values)
        if self.operator in ("In", "NotIn") and not count:
            raise ValueError(f"operator {self.operator} on {self.key} needs at least one value; add values: [...]")
        if self.operator in ("Exists", "DoesNotExist") and count:
            raise ValueError(f"operator {self.operator} on {self.key} takes no values; remove {list(self.values)}")
        if self.operator in ("Gt", "Lt", "Gte", "Lte") and not (count == 1 and self.values[0].isdecimal()):
            raise ValueError(
                f"operator {self.operator} on {self.key} needs exactly one whole number >= 0 in quotes; "
                f"given {list(self.values)}"
            )
        return self


class Taint(Model):
    """Keeps pods off a pool's nodes unless they tolerate it."""

    key: str = Field(min_length=1)
    """Such as gpu-workload."""
    value: str | None = None
    """Left out where pods tolerate the key whatever its value (operator Exists)."""
    effect: Effect
    """What happens to pods that do not tolerate it."""
