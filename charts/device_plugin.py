"""The NVIDIA device plugin: the objects of its Helm chart, release 0.18.2, as plain manifests.

Source: NVIDIA/k8s-device-plugin v0.18.2, deployments/helm/nvidia-device-plugin; `tests/parity` compares with what that
renders. Its hook that removes node labels after it is uninstalled is not here: among plain manifests it would run at
once.
"""

from collections.abc import Iterable
from typing import Any, Final

from cdk8s import Chart
from constructs import Construct

from charts import gpu_nodes
from charts.device_plugin_pods import gpu_feature_discovery, mps_control_daemon, plugin
from charts.node_feature_discovery import add_node_feature_discovery
from charts.objects import add_namespace, add_object
from configuration import Taint
from configuration.images import device_plugin_image
from configuration.releases import NFD_VERSIONS

NAME: Final = "nvidia-device-plugin"
"""Name of the Helm release that this stands for, and of its DaemonSet."""


class DevicePluginChart(Chart):
    """The device plugin on every GPU node that needs one, in a namespace of its own.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        version: Release, such as 0.18.2.
        namespace: Namespace, made too unless it is one of the cluster's own.
        taints: The taints of every pool that the plugin must run on. Each is tolerated by all that runs on nodes, so
            that no pool's GPUs stay unregistered.
        feature_discovery: Whether nodes are labelled with what their GPUs are (GPU feature discovery, and node feature
            discovery, which writes the labels).
        classes_with_plugin: Node classes whose image has the device plugin built in: nothing of this runs on their
            nodes (`gpu_nodes.classes_with_plugin`).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        version: str,
        namespace: str,
        taints: Iterable[Taint],
        feature_discovery: bool = False,
        classes_with_plugin: Iterable[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        placement = {
            "affinity": gpu_nodes.where_plugin_is_needed(classes_with_plugin),
            "tolerations": gpu_nodes.tolerations(taints),
        }
        image = device_plugin_image(version)
        labels = {
            "helm.sh/chart": f"{NAME}-{version}",
            **_selector(),
            "app.kubernetes.io/version": version,
            "app.kubernetes.io/managed-by": "cdk8s",
        }

        def daemon_set(suffix: str, component: str, pod: dict[str, Any]) -> None:
            # The chart gives the pods of all three the same labels: each one's DaemonSet would find the others' too.
            own = {"app.kubernetes.io/component": component}
            add_object(
                self,
                api_version="apps/v1",
                kind="DaemonSet",
                name=f"{NAME}{suffix}",
                namespace=namespace,
                labels={**labels, **own},
                body={"spec": _daemon_set({**_selector(), **own}, pod | placement)},
            )

        add_namespace(self, namespace)
        if feature_discovery:
            add_node_feature_discovery(
                self, release=NAME, version=NFD_VERSIONS[version], namespace=namespace, placement=placement
            )
            daemon_set("-gpu-feature-discovery", "gpu-feature-discovery", gpu_feature_discovery(image))
        daemon_set("-mps-control-daemon", "mps-control-daemon", mps_control_daemon(image))
        daemon_set("", "device-plugin", plugin(image))


def _selector() -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}


def _daemon_set(labels: dict[str, str], pod: dict[str, Any]) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"priorityClassName": "system-node-critical", **pod},
        },
    }
