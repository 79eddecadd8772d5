"""The Kubernetes side: plain inputs in, objects out. Nothing here knows of CDK, so a test takes milliseconds."""

from charts.dcgm_exporter import DcgmExporterChart
from charts.device_plugin import DevicePluginChart
from charts.karpenter import KarpenterChart
from charts.karpenter_deployment import ClusterFacts
from charts.node_pools import NodePlacement, NodePoolsChart
from charts.samples import SamplesChart

__all__ = [
    "ClusterFacts",
    "DcgmExporterChart",
    "DevicePluginChart",
    "KarpenterChart",
    "NodePlacement",
    "NodePoolsChart",
    "SamplesChart",
]
