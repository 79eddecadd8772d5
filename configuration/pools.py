"""Everything about a pool in one place; what AWS, Kubernetes and the device plugin are told follows from it."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from configuration.api.ec2_node_class import EC2NodeClassFields, EC2NodeClassSpec, MetadataOptions
from configuration.api.node_pool import Disruption, Labels, Limits, NodePoolSpec
from configuration.api.selectors import SecurityGroupSelectorTerms, SubnetSelectorTerms
from configuration.api.values import Duration, DurationOrNever, Items
from configuration.model import Model
from configuration.scheduling import Requirement, Taint, capacity_types, check_label, check_taints
from configuration.text import DnsName

GPU_RESOURCE: Final = "nvidia.com/gpu"
"""The resource that the NVIDIA device plugin registers and that pods ask for."""

GPU_NODE_LABEL: Final = "nvidia.com/gpu.present"
"""Label that every GPU pool puts on its nodes, and by which the device plugin finds them.

The plugin's chart also goes by two labels that node feature discovery sets; here this one alone decides, since image
families that register GPUs by themselves get those two as well.
"""

_ALIASES: Final[Mapping[str, tuple[str, str, str]]] = {
    "al2": (r"v[0-9]{8}", "al2@vYYYYMMDD", "https://github.com/awslabs/amazon-eks-ami/releases"),
    "al2023": (r"v[0-9]{8}", "al2023@vYYYYMMDD", "https://github.com/awslabs/amazon-eks-ami/releases"),
    "bottlerocket": (
        r"v?[0-9]+\.[0-9]+\.[0-9]+",
        "bottlerocket@vX.Y.Z",
        "https://github.com/bottlerocket-os/bottlerocket/releases",
    ),
}
"""By family: what a pinned release looks like, to a program and to a person, and where releases are listed."""

_LINUX: Final = Requirement(key="kubernetes.io/os", operator="In", values=("linux",))

_NVIDIA: Final = (
    # Category g has AMD GPUs too (g4ad), which never register nvidia.com/gpu.
    Requirement(key="karpenter.k8s.aws/instance-gpu-manufacturer", operator="In", values=("nvidia",)),
    # A slice of a GPU (g6f) counts as none in EC2's data, and Karpenter expects no nvidia.com/gpu from it
    # (karpenter-provider-aws v1.14.1, website/content/en/docs/reference/instance-types.md).
    Requirement(key="karpenter.k8s.aws/instance-gpu-count", operator="Gt", values=("0",)),
    # What the accelerated image's NVIDIA driver, 580, does not support: g7 needs 595 (amazon-eks-ami,
    # doc/usage/g7-ami.md); g3, g3s and p2 are not among its types (Amazon EKS user guide, ml-eks-optimized-ami).
    Requirement(key="karpenter.k8s.aws/instance-family", operator="NotIn", values=("g3", "g3s", "g7", "p2")),
)


class NodeClass(EC2NodeClassFields):
    """What a node is made of: an EC2NodeClass.

    What is left out of role, instanceProfile and the selectors of subnets and security groups follows from the
    cluster: its node role, and the subnets and the security group that are tagged or made for its nodes.
    """

    # One hop keeps pods away from the node's credentials; tokens keep out requests forged through a proxy.
    metadata_options: MetadataOptions | None = MetadataOptions(
        http_endpoint="enabled", httpProtocolIPv6="disabled", http_put_response_hop_limit=1, http_tokens="required"
    )
    """Instance metadata service."""
    subnet_selector_terms: SubnetSelectorTerms | None = None
    """Subnets, instead of the cluster's own."""
    security_group_selector_terms: SecurityGroupSelectorTerms | None = None
    """Security groups, instead of the nodes' own."""

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.role is not None and self.instance_profile is not None:
            raise ValueError("instanceProfile: stands instead of role; remove one of the two")
        for index, term in enumerate(self.ami_selector_terms):
            if term.alias is not None:
                _check_alias(f"amiSelectorTerms[{index}].alias", term.alias)
            if term.name is not None:
                self._check_image_name(f"amiSelectorTerms[{index}].name", term.name)
        for index, mapping in enumerate(self.block_device_mappings or ()):
            # The CRD's pattern takes a unit alone, which Karpenter then cannot read: every object of the kind is lost.
            if mapping.ebs and mapping.ebs.volume_size in ("Ti", "T"):
                raise ValueError(
                    f"blockDeviceMappings[{index}].ebs.volumeSize: {mapping.ebs.volume_size} has no number; "
                    f"write for example 1{mapping.ebs.volume_size}"
                )
        return self

    def _check_image_name(self, where: str, name: str) -> None:
        if re.search(r"deep\s*learning", name, re.IGNORECASE) and self.ami_family in ("AL2", "AL2023", "Bottlerocket"):
            raise ValueError(
                f"{where}: {name} is a Deep Learning AMI, which has no nodeadm: with amiFamily {self.ami_family} the "
                f"node never joins, and Karpenter replaces it every 15 minutes; write alias: al2023@vYYYYMMDD, whose "
                f"accelerated variant has NVIDIA's driver"
            )

    def spec(self) -> EC2NodeClassSpec:
        """Return the EC2NodeClass's spec, with stand-ins for what follows from the cluster."""
        derived = {
            "subnetSelectorTerms": [{"tags": {"cluster": "derived"}}],
            "securityGroupSelectorTerms": [{"tags": {"cluster": "derived"}}],
        }
        identity = {} if self.instance_profile else {"role": "derived"}
        return EC2NodeClassSpec.model_validate(identity | derived | dump(self), by_name=False)

    def warnings(self) -> Sequence[str]:
        """Return what is allowed and yet worth a word; nothing where all is well."""
        latest = [term.alias for term in self.ami_selector_terms if term.alias and term.alias.endswith("@latest")]
        return [
            f"alias {alias}: every release of the image replaces every node; pin one, such as {pinned}"
            for alias in latest
            if (pinned := _ALIASES.get(alias.partition("@")[0], ("", "", ""))[1])
        ]


