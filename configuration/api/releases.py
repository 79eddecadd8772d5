"""What releases of Karpenter before the newest do not know of their own API.

Source: karpenter-provider-aws, pkg/apis/crds of every tag from v1.8.0 to v1.14.1, compared field by field and rule by
rule; nothing has been taken away between them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from configuration.api.ec2_node_class import EC2NodeClassFields
from configuration.api.labels import domain_of
from configuration.api.node_pool import NodePoolSpec
from configuration.releases import Version, numbers

_OPERATORS: Final[dict[str, Version]] = {"Gte": (1, 9), "Lte": (1, 9)}

_LABELS: Final[dict[str, Version]] = {
    "karpenter.k8s.aws/instance-tenancy": (1, 9),
    "karpenter.k8s.aws/capacity-reservation-interruptible": (1, 10),
    "karpenter.k8s.aws/placement-group-id": (1, 11),
    "karpenter.k8s.aws/placement-group-partition": (1, 11),
}

_FIELDS: Final[dict[str, Version]] = {
    "placement_group_selector": (1, 11),
    "network_interfaces": (1, 11),
    "connection_tracking": (1, 13),
    "cpu_options": (1, 13),
}

_BALANCED: Final[Version] = (1, 14)
_WINDOWS_2025: Final[Version] = (1, 9)

_ANY_KUBERNETES_LABEL: Final[Version] = (1, 9)
"""Before it, labels of Kubernetes' own domains were refused but for those below."""

_KUBERNETES_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


def unknown_to(release: str, spec: NodePoolSpec | EC2NodeClassFields) -> Sequence[str]:
    """Say what a release of Karpenter does not know of a spec: its API server would refuse the object.

    Args:
        release: A release of Karpenter from 1.8.0 on, such as `1.9.2`.
        spec: Of a NodePool or an EC2NodeClass.

    Returns:
        One message for each thing, beginning with the release that brought it; none where the release knows all.
    """
    version = numbers(release)
    needs = _of_pool(spec) if isinstance(spec, NodePoolSpec) else _of_node_class(spec)
    return [
        f"{thing} needs Karpenter >= {'.'.join(str(part) for part in since)}, and karpenter.version is {release}; "
        f"raise it or remove this"
        for since, thing in dict.fromkeys(needs)
        if version < since
    ]


def _of_pool(spec: NodePoolSpec) -> Iterator[tuple[Version, str]]:
    template = spec.template.spec
    for requirement in template.requirements:
        if requirement.operator in _OPERATORS:
            yield _OPERATORS[requirement.operator], f"operator {requirement.operator} on {requirement.key}"
    metadata = spec.template.metadata
    labels = metadata.labels if metadata and metadata.labels else {}
    for key in (*(requirement.key for requirement in template.requirements), *labels):
        if key in _LABELS:
            yield _LABELS[key], f"label {key}"
        if _was_restricted(key):
            yield _ANY_KUBERNETES_LABEL, f"label {key}"
    if spec.disruption and spec.disruption.consolidation_policy == "Balanced":
        yield _BALANCED, "consolidationPolicy Balanced"


def _was_restricted(key: str) -> bool:
    domain = domain_of(key)
    if domain.endswith("k8s.io"):
        return not domain.endswith("kops.k8s.io")
    if domain.endswith(("node.kubernetes.io", "node-restriction.kubernetes.io")) or key in _KUBERNETES_LABELS:
        return False
    return domain.endswith("kubernetes.io")


def _of_node_class(spec: EC2NodeClassFields) -> Iterator[tuple[Version, str]]:
    fields = type(spec).model_fields
    for name, since in _FIELDS.items():
        if getattr(spec, name) is not None:
            yield since, str(fields[name].alias)
    if spec.ami_family == "Windows2025":
        yield _WINDOWS_2025, "amiFamily Windows2025"
    for term in spec.ami_selector_terms:
        if term.alias and term.alias.startswith("windows2025@"):
            yield _WINDOWS_2025, f"alias {term.alias}"
