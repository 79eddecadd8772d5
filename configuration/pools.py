"""Everything about a GPU pool in one place; what AWS, Kubernetes and the device plugin are told follows from it."""

from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model
from configuration.scheduling import Requirement, Taint, check_label_key
from configuration.text import DnsName, Duration, LabelValue, Quantity, VolumeSize

GPU_RESOURCE: Final = "nvidia.com/gpu"
"""The resource that the NVIDIA device plugin registers and that pods ask for."""

GPU_NODE_LABEL: Final = "nvidia.com/gpu.present"
"""Label that every GPU pool puts on its nodes, and by which the device plugin finds them.

The plugin's chart also accepts two labels that node feature discovery sets, but that does not run here.
"""


class RootVolume(Model):
    """The root disk of a node."""

    size: VolumeSize
    """Size with its unit, such as 100Gi (GiB). Karpenter's own default of 20Gi holds no CUDA image."""
    type: Literal["gp3", "io2"]
    """EBS volume type."""
    encrypted: bool
    """Whether EBS encrypts it."""
    delete_on_termination: bool
    """Whether it goes with its instance; a volume that stays is paid for until somebody finds it."""


class NodeClass(Model):
    """What a node is made of: an EC2NodeClass."""

    ami_alias: str
    """EKS-optimised image by family and release, such as al2023@v20260714.

    The alias picks the accelerated variant for GPU types by itself. al2023@latest is allowed, but then every image
    release replaces every node.
    """
    root_volume: RootVolume
    """The root disk."""

    @field_validator("ami_alias")
    @classmethod
    def _pinned_al2023(cls, alias: str) -> str:
        family, _, release = alias.partition("@")
        pinned = len(release) == 9 and release[0] == "v" and release[1:].isdecimal()
        if family != "al2023" or not (pinned or release == "latest"):
            raise ValueError(
                "must be al2023@vYYYYMMDD, a release listed at https://github.com/awslabs/amazon-eks-ami/releases "
                "(or al2023@latest, and then every release replaces every node)"
            )
        return alias


class Disruption(Model):
    """When Karpenter may remove or replace a node of its own accord."""

    consolidation_policy: Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]
    """Which nodes are candidates."""
    consolidate_after: Duration
    """How long after the last pod came or went, such as 1m; Never turns it off."""


class GpuPool(Model):
    """A pool of GPU nodes that Karpenter buys when pods ask for them: a NodePool."""

    name: DnsName
    """Name of the NodePool."""
    node_class: str
    """One of the names under nodeClasses."""
    requirements: tuple[Requirement, ...] = Field(min_length=1, max_length=100, strict=False)
    """Which instances may be bought."""
    taints: tuple[Taint, ...] = Field(min_length=1, strict=False)
    """What keeps other pods off these nodes. At least one: a GPU node is dear to run a web server on."""
    labels: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels on every node, beside those that this project adds."""
    limits: dict[str, Annotated[int, Field(ge=0)] | Quantity]
    """Most that the nodes of the pool may have together of each resource, such as cpu (vCPU) and nvidia.com/gpu."""
    disruption: Disruption
    """When nodes are consolidated away."""
    expire_after: Duration = "720h"
    """Age at which a node is replaced. Karpenter's default is 720h, 30 days."""

    @field_validator("labels")
    @classmethod
    def _known_domains(cls, labels: dict[str, str]) -> dict[str, str]:
        for key in labels:
            check_label_key(key)
            if key == GPU_NODE_LABEL:
                raise ValueError(f"{key} is put on every GPU pool's nodes already; remove it")
        return labels

    @field_validator("limits")
    @classmethod
    def _bounded_gpus(cls, limits: dict[str, int | str]) -> dict[str, int | str]:
        if GPU_RESOURCE not in limits:
            # A cpu limit of 1000 still lets Karpenter buy forty eight-GPU instances.
            raise ValueError(
                f"a GPU pool needs a limit on {GPU_RESOURCE}, the most GPUs it may hold: no other limit bounds what it "
                f"may cost; add for example {GPU_RESOURCE}: 8"
            )
        return limits

    @model_validator(mode="after")
    def _distinct_taints(self) -> Self:
        pairs = [(taint.key, taint.effect) for taint in self.taints]
        twice = sorted({f"{key}:{effect}" for key, effect in pairs if pairs.count((key, effect)) > 1})
        if twice:
            raise ValueError(f"taint {', '.join(twice)} is given twice; keep one")
        return self
