"""One environment: a network, a cluster, Karpenter, the device plugin and pools."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.alarms import Alarms
from configuration.cluster import Cluster
from configuration.device_plugin import DcgmExporter, DevicePlugin
from configuration.images import check_architectures, images_on_gpu_nodes
from configuration.karpenter import Karpenter
from configuration.model import Model, check_distinct
from configuration.network import Network
from configuration.placement import check_pools
from configuration.pools import CpuPool, GpuPool, NodeClass, Pool
from configuration.ranges import check_apart
from configuration.releases import KARPENTER_IMAGE_DIGESTS, incompatibility, support_warning
from configuration.tags import check_tags
from configuration.text import DnsName, TagKey, TagValue

SampleName = Literal["one-gpu", "one-gpu-five-minutes", "inflate"]
"""A sample workload of `charts.samples`."""

KUBERNETES_SUPPORT: Final = "kubernetes-support"
"""Name of the warning about a Kubernetes version whose standard support is over."""


class EnvironmentFile(Model):
    """What an environment file holds."""

    network: Network
    cluster: Cluster
    karpenter: Karpenter
    device_plugin: DevicePlugin
    dcgm_exporter: DcgmExporter | None = None
    """Metrics of GPUs for Prometheus; none if left out."""
    node_classes: dict[DnsName, NodeClass] = Field(min_length=1)
    """EC2NodeClasses by name."""
    gpu_pools: tuple[GpuPool, ...] = Field(min_length=1, strict=False)
    """GPU pools."""
    cpu_pools: tuple[CpuPool, ...] = Field(default=(), strict=False)
    """Pools for everything that needs no GPU."""
    tags: dict[TagKey, TagValue] = Field(default_factory=dict)
    """Tags on everything that takes tags, nodes too, such as team: research."""
    alarms: Alarms | None = None
    """Whom to tell when something is wrong; nobody if left out."""

    samples: tuple[SampleName, ...] = Field(default=(), strict=False)
    """Sample workloads that are deployed with the rest; `python -m charts` says what each is."""

    @field_validator("tags")
    @classmethod
    def _tags_of_ones_own(cls, tags: dict[str, str]) -> dict[str, str]:
        check_tags(tags)
        return tags

    @property
    def pools(self) -> Sequence[Pool]:
        """Every pool, those with GPUs first."""
        return (*self.gpu_pools, *self.cpu_pools)

    @field_validator("gpu_pools")
    @classmethod
    def _distinct_names(cls, pools: tuple[GpuPool, ...]) -> tuple[GpuPool, ...]:
        check_distinct("pool", [pool.name for pool in pools])
        return pools

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_apart(self.network.cidr, self.cluster.service_cidr)
        version = self.karpenter.version
        reason = incompatibility(karpenter=version, kubernetes=self.cluster.kubernetes_version)
        if reason:
            raise ValueError(f"karpenter.version: {reason}")
        if version not in KARPENTER_IMAGE_DIGESTS:
            # The newest of each minor version, which is the one to take.
            newest = {release.rpartition(".")[0]: release for release in KARPENTER_IMAGE_DIGESTS}
            carried = " or ".join(newest.values())
            raise ValueError(f"karpenter.version: {version} is not a release that this project carries; use {carried}")
        nodes = sum(group.size for group in self.cluster.node_groups)
        if self.karpenter.replicas > nodes:
            raise ValueError(
                f"karpenter.replicas: {self.karpenter.replicas} pods need as many nodes, and the node groups have "
                f"{nodes} together; lower it or raise a node group's size"
            )
        pools = {"gpuPools": self.gpu_pools, "cpuPools": self.cpu_pools}
        check_pools(pools, self.node_classes, self.karpenter)
        return self

    @model_validator(mode="after")
    def _runs_on_gpu_nodes(self) -> Self:
        if self.karpenter.namespace == self.device_plugin.namespace:
            # Two stacks would make it, and the first to go would take the other's pods with it.
            raise ValueError(
                f"devicePlugin.namespace: {self.device_plugin.namespace} is Karpenter's already; give each its own"
            )
        images = images_on_gpu_nodes(self.device_plugin, self.dcgm_exporter)
        for index, pool in enumerate(self.gpu_pools):
            try:
                check_architectures(pool.requirements, images)
            except ValueError as error:
                raise ValueError(f"gpuPools[{index}].{error}") from None
        return self


class Environment(EnvironmentFile):
    """An environment: what its file holds, and the name that the file gives it."""

    name: str
    """The file's name without its suffix, such as workshop."""

    def warnings(self) -> Mapping[str, str]:
        """Return what is allowed and yet worth a word, by a name that never changes."""
        support = support_warning(self.cluster.kubernetes_version)
        found = {KUBERNETES_SUPPORT: support} if support else {}
        for name, node_class in self.node_classes.items():
            for warning in node_class.warnings():
                found[f"node-class-{name}"] = f"nodeClasses.{name}: {warning}"
        for pool in self.pools:
            for warning in pool.warnings():
                found[f"pool-{pool.name}"] = f"pool {pool.name}: {warning}"
        return found
