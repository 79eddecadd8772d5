"""Node feature discovery: finds out what a node's hardware is and labels the node with it.

A worker on each GPU node writes what it finds, and what GPU feature discovery left for it, into a NodeFeature; the
master turns those into labels; the collector removes those of nodes that are gone.

Source: node-feature-discovery v0.17.3, its Helm chart, with the values that NVIDIA/k8s-device-plugin v0.18.2 gives it.
"""

from hashlib import sha256
from typing import Any, Final

from cdk8s import ApiObject, Chart

from charts.nfd_definitions import DEFINITIONS
from charts.objects import add_object
from configuration.images import nfd_image

_NAME: Final = "node-feature-discovery"
_GROUP: Final = "nfd.k8s-sigs.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_CONFIGURATION: Final = "/etc/kubernetes/node-feature-discovery"
_METRICS_PORT: Final = 8081
_HEALTH_PORT: Final = 8082
_FEATURE_GATES: Final = "-feature-gates=NodeFeatureGroupAPI=false"

_MASTER_CONFIGURATION: Final = "extraLabelNs:\n- nvidia.com"
"""It may label in NVIDIA's domain beside its own."""

_WORKER_CONFIGURATION: Final = """\
sources:
  pci:
    deviceClassWhitelist:
    - "02"
    - "03"
    deviceLabelFields:
    - vendor"""
"""Which PCI devices are told, by class (02 network, 03 display, as GPUs are), and that labels name their vendor."""

_UNPRIVILEGED: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}

Rule = dict[str, list[str]]


def _rule(group: str, resources: str, verbs: str, **named: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **named}


_MASTER_RULES: Final = [
    _rule("", "namespaces", "watch list"),
    _rule("", "nodes nodes/status", "get patch update list"),
    _rule(_GROUP, "nodefeatures nodefeaturerules nodefeaturegroups", "get list watch"),
    _rule(_GROUP, "nodefeaturegroups/status", "patch update"),
    _rule("coordination.k8s.io", "leases", "create"),
    _rule("coordination.k8s.io", "leases", "get update", resourceNames=["nfd-master.nfd.kubernetes.io"]),
]
_COLLECTOR_RULES: Final = [
    _rule("", "nodes", "list watch"),
    _rule("", "nodes/proxy", "get"),
    _rule("topology.node.k8s.io", "noderesourcetopologies", "delete list"),
    _rule(_GROUP, "nodefeatures", "delete list"),
]
_WORKER_RULES: Final = [
    _rule(_GROUP, "nodefeatures", "create get update delete"),
    _rule("", "pods", "get"),
]


def add_node_feature_discovery(
    chart: Chart, *, release: str, version: str, namespace: str, placement: dict[str, Any]
) -> None:
    """Add node feature discovery to a chart.

    Args:
        chart: Where it goes.
        release: Name of the Helm release that the chart stands for.
        version: Release of node feature discovery, such as 0.17.3.
        namespace: Namespace, which exists.
        placement: Affinity and tolerations of the worker, which must run wherever the device plugin does.
    """
    made = _Release(chart, release, version, namespace)
    definitions = [add_object(chart, **definition) for definition in DEFINITIONS]
    master = f"{made.prefix}-master"
    worker = f"{made.prefix}-worker"
    collector = f"{made.prefix}-gc"
    needed = [
        *definitions,
        *made.account(_NAME),
        *made.account(collector),
        *made.account(worker),
        made.configuration(master, "nfd-master.conf", _MASTER_CONFIGURATION),
        made.configuration(worker, "nfd-worker.conf", _WORKER_CONFIGURATION),
        *made.cluster_access(made.prefix, _NAME, _MASTER_RULES),
        *made.cluster_access(collector, collector, _COLLECTOR_RULES),
        *made.access(worker, worker, _WORKER_RULES),
    ]
    workloads = [
        made.workload("Deployment", "master", _with_configuration(_MASTER_CONFIGURATION), _master(made)),
        made.workload("Deployment", "gc", {}, _collector(made)),
        made.workload("DaemonSet", "worker", _with_configuration(_WORKER_CONFIGURATION), _worker(made, placement)),
    ]
    for workload in workloads:
        workload.add_dependency(*needed)


