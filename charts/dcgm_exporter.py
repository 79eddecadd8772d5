"""DCGM exporter: the health and the load of every GPU, for Prometheus, at port 9400 of a pod on each GPU node.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2, its Helm chart 4.8.2; `tests/parity` compares with what that renders. Not
here: its ServiceMonitor, which needs Prometheus Operator's definitions to be there first.
"""

from collections.abc import Iterable
from typing import Any, Final

from cdk8s import Chart
from constructs import Construct

from charts import gpu_nodes
from charts.objects import add_namespace, add_object
from configuration import Taint
from configuration.images import dcgm_exporter_image

NAME: Final = "dcgm-exporter"
"""Name of the Helm release that this stands for, and of most of its objects."""

PORT: Final = 9400
"""Where metrics are served, over HTTP."""

METRICS: Final = {
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "Part of the time in which a kernel ran on the GPU (percent)"),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "Part of the time in which the compute engine was busy (0 to 1)"),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Part of the cycles in which tensor cores were busy (0 to 1)"),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Part of the cycles in which GPU memory was read or written (0 to 1)"),
    "DCGM_FI_DEV_FB_USED": ("gauge", "GPU memory in use (MiB)"),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "GPU memory not in use (MiB)"),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "Temperature of the GPU (degrees Celsius)"),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "Temperature of the GPU's memory (degrees Celsius)"),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power drawn (watts)"),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Energy used since the driver was loaded (millijoules)"),
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "Clock of the streaming multiprocessors (MHz)"),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Number of the last error that the driver reported (XID; 0 for none)"),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether a broken memory row could not be replaced (0 or 1)"),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "Memory rows replaced after an uncorrectable error"),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Packets that were sent again over PCIe"),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("counter", "Traffic of all NVLink lanes"),
}
"""DCGM's fields that are exported: Prometheus type and what it means. Is it used, how full is it, is it well.

A comma in a meaning would be one column more to the exporter, which takes three.

Source of the names: NVIDIA/dcgm-exporter, etc/default-counters.csv.
"""

_CONFIG_MAP: Final = "exporter-metrics-config-map"
_READER: Final = "dcgm-exporter-read-cm"
_COUNTERS: Final = "/etc/dcgm-exporter/default-counters.csv"
_POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"


class DcgmExporterChart(Chart):
    """DCGM exporter on every GPU node, those of Bottlerocket too.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        version: Release of its Helm chart, such as 4.8.2.
        namespace: Namespace.
        taints: The taints of every GPU pool; each is tolerated.
        create_namespace: Whether the namespace is made here; false where another chart makes it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        version: str,
        namespace: str,
        taints: Iterable[Taint],
        create_namespace: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        labels = {
            "helm.sh/chart": f"{NAME}-{version}",
            **_selector(),
            "app.kubernetes.io/version": version,
            "app.kubernetes.io/managed-by": "cdk8s",
        }
        if create_namespace:
            add_namespace(self, namespace)

        def add(api_version: str, kind: str, name: str, body: dict[str, Any]) -> None:
            add_object(
                self, api_version=api_version, kind=kind, name=name, namespace=namespace, labels=labels, body=body
            )

        rbac = "rbac.authorization.k8s.io"
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [_CONFIG_MAP], "verbs": ["get"]}
        binding = {
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": _READER},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
        }
        add("v1", "ServiceAccount", NAME, {"automountServiceAccountToken": False})
        add(f"{rbac}/v1", "Role", _READER, {"rules": [rule]})
        add(f"{rbac}/v1", "RoleBinding", NAME, binding)
        add("v1", "ConfigMap", _CONFIG_MAP, {"data": {"metrics": counters()}})
        add("v1", "Service", NAME, {"spec": _service()})
        add("apps/v1", "DaemonSet", NAME, {"spec": _daemon_set(version, gpu_nodes.tolerations(taints))})


def counters() -> str:
    """Return the exporter's list of fields: a line each, `field, type, help`."""
    return "".join(f"{field}, {kind}, {meaning}.\n" for field, (kind, meaning) in METRICS.items())


def _selector() -> dict[str, str]:
    return {
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/component": NAME,
    }


def _service() -> dict[str, Any]:
    return {
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
        "ports": [{"name": "metrics", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        "selector": _selector(),
    }


def _daemon_set(version: str, tolerations: list[dict[str, str]]) -> dict[str, Any]:
    metrics = {"name": _CONFIG_MAP, "items": [{"key": "metrics", "path": "default-counters.csv"}]}
    return {
        "selector": {"matchLabels": _selector()},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        "template": {
            "metadata": {"labels": _selector()},
            "spec": {
                "priorityClassName": "system-node-critical",
                "hostPID": False,
                "serviceAccountName": NAME,
                "automountServiceAccountToken": False,
                "containers": [_container(dcgm_exporter_image(version))],
                "volumes": [
                    {"name": "pod-gpu-resources", "hostPath": {"path": _POD_RESOURCES}},
                    {"name": "exporter-metrics-volume", "configMap": metrics},
                ],
                "affinity": gpu_nodes.where_gpus_are(),
                "tolerations": tolerations,
            },
        },
    }


def _container(image: str) -> dict[str, Any]:
    # It looks for GPUs first, which takes that long on a node that has just come up.
    health = {"httpGet": {"path": "/health", "port": PORT, "scheme": "HTTP"}, "initialDelaySeconds": 45}
    return {
        "name": "exporter",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["-f", _COUNTERS],
        "env": [
            {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
            {"name": "DCGM_EXPORTER_LISTEN", "value": f":{PORT}"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "200m", "memory": "512Mi"},
        },
        # The fields DCGM_FI_PROF_* are read from the GPU's performance counters, which needs SYS_ADMIN.
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
        },
        "volumeMounts": [
            {"name": "pod-gpu-resources", "mountPath": _POD_RESOURCES, "readOnly": True},
            {"name": "exporter-metrics-volume", "mountPath": _COUNTERS, "subPath": "default-counters.csv"},
        ],
        "livenessProbe": {**health, "periodSeconds": 5},
        "readinessProbe": health,
    }
