"""The cluster and its managed node groups."""

import re
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model, check_distinct
from configuration.ranges import PRIVATE_RANGES, ipv4_range, service_range
from configuration.releases import CALENDAR_READ, KUBECTL_LAYERS, STANDARD_SUPPORT_ENDS
from configuration.text import (
    AddonVersion,
    ClusterName,
    DnsName,
    InstanceType,
    KmsKey,
    KubernetesVersion,
    PrincipalArn,
)

LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
"""Logs of the control plane. Source: Amazon EKS user guide, control-plane-logs."""

NETWORKING_ADDONS: Final = ("vpc-cni", "kube-proxy", "coredns")
"""Add-ons that EKS installs by itself, unmanaged, where none of them is asked for."""


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


class Endpoint(Model):
    """Who reaches the API server over the network. Who may do anything there is decided by access entries."""

    access: Literal["public-and-private", "private"] = "public-and-private"
    """From the internet and the VPC, or from the VPC alone."""
    public_cidrs: tuple[str, ...] | None = Field(default=None, min_length=1, max_length=40, strict=False)
    """Ranges of the internet that reach it, such as [203.0.113.0/24]; 0.0.0.0/0, everybody, if left out. Nodes come
    from the VPC and need not be among them."""

    @field_validator("public_cidrs")
    @classmethod
    def _public_ranges(cls, cidrs: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for cidr in cidrs or ():
            network = ipv4_range(cidr, "203.0.113.0/24")
            if any(network.subnet_of(private) for private in PRIVATE_RANGES):
                raise ValueError(
                    f"{cidr} is private, and nobody comes from there to the public endpoint; name the range that your "
                    f"requests leave from, such as 203.0.113.0/24"
                )
        return cidrs

    @model_validator(mode="after")
    def _public_at_all(self) -> Self:
        if self.access == "private" and self.public_cidrs is not None:
            raise ValueError("publicCidrs: a private endpoint has no public ranges; remove them, or change access")
        return self


class Addons(Model):
    """EKS add-ons, each with `default` (the version that EKS takes for the cluster's) or a pinned version.

    The first three go together. Where none of them is named, EKS installs its own, unmanaged.
    """

    vpc_cni: AddonVersion | None = Field(default=None, alias="vpc-cni")
    """Gives pods their addresses."""
    kube_proxy: AddonVersion | None = Field(default=None, alias="kube-proxy")
    """Takes pods to services."""
    coredns: AddonVersion | None = None
    """Resolves services' names."""
    eks_pod_identity_agent: AddonVersion | None = Field(default=None, alias="eks-pod-identity-agent")
    """Hands IAM roles to pods; there anyway with `karpenter.credentials: pod-identity`."""
    aws_ebs_csi_driver: AddonVersion | None = Field(default=None, alias="aws-ebs-csi-driver")
    """Makes EBS volumes for pods; gets a role of its own."""
    eks_node_monitoring_agent: AddonVersion | None = Field(default=None, alias="eks-node-monitoring-agent")
    """Reports broken GPUs, networks and kubelets as node conditions, which Karpenter's node repair goes by."""

    @model_validator(mode="after")
    def _networking_together(self) -> Self:
        named = self.versions()
        there = [name for name in NETWORKING_ADDONS if name in named]
        missing = [name for name in NETWORKING_ADDONS if name not in named]
        if there and missing:
            raise ValueError(
                f"{there[0]} without {' and '.join(missing)}: EKS then installs none of the three by itself, and no "
                f"pod would have a network and names; add {' and '.join(f'{name}: default' for name in missing)}"
            )
        return self

    def versions(self) -> dict[str, str]:
        """The add-ons that are asked for, with `default` or a version."""
        return {name: version for name, version in self.model_dump(by_alias=True).items() if version is not None}


class Cluster(Model):
    """An EKS cluster with managed node groups."""

    name: ClusterName
    """Name of the cluster; roles, policies, the interruption queue and the stacks are named after it."""
    kubernetes_version: KubernetesVersion
    """Minor version in quotes, such as "1.33"."""
    node_groups: tuple[NodeGroup, ...] = Field(min_length=1, strict=False)
    """Managed node groups."""
    service_cidr: str = "172.20.0.0/16"
    """Range of Kubernetes services; it cannot be changed later."""
    endpoint: Endpoint = Endpoint()
    """Who reaches the API server over the network."""
    admins: tuple[PrincipalArn, ...] = Field(default=(), strict=False)
    """IAM roles and users that may do everything in the cluster."""
    control_plane_logs: tuple[LogType, ...] = Field(default=(), strict=False)
    """Logs that the control plane writes to CloudWatch, kept for 30 days."""
    secrets_key: KmsKey | None = None
    """KMS key that Kubernetes secrets are encrypted with: own (made with the cluster, rotated every year), or the ARN
    of one that is there. EKS's own key if left out. It cannot be taken back."""
    addons: Addons = Addons()
    """EKS add-ons."""
    deletion_protection: bool = False
    """Whether EKS refuses to delete the cluster, `cdk destroy` too, until this is false again."""
    support_type: Literal["STANDARD", "EXTENDED"] = "EXTENDED"
    """What comes at the end of a version's standard support: EKS upgrades the cluster by itself (STANDARD), or asks
    more for it (EXTENDED)."""

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
        check_distinct("node group", [group.name for group in groups])
        return groups

    @field_validator("service_cidr")
    @classmethod
    def _service_range(cls, cidr: str) -> str:
        service_range(cidr)
        return cidr

    @field_validator("admins", "control_plane_logs")
    @classmethod
    def _distinct(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)} is given twice; keep one")
        return values

    @model_validator(mode="after")
    def _still_supported(self) -> Self:
        ends = STANDARD_SUPPORT_ENDS.get(self.kubernetes_version)
        if self.support_type == "STANDARD" and ends and ends < CALENDAR_READ:
            raise ValueError(
                f"supportType: standard support of Kubernetes {self.kubernetes_version} ended on {ends.isoformat()}, "
                f"so EKS would upgrade the cluster at once; use EXTENDED, or a newer kubernetesVersion"
            )
        return self
