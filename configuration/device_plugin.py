"""What makes a node's GPUs known to Kubernetes, and what watches them."""

from pydantic import field_validator

from configuration.model import Model
from configuration.releases import DCGM_EXPORTER_IMAGE_TAGS, DEVICE_PLUGIN_VERSIONS
from configuration.text import DnsName, Release


class DevicePlugin(Model):
    """The NVIDIA device plugin, which registers a node's GPUs."""

    version: Release
    """Release, without a v."""
    namespace: DnsName
    """Namespace it runs in; created."""
    gpu_feature_discovery: bool = False
    """Whether nodes are labelled with what their GPUs are: model, memory, driver, CUDA version. Adds GPU feature
    discovery and node feature discovery."""

    @field_validator("version")
    @classmethod
    def _known(cls, version: str) -> str:
        if version not in DEVICE_PLUGIN_VERSIONS:
            raise ValueError(f"is not a release that this project carries; use {' or '.join(DEVICE_PLUGIN_VERSIONS)}")
        return version


class DcgmExporter(Model):
    """DCGM exporter, which tells Prometheus how busy, how full and how well every GPU is."""

    version: Release
    """Release of its chart, without a v."""
    namespace: DnsName
    """Namespace it runs in; created, unless it is the device plugin's."""

    @field_validator("version")
    @classmethod
    def _known(cls, version: str) -> str:
        if version not in DCGM_EXPORTER_IMAGE_TAGS:
            carried = " or ".join(DCGM_EXPORTER_IMAGE_TAGS)
            raise ValueError(f"is not a release that this project carries; use {carried}")
        return version