def _check_alias(where: str, alias: str) -> None:
    family, _, release = alias.partition("@")
    # Windows' families know latest alone, which the API's own rules see to.
    pattern, example, listed = _ALIASES.get(family, ("latest", "", ""))
    if release != "latest" and not re.fullmatch(pattern, release):
        raise ValueError(
            f"{where}: {alias} must be {example}, a release listed at {listed} (or {family}@latest, and then every "
            f"release replaces every node)"
        )


class Pool(Model):
    """Nodes that Karpenter buys when pods ask for them: a NodePool, without its nesting."""

    name: DnsName
    """Name of the NodePool."""
    node_class: str
    """One of the names under nodeClasses."""
    requirements: Items[Requirement] = Field(default=(), max_length=100)
    """Which instances may be bought. Linux is added, unless the pool says something of kubernetes.io/os itself."""
    taints: Items[Taint] = ()
    """What keeps other pods off these nodes."""
    startup_taints: Items[Taint] = ()
    """What keeps pods off a new node until somebody, such as a DaemonSet, takes the taint away."""
    labels: Labels = Field(default_factory=dict)
    """Labels on every node, beside those that this project adds."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations on every node."""
    limits: Limits | None = None
    """Most that the nodes of the pool may have together of each resource, such as cpu (vCPU) and nvidia.com/gpu."""
    disruption: Disruption = Disruption(consolidation_policy="WhenEmptyOrUnderutilized", consolidate_after="1m")
    """When nodes are consolidated away."""
    expire_after: DurationOrNever = "720h"
    """Age at which a node is replaced. Karpenter's default is 720h, 30 days."""
    termination_grace_period: Duration | None = None
    """How long a node may take to drain before its pods are deleted; without an end if left out."""
    weight: int | None = Field(default=None, ge=1, le=100)
    """A pool of higher weight is tried first; 0 if left out."""
    replicas: int | None = Field(default=None, ge=0)
    """A fixed number of nodes, whatever pods ask for (alpha; needs karpenter.featureGates.staticCapacity)."""

    @field_validator("labels")
    @classmethod
    def _known_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        for key, value in labels.items():
            check_label(key, [value])
        return labels

    @field_validator("limits")
    @classmethod
    def _no_negative_limits(cls, limits: dict[str, int | str] | None) -> dict[str, int | str] | None:
        for resource, limit in (limits or {}).items():
            if str(limit).startswith("-"):
                raise ValueError(
                    f"{resource} {limit} is negative, so that no node could ever be bought; write 0 or more"
                )
        return limits

    @model_validator(mode="after")
    def _as_the_api_has_it(self) -> Self:
        check_taints((*self.taints, *self.startup_taints))
        try:
            self.spec()
        except ValidationError as error:
            details = error.errors(include_url=False)[0]
            raise ValueError(str(details.get("ctx", {}).get("error", details["msg"]))) from None
        return self

    def added_labels(self) -> Mapping[str, str]:
        """Return the labels that this project puts on every node of the pool."""
        return {}

    def default_requirements(self) -> Sequence[Requirement]:
        """Return what is asked of instances unless the pool says something of the same label itself."""
        return (_LINUX,)

    def capacity_types(self) -> frozenset[str]:
        """Return the capacity types that the pool may buy: some of on-demand, spot and reserved."""
        return capacity_types(self.labels, self.requirements)

    def spec(self) -> NodePoolSpec:
        """Return the NodePool's spec.

        Raises:
            pydantic.ValidationError: The API server would refuse it; a pool out of a file has been checked for that.
        """
        stated = {requirement.key for requirement in self.requirements} | self.labels.keys()
        added = [requirement for requirement in self.default_requirements() if requirement.key not in stated]
        node_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": self.node_class}
        metadata = {"labels": {**self.labels, **self.added_labels()}, "annotations": self.annotations}
        taints = {
            "taints": [dump(taint) for taint in self.taints],
            "startupTaints": [dump(taint) for taint in self.startup_taints],
        }
        spec = {
            "nodeClassRef": node_class,
            "requirements": [dump(requirement) for requirement in (*self.requirements, *added)],
            **_without_empty(taints),
            "expireAfter": self.expire_after,
            "terminationGracePeriod": self.termination_grace_period,
        }
        content = {
            "template": {**_without_empty({"metadata": _without_empty(metadata)}), "spec": spec},
            "disruption": dump(self.disruption),
            "limits": self.limits,
            "weight": self.weight,
            "replicas": self.replicas,
        }
        return NodePoolSpec.model_validate(content, by_name=False)

    def warnings(self) -> Sequence[str]:
        """Return what is allowed and yet worth a word; nothing where all is well."""
        if not self.limits and self.replicas is None and "spot" not in self.capacity_types():
            return ["has neither limits nor spot capacity: nothing bounds what it may cost; add for example cpu: 1000"]
        return []