class _Release:
    """The objects of one release, by kind."""

    def __init__(self, chart: Chart, release: str, version: str, namespace: str) -> None:
        self.chart, self.namespace = chart, namespace
        self.prefix = f"{release}-{_NAME}"
        self.image = nfd_image(version)
        self.selector = {"app.kubernetes.io/name": _NAME, "app.kubernetes.io/instance": release}
        self.labels = {
            "helm.sh/chart": f"nfd-{version}",
            **self.selector,
            "app.kubernetes.io/version": f"v{version}",
            "app.kubernetes.io/managed-by": "cdk8s",
        }

    def account(self, name: str) -> list[ApiObject]:
        return [self._add("v1", "ServiceAccount", name, {}, namespace=self.namespace)]

    def configuration(self, name: str, file: str, text: str) -> ApiObject:
        return self._add("v1", "ConfigMap", f"{name}-conf", {"data": {file: text}}, namespace=self.namespace)

    def access(self, name: str, account: str, rules: list[Rule]) -> list[ApiObject]:
        return self._role_and_binding("Role", name, account, rules, self.namespace)

    def cluster_access(self, name: str, account: str, rules: list[Rule]) -> list[ApiObject]:
        return self._role_and_binding("ClusterRole", name, account, rules, None)

    def workload(self, kind: str, role: str, annotations: dict[str, str], pod: dict[str, Any]) -> ApiObject:
        selector = {**self.selector, "role": role}
        metadata: dict[str, Any] = {"labels": selector}
        if annotations:
            metadata["annotations"] = annotations
        spec: dict[str, Any] = {
            "selector": {"matchLabels": selector},
            "template": {"metadata": metadata, "spec": {"hostNetwork": False, **pod}},
        }
        if kind == "Deployment":
            spec["replicas"] = 1
        name = f"{self.prefix}-{role}"
        return self._add("apps/v1", kind, name, {"spec": spec}, namespace=self.namespace, role=role)

    def _role_and_binding(
        self, kind: str, name: str, account: str, rules: list[Rule], namespace: str | None
    ) -> list[ApiObject]:
        binding = {
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": self.namespace}],
        }
        return [
            self._add(f"{_RBAC}/v1", kind, name, {"rules": rules}, namespace=namespace),
            self._add(f"{_RBAC}/v1", f"{kind}Binding", name, binding, namespace=namespace),
        ]

    def _add(
        self, api_version: str, kind: str, name: str, body: dict[str, Any], *, namespace: str | None, **labels: str
    ) -> ApiObject:
        return add_object(
            self.chart,
            api_version=api_version,
            kind=kind,
            name=name,
            namespace=namespace,
            labels={**self.labels, **labels},
            body=body,
        )


def _with_configuration(text: str) -> dict[str, str]:
    """The annotation that changes with the configuration, so that pods start anew with it."""
    return {"checksum/config": sha256(text.encode()).hexdigest()}


def _master(made: _Release) -> dict[str, Any]:
    health = {"grpc": {"port": _HEALTH_PORT}}
    control_planes = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
    return {
        "serviceAccountName": _NAME,
        "enableServiceLinks": False,
        "containers": [
            {
                **_container(made, "master", requests={"cpu": "100m", "memory": "128Mi"}, memory_limit="4Gi"),
                "args": [
                    "-enable-leader-election",
                    _FEATURE_GATES,
                    f"-metrics={_METRICS_PORT}",
                    f"-grpc-health={_HEALTH_PORT}",
                ],
                "env": [_field("NODE_NAME", "spec.nodeName")],
                "ports": [_port("metrics", _METRICS_PORT), _port("health", _HEALTH_PORT)],
                "startupProbe": {**health, "failureThreshold": 30},
                "livenessProbe": health,
                "readinessProbe": {**health, "failureThreshold": 10},
                "volumeMounts": [{"name": "nfd-master-conf", "mountPath": _CONFIGURATION, "readOnly": True}],
            }
        ],
        "volumes": [_configuration_volume(made, "master")],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [""]}]},
                    }
                    for key in control_planes
                ]
            }
        },
        "tolerations": [
            {"key": key, "operator": "Equal", "value": "", "effect": "NoSchedule"} for key in control_planes
        ],
    }


