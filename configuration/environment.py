"""One environment: a network, a cluster, Karpenter, the device plugin and GPU pools."""

from typing import Self

from pydantic import Field, field_validator, model_validator

from configuration.cluster import Cluster
from configuration.device_plugin import DevicePlugin
from configuration.karpenter import Karpenter
from configuration.model import Model, check_distinct
from configuration.network import Network
from configuration.pools import GpuPool, NodeClass
from configuration.releases import KARPENTER_IMAGE_DIGESTS, incompatibility
from configuration.text import DnsName


class EnvironmentFile(Model):
    """What an environment file holds."""

    network: Network
    cluster: Cluster
    karpenter: Karpenter
    device_plugin: DevicePlugin
    node_classes: dict[DnsName, NodeClass] = Field(min_length=1)
    """EC2NodeClasses by name."""
    gpu_pools: tuple[GpuPool, ...] = Field(min_length=1, strict=False)
    """GPU pools."""

    @field_validator("gpu_pools")
    @classmethod
    def _distinct_names(cls, pools: tuple[GpuPool, ...]) -> tuple[GpuPool, ...]:
        check_distinct("pool", [pool.name for pool in pools])
        return pools

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        version = self.karpenter.version
        reason = incompatibility(karpenter=version, kubernetes=self.cluster.kubernetes_version)
        if reason:
            raise ValueError(f"karpenter.version: {reason}")
        if version not in KARPENTER_IMAGE_DIGESTS:
            carried = " or ".join(KARPENTER_IMAGE_DIGESTS)
            raise ValueError(f"karpenter.version: {version} is not a release that this project carries; use {carried}")
        nodes = sum(group.size for group in self.cluster.node_groups)
        if self.karpenter.replicas > nodes:
            raise ValueError(
                f"karpenter.replicas: {self.karpenter.replicas} pods need as many nodes, and the node groups have "
                f"{nodes} together; lower it or raise a node group's size"
            )
        for index, pool in enumerate(self.gpu_pools):
            if pool.node_class not in self.node_classes:
                raise ValueError(
                    f"gpuPools[{index}].nodeClass: nobody defines {pool.node_class!r}; "
                    f"use one of {', '.join(sorted(self.node_classes))}, or add it under nodeClasses"
                )
        return self


class Environment(EnvironmentFile):
    """An environment: what its file holds, and the name that the file gives it."""

    name: str
    """The file's name without its suffix, such as workshop."""
