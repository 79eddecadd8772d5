"""What makes a node's GPUs known to Kubernetes."""

from pydantic import field_validator

from configuration.model import Model
from configuration.releases import DEVICE_PLUGIN_VERSIONS
from configuration.text import DnsName, Release


class DevicePlugin(Model):
    """The NVIDIA device plugin, which registers a node's GPUs."""

    version: Release
    """Release, without a v."""
    namespace: DnsName
    """Namespace it runs in; created."""

    @field_validator("version")
    @classmethod
    def _known(cls, version: str) -> str:
        if version not in DEVICE_PLUGIN_VERSIONS:
            raise ValueError(f"is not a release that this project carries; use {' or '.join(DEVICE_PLUGIN_VERSIONS)}")
        return version
