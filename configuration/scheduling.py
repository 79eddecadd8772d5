"""Labels, requirements and taints: where a pool's nodes come from and what may run on them.

What the API server refuses is in `configuration.api`; here is what it takes, but nobody means or Karpenter cannot use.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

from pydantic import field_validator, model_validator

from configuration.api import node_pool
from configuration.api.labels import CAPACITY_TYPE
from configuration.api.node_pool import Taint
from configuration.api.values import LABEL_VALUE, QUALIFIED_NAME

__all__ = ["CAPACITY_TYPES", "Requirement", "Taint", "capacity_types", "check_label", "check_taints"]

CAPACITY_TYPES: Final = ("on-demand", "spot", "reserved")
"""Values of the label karpenter.sh/capacity-type."""

_AUTO_MODE: Final = "eks.amazonaws.com"

_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    CAPACITY_TYPE: CAPACITY_TYPES,
    "karpenter.k8s.aws/instance-tenancy": ("default", "dedicated"),
}
"""Labels with a known set of values. Karpenter passes over any other value, and over a pool that has no known one.

Source: sigs.k8s.io/karpenter v1.14.1, pkg/apis/v1/labels.go; karpenter-provider-aws v1.14.1, pkg/apis/v1/labels.go.
"""


def check_label(key: str, values: Iterable[str] = ()) -> None:
    """Refuse a label that open-source Karpenter would ignore.

    Args:
        key: The key of a label or of a requirement, taken by the API.
        values: What it has or is compared with.

    Raises:
        ValueError: It belongs to EKS Auto Mode, is no label's key, or a value is none that the label has.
    """
    domain, _, name = key.rpartition("/")
    if domain == _AUTO_MODE:
        # Karpenter takes such a key for a label of the user's own and filters nothing by it: any type could be bought.
        raise ValueError(
            f"{key} belongs to EKS Auto Mode; open-source Karpenter would accept it and filter nothing; "
            f"write karpenter.k8s.aws/{name}"
        )
    if not re.search(QUALIFIED_NAME, key) or len(name) > 63 or len(domain) > 253:
        raise ValueError(f"{key!r} is no label's key: write a name such as team, or a domain and a name, such as a.b/c")
    for value in values:
        known = _VALUES.get(key)
        if known and value not in known:
            raise ValueError(f"{key} is never {value}; use {', '.join(known)}")


class Requirement(node_pool.Requirement):
    """A condition on the nodes of a pool, as in a NodePool's `spec.template.spec.requirements`."""

    @field_validator("key")
    @classmethod
    def _known(cls, key: str) -> str:
        check_label(key)
        return key

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        values = self.values or ()
        if self.operator == "NotIn" and not values:
            raise ValueError(f"operator NotIn on {self.key} needs at least one value; add values: [...]")
        if self.operator in ("Exists", "DoesNotExist") and values:
            raise ValueError(f"operator {self.operator} on {self.key} takes no values; remove {list(values)}")
        if self.operator in ("In", "NotIn"):
            check_label(self.key, values)
        for value in values:
            # Karpenter, not the API server, refuses these, and the pool is then never ready.
            if len(value) > 63 or not re.search(LABEL_VALUE, value) or value.endswith("\n"):
                raise ValueError(f"values: {value!r} is no label's value, so that {self.key} can never have it")
        return self


def capacity_types(labels: Mapping[str, str], requirements: Iterable[node_pool.Requirement]) -> frozenset[str]:
    """Return the capacity types that a pool may buy.

    Args:
        labels: Of the pool's nodes.
        requirements: Of the pool.

    Returns:
        Some of on-demand, spot and reserved; all where the pool says nothing of them.
    """
    found = set(CAPACITY_TYPES)
    if CAPACITY_TYPE in labels:
        found &= {labels[CAPACITY_TYPE]}
    for requirement in requirements:
        if requirement.key == CAPACITY_TYPE:
            values = set(requirement.values or ())
            if requirement.operator == "In":
                found &= values
            elif requirement.operator == "NotIn":
                found -= values
            elif requirement.operator == "DoesNotExist":
                found.clear()
    return frozenset(found)


def check_taints(taints: Iterable[Taint]) -> None:
    """Refuse a taint that is given twice: Karpenter never makes such a pool ready.

    Source: sigs.k8s.io/karpenter v1.14.1, pkg/apis/v1/nodeclaim_validation.go, which looks at taints and startup taints
    together.

    Args:
        taints: Taints and startup taints of one pool.

    Raises:
        ValueError: Two have the same key and effect.
    """
    pairs = [(taint.key, taint.effect) for taint in taints]
    twice = sorted({f"{key}:{effect}" for key, effect in pairs if pairs.count((key, effect)) > 1})
    if twice:
        raise ValueError(f"taint {', '.join(twice)} is given twice; keep one")
