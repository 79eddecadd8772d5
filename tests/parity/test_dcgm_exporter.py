"""DCGM exporter's objects are those of NVIDIA's chart, but for its ServiceMonitor."""

from __future__ import annotations

import cdk8s

from charts import DcgmExporterChart
from charts.dcgm_exporter import counters
from configuration import Taint
from rehearsal.tools.charts import DCGM_EXPORTER_CHART
from tests.parity.comparison import Meant, compare
from tests.parity.conftest import Render

POD = r"spec\.template\.spec"
MEANT = [
    Meant("Namespace/nvidia", r"\(object\)", "Helm makes it by a flag; among manifests it has to be one."),
    Meant("*", r"metadata\.labels\.app\.kubernetes\.io/managed-by", "Helm manages none of these.", ours="cdk8s"),
    Meant("ConfigMap/*", r"data\.metrics", "The fields are a choice of our own.", ours=counters()),
    Meant("DaemonSet/*", rf"{POD}\.affinity\..*", "The chart runs on every node, and fails where there is no GPU."),
    Meant("DaemonSet/*", rf"{POD}\.tolerations\[\d\]\..*", "The chart tolerates no taint that a GPU pool has."),
    Meant(
        "ServiceMonitor/*",
        r"\(object\)",
        "A kind of Prometheus Operator's: without its definitions the API server takes none.",
    ),
]


def test_the_objects_are_nvidias(render: Render) -> None:
    taints = [Taint(key="gpu-workload", effect="NoSchedule")]
    chart = DcgmExporterChart(cdk8s.App(), "exporter", version="4.8.2", namespace="nvidia", taints=taints)
    upstream = render(DCGM_EXPORTER_CHART, release="dcgm-exporter", namespace="nvidia", values={})
    compared = compare(chart.to_json(), upstream, MEANT)
    assert compared.objects == 6
    print(f"{compared.objects} objects, {compared.fields} fields, {compared.meant} meant")
