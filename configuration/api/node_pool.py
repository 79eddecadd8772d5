"""`spec` of a NodePool, karpenter.sh/v1."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from configuration.api.labels import check_label_key
from configuration.api.values import (
    BUDGET_DURATION,
    BUDGET_NODES,
    BUDGET_SCHEDULE,
    GROUP,
    QUALIFIED_NAME,
    DateTime,
    Duration,
    DurationOrNever,
    Int64,
    Items,
    LabelValue,
    QualifiedName,
    Quantity,
)
from configuration.model import Model

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"]
Reason = Literal["Underutilized", "Empty", "Drifted"]

COMPARING: tuple[Operator, ...] = ("Gt", "Lt", "Gte", "Lte")
"""Operators that compare with a number."""


class Requirement(Model):
    """A condition on the nodes of a pool, as in a NodePool's `spec.template.spec.requirements`."""

    key: str = Field(pattern=QUALIFIED_NAME, max_length=316)
    """A label, such as karpenter.k8s.aws/instance-category."""
    operator: Operator
    """How `values` are compared with the label."""
    values: Items[str] | None = None
    """What to compare with: one or more for In and NotIn, one number for Gt, Lt, Gte and Lte, else none."""
    min_values: int | None = Field(default=None, ge=1, le=50)
    """How many different values the instance types to choose from must have together (alpha)."""

    @field_validator("key")
    @classmethod
    def _allowed(cls, key: str) -> str:
        return check_label_key(key)

    @model_validator(mode="after")
    def _values_fit_operator(self) -> Self:
        values = self.values or ()
        if self.operator == "In" and not values:
            raise ValueError(f"operator In on {self.key} needs at least one value; add values: [...]")
        if self.operator in COMPARING and not (len(values) == 1 and _is_natural(values[0])):
            raise ValueError(
                f"operator {self.operator} on {self.key} needs exactly one whole number >= 0 in quotes; "
                f"given {list(values)}"
            )
        if self.operator == "In" and self.min_values is not None and len(values) < self.min_values:
            raise ValueError(
                f"minValues: {self.min_values} of {self.key} needs at least as many values; "
                f"lower it or add to {list(values)}"
            )
        return self


def _is_natural(text: str) -> bool:
    """Whether CEL's int() makes a number of at least 0 of a text: 64 bits, a sign is allowed."""
    return bool(re.fullmatch(r"[+-]?[0-9]+", text)) and 0 <= int(text) < 2**63


class Taint(Model):
    """Keeps pods off a pool's nodes unless they tolerate it."""

    key: QualifiedName
    """Such as gpu-workload."""
    value: QualifiedName | None = None
    """Left out where pods tolerate the key whatever its value (operator Exists)."""
    effect: Effect
    """What happens to pods that do not tolerate it."""
    time_added: DateTime | None = None
    """When it was added; Kubernetes writes it."""


class Budget(Model):
    """How many nodes of a pool may be disrupted at once."""

    nodes: Annotated[str, Field(pattern=BUDGET_NODES)] | None = None
    """A share or a number, such as 10% (the default) or "1"; "0" lets none go."""
    reasons: Items[Reason] | None = Field(default=None, max_length=50)
    """Which disruptions count; all if left out."""
    schedule: Annotated[str, Field(pattern=BUDGET_SCHEDULE)] | None = None
    """When it begins to hold, as for cron and in UTC; always if left out."""
    duration: Annotated[str, Field(pattern=BUDGET_DURATION)] | None = None
    """How long it holds after each begin, such as 8h."""

    @field_validator("reasons")
    @classmethod
    def _distinct(cls, reasons: tuple[Reason, ...] | None) -> tuple[Reason, ...] | None:
        twice = sorted({reason for reason in reasons or () if (reasons or ()).count(reason) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is given twice; keep one")
        return reasons

    @model_validator(mode="after")
    def _schedule_with_duration(self) -> Self:
        if (self.schedule is None) is not (self.duration is None):
            given, missing = ("schedule", "duration") if self.duration is None else ("duration", "schedule")
            raise ValueError(f"{given} is given without {missing}; give both or neither")
        return self


class Disruption(Model):
    """When Karpenter may remove or replace a node of its own accord."""

    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] | None = None
    """Which nodes are candidates; WhenEmptyOrUnderutilized if left out."""
    consolidate_after: DurationOrNever
    """How long after the last pod came or went, such as 1m; Never turns it off."""
    budgets: Items[Budget] | None = Field(default=None, max_length=50)
    """How many nodes at once; one budget of 10% if left out."""


class NodeClassRef(Model):
    """Which node class a pool's nodes are made by."""

    group: str = Field(pattern=GROUP)
    """API group, karpenter.k8s.aws."""
    kind: str
    """Such as EC2NodeClass."""
    name: str
    """Its name."""

    @field_validator("group", "kind", "name")
    @classmethod
    def _not_empty(cls, text: str) -> str:
        if not text:
            raise ValueError("must not be empty")
        return text


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for key in labels:
        check_label_key(key)
    return labels


Labels = Annotated[dict[str, LabelValue], Field(max_length=100), AfterValidator(_labels)]
"""Labels of nodes by key."""

Limits = dict[str, Int64 | Quantity]
"""The most that a pool's nodes may have together, by resource, such as cpu (vCPU), memory or nvidia.com/gpu."""

Requirements = Annotated[Items[Requirement], Field(max_length=100)]


class TemplateMetadata(Model):
    """What is written on every node."""

    labels: Labels | None = None
    """Labels."""
    annotations: dict[str, str] | None = None
    """Annotations."""


class NodeClaimTemplateSpec(Model):
    """What every node of a pool is."""

    node_class_ref: NodeClassRef
    """What makes it."""
    requirements: Requirements
    """Which instances may be bought."""
    taints: Items[Taint] | None = None
    """What keeps pods off it."""
    startup_taints: Items[Taint] | None = None
    """What keeps pods off it until somebody, such as a DaemonSet, takes the taint away."""
    expire_after: DurationOrNever | None = None
    """Age at which it is replaced; 720h (30 days) if left out."""
    termination_grace_period: Duration | None = None
    """How long it may take to drain before its pods are deleted; without an end if left out."""


class NodeClaimTemplate(Model):
    """The nodes of a pool."""

    metadata: TemplateMetadata | None = None
    """What is written on them."""
    spec: NodeClaimTemplateSpec
    """What they are."""


class NodePoolSpec(Model):
    """What a NodePool says."""

    template: NodeClaimTemplate
    """Its nodes."""
    disruption: Disruption | None = None
    """When nodes may go; consolidateAfter 0s if left out."""
    limits: Limits | None = None
    """How much there may be."""
    weight: int | None = Field(default=None, ge=1, le=100)
    """A pool of higher weight is tried first; 0 if left out."""
    # The CRD's scale subresource holds it to 32 bits.
    replicas: int | None = Field(default=None, ge=0, le=2**31 - 1)
    """A fixed number of nodes, whatever pods ask for (alpha; feature gate StaticCapacity)."""

    @model_validator(mode="after")
    def _static(self) -> Self:
        if self.replicas is not None and self.limits and set(self.limits) != {"nodes"}:
            raise ValueError(
                "limits: a pool with replicas takes a limit on nodes alone; remove replicas or the other limits"
            )
        if self.replicas is not None and self.weight is not None:
            raise ValueError("weight: a pool with replicas takes no weight; remove one of the two")
        return self
