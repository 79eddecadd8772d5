"""The Kubernetes side: plain inputs in, objects out. Nothing here knows of CDK, so a test takes milliseconds."""

from charts.device_plugin import DevicePluginChart
from charts.gpu_pool import GpuPoolsChart, NodePlacement
from charts.karpenter import KarpenterChart
from charts.karpenter_deployment import KarpenterSettings

__all__ = ["DevicePluginChart", "GpuPoolsChart", "KarpenterChart", "KarpenterSettings", "NodePlacement"]