class GpuPool(Pool):
    """A pool of nodes with NVIDIA GPUs.

    Added to its requirements, each unless the pool says something of the same label itself: instance types with whole
    NVIDIA GPUs, of families that the accelerated image's driver supports.
    """

    taints: Items[Taint] = Field(min_length=1)
    """What keeps other pods off these nodes. At least one: a GPU node is dear to run a web server on."""

    @field_validator("labels")
    @classmethod
    def _not_ours(cls, labels: dict[str, str]) -> dict[str, str]:
        if GPU_NODE_LABEL in labels:
            raise ValueError(f"{GPU_NODE_LABEL} is put on every GPU pool's nodes already; remove it")
        return labels

    @model_validator(mode="after")
    def _bounded_gpus(self) -> Self:
        if self.replicas is None and GPU_RESOURCE not in (self.limits or {}):
            # A cpu limit of 1000 still lets Karpenter buy forty eight-GPU instances.
            raise ValueError(
                f"limits: a GPU pool needs a limit on {GPU_RESOURCE}, the most GPUs it may hold: no other limit bounds "
                f"what it may cost; add for example {GPU_RESOURCE}: 8"
            )
        return self

    def added_labels(self) -> Mapping[str, str]:
        """Return the label by which the device plugin finds the pool's nodes."""
        return {GPU_NODE_LABEL: "true"}

    def default_requirements(self) -> Sequence[Requirement]:
        """Return what is asked of instances unless the pool says something of the same label itself."""
        return (_LINUX, *_NVIDIA)


class CpuPool(Pool):
    """A pool of nodes for everything that needs no GPU."""


def dump(model: Model) -> dict[str, object]:
    """Return a part of Karpenter's API as an object of it has it: what is left out stays out."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _without_empty(content: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in content.items() if value}
