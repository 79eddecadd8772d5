"""The device plugin's objects, node feature discovery's among them, are those of NVIDIA's chart."""

from __future__ import annotations

import cdk8s
import pytest

from charts import DevicePluginChart
from configuration import Taint
from rehearsal.tools.charts import DEVICE_PLUGIN_CHART
from tests.parity.comparison import Meant, compare
from tests.parity.conftest import Render

TAINTS = [Taint(key="gpu-workload", effect="NoSchedule"), Taint(key="nvidia.com/gpu", effect="NoExecute")]

HELM = "Helm manages none of these."
TOGETHER = "The chart gives the pods of its three DaemonSets the same labels, and so each the selector of all."
PLACE = (
    "The chart goes by what node feature discovery finds or by nvidia.com/gpu.present, and would run beside the plugin "
    "that Bottlerocket and Auto Mode have built in. Here a label of the pool decides, and Auto Mode is left out."
)
TOLERATE = "Every GPU pool's taint is tolerated, whatever its key, value and effect."
DAEMON_SETS = "DaemonSet/nvidia/nvidia-device-plugin*"
WORKER = "DaemonSet/nvidia/nvidia-device-plugin-node-feature-discovery-worker"
POD = r"spec\.template\.spec"

MEANT = [
    Meant("Namespace/nvidia", r"\(object\)", "Helm makes it by a flag; among manifests it has to be one."),
    Meant("*", r"metadata\.labels\.app\.kubernetes\.io/managed-by", HELM, ours="cdk8s"),
    Meant(
        "DaemonSet/*",
        r"(metadata|spec\.template\.metadata)\.labels\.app\.kubernetes\.io/component",
        TOGETHER,
    ),
    Meant("DaemonSet/*", r"spec\.selector\.matchLabels\.app\.kubernetes\.io/component", TOGETHER),
    Meant(DAEMON_SETS, rf"{POD}\.affinity\.nodeAffinity\.required.*", PLACE),
    Meant(DAEMON_SETS, rf"{POD}\.tolerations\[\d\]\..*", TOLERATE),
]
WITH_DISCOVERY = [
    Meant(
        WORKER,
        rf"{POD}\.affinity\..*",
        "The chart runs the worker on every node of the cluster; pods for nothing on all that have no GPU.",
    ),
    Meant(
        WORKER,
        rf"{POD}\.tolerations\[\d\]\..*",
        "The chart's worker tolerates nvidia.com/gpu with the value present alone: with any other taint there are no "
        "labels, and the pods that wait for them never start (NVIDIA/k8s-device-plugin#1934).",
    ),
    Meant(
        "*/nvidia-device-plugin-node-feature-discovery-*",
        r"spec\.template\.metadata\.annotations\.checksum/config",
        "The hash of the configuration's text here, of the chart's whole template there.",
    ),
    Meant(
        "CustomResourceDefinition/*",
        r".*\.description",
        "Written from the API's fields; what they mean is in its documentation.",
    ),
    Meant(
        "CustomResourceDefinition/*",
        r"metadata\.annotations\.controller-gen\.kubebuilder\.io/version",
        "They are not made by controller-gen.",
    ),
    Meant(
        "*-node-feature-discovery-prune",
        r"\(object\)",
        "Helm runs it after it has removed the release, to take the labels off; among manifests it would run at once.",
    ),
]


@pytest.mark.parametrize("feature_discovery", [True, False], ids=["with GPU feature discovery", "without"])
def test_the_objects_are_nvidias(feature_discovery: bool, render: Render) -> None:
    chart = DevicePluginChart(
        cdk8s.App(),
        "plugin",
        version="0.18.2",
        namespace="nvidia",
        taints=TAINTS,
        feature_discovery=feature_discovery,
    )
    upstream = render(
        DEVICE_PLUGIN_CHART,
        "--include-crds",
        release="nvidia-device-plugin",
        namespace="nvidia",
        values={"gfd": {"enabled": feature_discovery}},
    )
    compared = compare(chart.to_json(), upstream, [*MEANT, *(WITH_DISCOVERY if feature_discovery else [])])
    assert compared.objects == (20 if feature_discovery else 2)
    print(f"{compared.objects} objects, {compared.fields} fields, {compared.meant} meant")
