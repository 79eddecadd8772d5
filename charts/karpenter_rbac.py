"""What Karpenter may do in the cluster: its chart's roles, rule by rule.

Source: karpenter-provider-aws v1.8.0 to v1.14.1, charts/karpenter/templates/{aggregate-clusterrole,clusterrole,
clusterrole-core,role,rolebinding}.yaml.
"""

from collections.abc import Mapping
from typing import Any, Final

from cdk8s import Chart

from charts.objects import add_object
from configuration.releases import CAPACITY_BUFFER_SINCE, Version

_RBAC: Final = "rbac.authorization.k8s.io"
_LEADER: Final = "karpenter-leader-election"

Rule = dict[str, list[str]]


def _rule(group: str, resources: str, verbs: str, *, named: str | None = None) -> Rule:
    rule = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    return rule | {"resourceNames": [named]} if named else rule


ADMIN_RULES: Final = [
    _rule(
        "karpenter.sh",
        "nodepools nodepools/status nodeclaims nodeclaims/status",
        "get list watch create delete patch",
    ),
    _rule("karpenter.k8s.aws", "ec2nodeclasses", "get list watch create delete patch"),
]
"""Added to the cluster role `admin`, so that people who have it can manage pools."""


def core_rules(release: Version) -> list[Rule]:
    """What scheduling, consolidation and draining need, whatever the cloud.

    Args:
        release: Of Karpenter. From 1.14 it may watch capacity buffers and what they count pods of.
    """
    buffers = release >= CAPACITY_BUFFER_SINCE
    read_buffers = [
        _rule("autoscaling.x-k8s.io", "capacitybuffers capacitybuffers/status", "get list watch"),
        _rule("", "podtemplates", "get list watch"),
    ]
    write_buffers = [_rule("autoscaling.x-k8s.io", "capacitybuffers/status", "update patch")]
    read_apps = "get list watch" if buffers else "list watch"
    return [
        _rule(
            "karpenter.sh",
            "nodepools nodepools/status nodeclaims nodeclaims/status nodeoverlays nodeoverlays/status",
            "get list watch",
        ),
        *(read_buffers if buffers else []),
        _rule(
            "",
            "pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers namespaces",
            "get list watch",
        ),
        _rule("storage.k8s.io", "storageclasses csinodes volumeattachments", "get watch list"),
        _rule("apps", "daemonsets deployments replicasets statefulsets", read_apps),
        _rule("policy", "poddisruptionbudgets", "get list watch"),
        _rule("", "events", "get list watch"),
        _rule("karpenter.sh", "nodeclaims nodeclaims/status", "create delete update patch"),
        _rule("karpenter.sh", "nodepools nodepools/status nodeoverlays/status", "update patch"),
        *(write_buffers if buffers else []),
        _rule("", "events", "create patch"),
        _rule("", "nodes", "patch delete update"),
        _rule("", "pods/eviction", "create"),
        _rule("", "pods", "delete"),
    ]


AWS_RULES: Final = [
    _rule("karpenter.k8s.aws", "ec2nodeclasses", "get list watch"),
    _rule("karpenter.k8s.aws", "ec2nodeclasses ec2nodeclasses/status", "patch update"),
]
"""What the AWS provider needs."""

LEASE_RULES: Final = [
    _rule("coordination.k8s.io", "leases", "get watch"),
    _rule("coordination.k8s.io", "leases", "patch update", named=_LEADER),
    # A rule for `create` cannot name its object: RBAC does not know the name yet.
    _rule("coordination.k8s.io", "leases", "create"),
]
"""Leader election among the replicas."""

DNS_RULES: Final = [_rule("", "services", "get", named="kube-dns")]
"""The cluster's DNS address, which new nodes are given."""


def add_access(
    chart: Chart, *, name: str, namespace: str, service_account: str, labels: Mapping[str, str], release: Version
) -> None:
    """Add Karpenter's roles and bind them to its service account.

    Args:
        chart: Where they go.
        name: Name of the release.
        namespace: Namespace of the release.
        service_account: Account of the controller, in that namespace.
        labels: Labels of every object.
        release: Of Karpenter.
    """
    subjects = [{"kind": "ServiceAccount", "name": service_account, "namespace": namespace}]

    def role(kind: str, role_name: str, rules: list[Rule], within: str | None = None, **extra_labels: str) -> None:
        _add(chart, kind, role_name, within, {**labels, **extra_labels}, {"rules": rules})

    def binding(kind: str, role_name: str, within: str | None = None) -> None:
        reference = {"apiGroup": _RBAC, "kind": kind, "name": role_name}
        _add(chart, f"{kind}Binding", role_name, within, labels, {"roleRef": reference, "subjects": subjects})

    role("ClusterRole", f"{name}-admin", ADMIN_RULES, **{f"{_RBAC}/aggregate-to-admin": "true"})
    role("ClusterRole", f"{name}-core", core_rules(release))
    binding("ClusterRole", f"{name}-core")
    role("ClusterRole", name, AWS_RULES)
    binding("ClusterRole", name)
    role("Role", name, LEASE_RULES, namespace)
    binding("Role", name, namespace)
    role("Role", f"{name}-dns", DNS_RULES, "kube-system")
    binding("Role", f"{name}-dns", "kube-system")


def _add(
    chart: Chart, kind: str, name: str, namespace: str | None, labels: Mapping[str, str], body: Mapping[str, Any]
) -> None:
    add_object(chart, api_version=f"{_RBAC}/v1", kind=kind, name=name, namespace=namespace, labels=labels, body=body)
