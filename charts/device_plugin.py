"""The NVIDIA device plugin: the DaemonSet of its Helm chart, release 0.18.2, as a plain manifest.

Source: NVIDIA/k8s-device-plugin v0.18.2, deployments/helm/nvidia-device-plugin. Left out, since nothing here uses them:
GPU feature discovery, node feature discovery, and the MPS control daemon.
"""

from collections.abc import Iterable
from typing import Any, Final

from cdk8s import Chart
from constructs import Construct

from charts.objects import add_object
from configuration import Taint
from configuration.pools import GPU_NODE_LABEL

NAME: Final = "nvidia-device-plugin"
"""Name of the Helm release that this stands for, and of its DaemonSet."""

_CHART_TOLERATIONS: Final[list[dict[str, str]]] = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]


class DevicePluginChart(Chart):
    """The device plugin on every GPU node, in a namespace of its own.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        version: Release, such as 0.18.2.
        namespace: Namespace, created.
        taints: The taints of every pool that the plugin must run on. It tolerates each, so that no pool's GPUs stay
            unregistered.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, version: str, namespace: str, taints: Iterable[Taint]
    ) -> None:
        super().__init__(scope, construct_id)
        labels = {
            "helm.sh/chart": f"{NAME}-{version}",
            **_selector(),
            "app.kubernetes.io/version": version,
            "app.kubernetes.io/managed-by": "cdk8s",
        }
        add_object(self, api_version="v1", kind="Namespace", name=namespace)
        add_object(
            self,
            api_version="apps/v1",
            kind="DaemonSet",
            name=NAME,
            namespace=namespace,
            labels=labels,
            body={"spec": _daemon_set(version, _tolerations(taints))},
        )


def _tolerations(taints: Iterable[Taint]) -> list[dict[str, str]]:
    tolerations = list(_CHART_TOLERATIONS)
    for taint in taints:
        # Exists, whatever the value: a pool that gives its taint a value later must not lose its GPUs.
        toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        if toleration not in tolerations:
            tolerations.append(toleration)
    return tolerations


def _selector() -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}


def _daemon_set(version: str, tolerations: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": _selector()},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": _selector()},
            "spec": {
                "priorityClassName": "system-node-critical",
                "containers": [_container(version)],
                "volumes": [
                    _host_path("kubelet-device-plugins-dir", "/var/lib/kubelet/device-plugins", "Directory"),
                    _host_path("mps-root", "/run/nvidia/mps", "DirectoryOrCreate"),
                    _host_path("mps-shm", "/run/nvidia/mps/shm"),
                    _host_path("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
                ],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": GPU_NODE_LABEL, "operator": "In", "values": ["true"]}]}
                            ]
                        }
                    }
                },
                "tolerations": tolerations,
            },
        },
    }


def _container(version: str) -> dict[str, Any]:
    return {
        "name": f"{NAME}-ctr",
        "image": f"nvcr.io/nvidia/k8s-device-plugin:v{version}",
        "imagePullPolicy": "IfNotPresent",
        "command": ["nvidia-device-plugin"],
        "env": [
            {"name": "MPS_ROOT", "value": "/run/nvidia/mps"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "kubelet-device-plugins-dir", "mountPath": "/var/lib/kubelet/device-plugins"},
            {"name": "mps-shm", "mountPath": "/dev/shm"},  # noqa: S108 - where the plugin looks for it
            {"name": "mps-root", "mountPath": "/mps"},
            {"name": "cdi-root", "mountPath": "/var/run/cdi"},
        ],
    }


def _host_path(name: str, path: str, kind: str | None = None) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": kind} if kind else {"path": path}}
