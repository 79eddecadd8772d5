"""One environment: a network, a cluster, Karpenter, the device plugin and GPU pools."""

import ipaddress
import re
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model
from configuration.pools import GpuPool, NodeClass
from configuration.releases import DEVICE_PLUGIN_VERSIONS, KARPENTER_IMAGE_DIGESTS, KUBECTL_LAYERS, incompatibility
from configuration.text import ClusterName, DnsName, InstanceType, KubernetesVersion, Quantity, Region, Release

PUBLIC_SUBNET_PREFIX: Final = 24
"""A public subnet holds the NAT gateway and load balancers: 256 addresses."""

PRIVATE_SUBNET_PREFIX: Final = 19
"""A private subnet holds nodes and pods: 8192 addresses, since the VPC CNI gives every pod one."""


class Network(Model):
    """A VPC of its own: public and private subnets in every zone, and one NAT gateway."""

    region: Region
    """AWS Region."""
    availability_zones: tuple[str, ...] = Field(min_length=2, max_length=6, strict=False)
    """Zones, named in full so that nothing is looked up; EKS needs two."""
    cidr: str
    """The VPC's IPv4 range, such as 10.0.0.0/16."""

    @field_validator("cidr")
    @classmethod
    def _private_range(cls, cidr: str) -> str:
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as error:
            raise ValueError(f"must be an IPv4 range such as 10.0.0.0/16 ({error})") from None
        if network.prefixlen < 16:
            raise ValueError("a VPC is at most a /16; write for example 10.0.0.0/16")
        return cidr

    @model_validator(mode="after")
    def _zones_and_room(self) -> Self:
        zones = self.availability_zones
        foreign = [zone for zone in zones if zone[:-1] != self.region or not zone[-1].isalpha()]
        if foreign:
            raise ValueError(f"availabilityZones: {', '.join(foreign)} is not in region {self.region}")
        if len(set(zones)) < len(zones):
            raise ValueError(f"availabilityZones: a zone is given twice in {list(zones)}; keep one of each")
        needed = len(zones) * (2 ** (32 - PRIVATE_SUBNET_PREFIX) + 2 ** (32 - PUBLIC_SUBNET_PREFIX))
        if ipaddress.IPv4Network(self.cidr).num_addresses < needed:
            raise ValueError(
                f"cidr: {self.cidr} is too small: {len(zones)} zones need {needed} addresses (a "
                f"/{PRIVATE_SUBNET_PREFIX} and a /{PUBLIC_SUBNET_PREFIX} each); use a /16"
            )
        return self


class NodeGroup(Model):
    """A managed node group of CPU nodes: where Karpenter itself, CoreDNS and the like run."""

    name: DnsName
    """Name of the node group."""
    architecture: Literal["amd64", "arm64"]
    """Of the instance type; chooses the image (Amazon Linux 2023, standard)."""
    instance_type: InstanceType
    """EC2 instance type, such as m6i.large."""
    size: int = Field(ge=1, le=450)
    """Number of nodes; 450 is what EKS allows in one group."""

    @model_validator(mode="after")
    def _architecture_fits(self) -> Self:
        family = self.instance_type.partition(".")[0]
        if re.match(r"(g|gr|p|inf|trn|dl|vt)[0-9]", family):
            raise ValueError(
                f"instanceType: {self.instance_type} has accelerators, and node groups are for CPU nodes; use a type "
                f"such as m6i.large, and add a pool under gpuPools"
            )
        # In EC2's names a g after the generation stands for Graviton: m7g, c6gn. The first generation was called a1.
        graviton = family == "a1" or "g" in re.sub(r"^[a-z]+[0-9]+", "", family)
        actual = "arm64" if graviton else "amd64"
        if self.architecture != actual:
            raise ValueError(
                f"architecture: {self.instance_type} is {actual}, not {self.architecture}; change one of the two"
            )
        return self


class Cluster(Model):
    """An EKS cluster with managed node groups."""

    name: ClusterName
    """Name of the cluster; roles, policies, the interruption queue and the stacks are named after it."""
    kubernetes_version: KubernetesVersion
    """Minor version in quotes, such as "1.33"."""
    node_groups: tuple[NodeGroup, ...] = Field(min_length=1, strict=False)
    """Managed node groups."""

    @field_validator("kubernetes_version")
    @classmethod
    def _has_kubectl(cls, version: str) -> str:
        if version not in KUBECTL_LAYERS:
            raise ValueError(
                f"no kubectl layer is installed for Kubernetes {version}; use {' or '.join(KUBECTL_LAYERS)}, or add "
                f"aws-cdk-lambda-layer-kubectl-v{version.replace('1.', '', 1)}"
            )
        return version

    @field_validator("node_groups")
    @classmethod
    def _distinct_names(cls, groups: tuple[NodeGroup, ...]) -> tuple[NodeGroup, ...]:
        _distinct("node group", [group.name for group in groups])
        return groups


class Karpenter(Model):
    """The Karpenter controller."""

    version: Release
    """Release, without a v."""
    namespace: DnsName
    """Namespace it runs in; created."""
    service_account: DnsName
    """Service account it runs as; the controller role trusts this one alone."""
    replicas: int = Field(ge=1)
    """Pods, each on a node of its own; one leads."""
    cpu: Quantity
    """CPU of one pod, requested and limited, such as "1" (a core)."""
    memory: Quantity
    """Memory of one pod, requested and limited, such as 1Gi."""


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
        _distinct("pool", [pool.name for pool in pools])
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


def _distinct(what: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two have the name {', '.join(twice)}; give every {what} a name of its own")