def _collector(made: _Release) -> dict[str, Any]:
    return {
        "serviceAccountName": f"{made.prefix}-gc",
        "dnsPolicy": "ClusterFirstWithHostNet",
        "containers": [
            {
                **_container(made, "gc", requests={"cpu": "10m", "memory": "128Mi"}, memory_limit="1Gi"),
                "args": ["-gc-interval=1h"],
                "env": [_field("NODE_NAME", "spec.nodeName")],
                "ports": [_port("metrics", _METRICS_PORT)],
            }
        ],
    }


def _worker(made: _Release, placement: dict[str, Any]) -> dict[str, Any]:
    health = {"grpc": {"port": _HEALTH_PORT}}
    seen = {
        "host-boot": ("/boot", "/host-boot"),
        "host-os-release": ("/etc/os-release", "/host-etc/os-release"),
        "host-sys": ("/sys", "/host-sys"),
        "host-usr-lib": ("/usr/lib", "/host-usr/lib"),
        "host-lib": ("/lib", "/host-lib"),
        "host-proc-swaps": ("/proc/swaps", "/host-proc/swaps"),
        "features-d": (f"{_CONFIGURATION}/features.d/", f"{_CONFIGURATION}/features.d/"),
    }
    return {
        "serviceAccountName": f"{made.prefix}-worker",
        "dnsPolicy": "ClusterFirstWithHostNet",
        "containers": [
            {
                **_container(made, "worker", requests={"cpu": "5m", "memory": "64Mi"}, memory_limit="512Mi"),
                "args": [_FEATURE_GATES, f"-metrics={_METRICS_PORT}", f"-grpc-health={_HEALTH_PORT}"],
                "env": [
                    _field("NODE_NAME", "spec.nodeName"),
                    _field("POD_NAME", "metadata.name"),
                    _field("POD_UID", "metadata.uid"),
                ],
                "ports": [_port("metrics", _METRICS_PORT), _port("health", _HEALTH_PORT)],
                "livenessProbe": {**health, "initialDelaySeconds": 10},
                "readinessProbe": {**health, "initialDelaySeconds": 5, "failureThreshold": 10},
                "volumeMounts": [
                    *({"name": name, "mountPath": inside, "readOnly": True} for name, (_, inside) in seen.items()),
                    {"name": "nfd-worker-conf", "mountPath": _CONFIGURATION, "readOnly": True},
                ],
            }
        ],
        "volumes": [
            *({"name": name, "hostPath": {"path": outside}} for name, (outside, _) in seen.items()),
            _configuration_volume(made, "worker"),
        ],
        # The chart runs it on every node of the cluster, and labels GPUs by what it finds. Here pools say which nodes
        # have GPUs, and on the others its labels are of no use to anyone.
        **placement,
    }


def _container(made: _Release, part: str, *, requests: dict[str, str], memory_limit: str) -> dict[str, Any]:
    return {
        "name": part,
        "image": made.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [f"nfd-{part}"],
        "resources": {"requests": requests, "limits": {"memory": memory_limit}},
        "securityContext": _UNPRIVILEGED,
    }


def _configuration_volume(made: _Release, part: str) -> dict[str, Any]:
    file = f"nfd-{part}.conf"
    items = [{"key": file, "path": file}]
    return {"name": f"nfd-{part}-conf", "configMap": {"name": f"{made.prefix}-{part}-conf", "items": items}}


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _port(name: str, number: int) -> dict[str, Any]:
    return {"name": name, "containerPort": number}
