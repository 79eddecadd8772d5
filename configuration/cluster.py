"""The cluster and its managed node groups."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model, check_distinct
from configuration.releases import KUBECTL_LAYERS
from configuration.text import ClusterName, DnsName, InstanceType, KubernetesVersion


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
        check_distinct("node group", [group.name for group in groups])
        return groups
