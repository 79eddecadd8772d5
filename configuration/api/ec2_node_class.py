"""`spec` of an EC2NodeClass, karpenter.k8s.aws/v1."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from configuration.api.block_devices import BlockDeviceMappings
from configuration.api.kubelet import Kubelet
from configuration.api.selectors import (
    AmiSelectorTerms,
    CapacityReservationSelectorTerms,
    PlacementGroupSelector,
    SecurityGroupSelectorTerms,
    SubnetSelectorTerms,
)
from configuration.api.values import Items, Natural
from configuration.model import Model

AmiFamily = Literal["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]

FAMILY_OF_ALIAS: Final[dict[str, AmiFamily]] = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
"""`amiFamily` that follows from an alias's family."""

_RESTRICTED_TAGS: Final = (
    "eks:eks-cluster-name",
    "karpenter.sh/nodepool",
    "karpenter.sh/nodeclaim",
    "karpenter.k8s.aws/ec2nodeclass",
)


class MetadataOptions(Model):
    """The instance metadata service of a node. What is left out has the values that are named here first."""

    http_endpoint: Literal["enabled", "disabled"] | None = None
    """Whether it answers."""
    http_protocol_ipv6: Literal["disabled", "enabled"] | None = Field(default=None, alias="httpProtocolIPv6")
    """Whether it answers over IPv6."""
    http_put_response_hop_limit: int | None = Field(default=None, ge=1, le=64)
    """How many hops its answers may go: 1 keeps pods without host network away from the node's credentials."""
    http_tokens: Literal["required", "optional"] | None = None
    """Whether requests need a token (IMDSv2), which keeps out requests forged through a proxy."""


class NetworkInterface(Model):
    """A network interface."""

    network_card_index: Natural
    """Network card that it is on."""
    device_index: Natural
    """Device that it is on the card."""
    interface_type: Literal["interface", "efa-only"]
    """Whether it has addresses, or is for Elastic Fabric Adapter traffic alone."""


def _interfaces(interfaces: tuple[NetworkInterface, ...]) -> tuple[NetworkInterface, ...]:
    places = [(interface.network_card_index, interface.device_index) for interface in interfaces]
    kinds = {(*place, interface.interface_type) for place, interface in zip(places, interfaces, strict=True)}
    if interfaces and (0, 0, "interface") not in kinds:
        raise ValueError("needs a primary interface: add networkCardIndex: 0, deviceIndex: 0, interfaceType: interface")
    if len(set(places)) < len(places):
        raise ValueError("two have the same networkCardIndex and deviceIndex; change one of them")
    cards = [interface.network_card_index for interface in interfaces if interface.interface_type == "efa-only"]
    if len(set(cards)) < len(cards):
        raise ValueError("two of type efa-only are on one network card, which takes one; change one of them")
    return interfaces


class ConnectionTracking(Model):
    """After how many idle seconds security groups forget a connection."""

    tcp_established_timeout: int | None = Field(default=None, ge=60, le=432000)
    """Of an established TCP connection."""
    udp_stream_timeout: int | None = Field(default=None, ge=60, le=180)
    """Of a UDP flow with more than one request and response."""
    udp_timeout: int | None = Field(default=None, ge=30, le=60)
    """Of any other UDP flow."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.tcp_established_timeout is None and self.udp_stream_timeout is None and self.udp_timeout is None:
            raise ValueError("is empty; add tcpEstablishedTimeout, udpStreamTimeout or udpTimeout, or remove the key")
        return self


class CpuOptions(Model):
    """Options of the processor."""

    nested_virtualization: Literal["enabled", "disabled"] | None = None
    """Whether virtual machines may run on the node; enabled buys only types that can."""


def _tags(tags: dict[str, str]) -> dict[str, str]:
    for key in tags:
        if not key:
            raise ValueError("a tag has no key; give it one")
        if key in _RESTRICTED_TAGS or key.startswith("kubernetes.io/cluster"):
            raise ValueError(f"{key} is a tag that Karpenter sets itself; remove it")
    return tags


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("must not be empty; remove the key or give it a value")
    return text


Named = Annotated[str, AfterValidator(_not_empty)]


class EC2NodeClassFields(Model):
    """What an EC2NodeClass may say beside where its nodes are put."""

    role: Named | None = None
    """IAM role of the nodes, by name; Karpenter makes an instance profile of it."""
    instance_profile: Named | None = None
    """Instance profile of the nodes, by name, instead of `role`."""
    ami_family: AmiFamily | None = None
    """Form of the user data; follows from an alias."""
    ami_selector_terms: AmiSelectorTerms
    """Images."""
    block_device_mappings: BlockDeviceMappings | None = None
    """Disks."""
    metadata_options: MetadataOptions | None = None
    """Instance metadata service."""
    tags: Annotated[dict[str, str], AfterValidator(_tags)] | None = None
    """Tags of instances, volumes, network interfaces and launch templates."""
    user_data: str | None = None
    """More for the node's first start, in the form of `amiFamily`; Karpenter merges its own into it."""
    kubelet: Kubelet | None = None
    """Configuration of kubelet."""
    instance_store_policy: Literal["RAID0"] | None = None
    """What becomes of local NVMe disks: RAID0 makes one of them, for pods' ephemeral storage and images."""
    detailed_monitoring: bool | None = None
    """Whether CloudWatch gets metrics every minute."""
    associate_public_ip_address: bool | None = Field(default=None, alias="associatePublicIPAddress")
    """Whether nodes get public addresses; as the subnet says if left out."""
    ip_prefix_count: Natural | None = None
    """IPv4 prefixes of the primary network interface."""
    capacity_reservation_selector_terms: CapacityReservationSelectorTerms | None = None
    """Capacity reservations."""
    placement_group_selector: PlacementGroupSelector | None = None
    """Placement group."""
    network_interfaces: (
        Annotated[Items[NetworkInterface], Field(max_length=150), AfterValidator(_interfaces)] | None
    ) = None
    """Network interfaces, for Elastic Fabric Adapter."""
    connection_tracking: ConnectionTracking | None = None
    """Idle timeouts of connections."""
    cpu_options: CpuOptions | None = None
    """Options of the processor."""
    context: str | None = None
    """Reserved by EC2 (CreateFleet)."""

    @model_validator(mode="after")
    def _family_fits(self) -> Self:
        aliases = [term.alias for term in self.ami_selector_terms if term.alias is not None]
        if not aliases and self.ami_family is None:
            raise ValueError("amiFamily: is needed where no alias names it; add for example amiFamily: AL2023")
        for alias in aliases:
            family = FAMILY_OF_ALIAS[alias.partition("@")[0]]
            if self.ami_family not in (None, family, "Custom"):
                raise ValueError(f"amiFamily: must be {family} or Custom with the alias {alias}; or remove it")
        return self


class EC2NodeClassSpec(EC2NodeClassFields):
    """What an EC2NodeClass says."""

    subnet_selector_terms: SubnetSelectorTerms
    """Subnets."""
    security_group_selector_terms: SecurityGroupSelectorTerms
    """Security groups."""

    @model_validator(mode="after")
    def _one_identity(self) -> Self:
        if (self.role is None) is (self.instance_profile is None):
            raise ValueError("needs role or instanceProfile, one of the two")
        return self
