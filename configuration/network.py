"""The network: a VPC of the cluster's own, or one that is there already."""

from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model, check_distinct
from configuration.ranges import vpc_range
from configuration.text import Region, SubnetId, VpcId

PUBLIC_SUBNET_PREFIX: Final = 24
"""A public subnet holds the NAT gateway and load balancers: 256 addresses."""

ADDRESSES_AWS_KEEPS: Final = 5
"""Of every subnet. Source: Amazon VPC user guide, subnet-sizing."""

EndpointName = Literal["s3", "ecr.api", "ecr.dkr", "ec2", "sts", "ssm", "sqs", "eks", "eks-auth", "logs"]
"""AWS services that nodes and Karpenter call, by the name in their endpoint."""


class Vpc(Model):
    """A VPC of the cluster's own: a public and a private subnet in every zone."""

    availability_zones: tuple[str, ...] = Field(min_length=2, max_length=6, strict=False)
    """Zones, named in full so that nothing is looked up; EKS needs two."""
    cidr: str
    """The VPC's IPv4 range, such as 10.0.0.0/16."""
    nodes: int = Field(default=64, ge=1)
    """Most nodes at a time in one zone: GPU capacity is often in one zone alone."""
    pods_per_node: int = Field(default=110, ge=1, le=250)
    """Most pods on a node, each with an address of the subnet's; 110 is Kubernetes' own default."""
    nat_gateways: Literal["one", "one-per-zone"] = "one"
    """One is cheapest, and everybody's way out is then in one zone; one a zone also saves traffic between zones."""
    endpoints: tuple[EndpointName, ...] = Field(default=(), strict=False)
    """AWS services that are reached without the NAT gateway. s3 is free and carries the layers of images in ECR; each
    other one is charged by the hour and zone."""
    flow_logs: bool = False
    """Whether the VPC's traffic is logged, for 30 days."""

    @field_validator("cidr")
    @classmethod
    def _vpc_range(cls, cidr: str) -> str:
        vpc_range(cidr)
        return cidr

    @field_validator("availability_zones")
    @classmethod
    def _distinct_zones(cls, zones: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(zones)) < len(zones):
            raise ValueError(f"a zone is given twice in {list(zones)}; keep one of each")
        return zones

    @field_validator("endpoints")
    @classmethod
    def _distinct_endpoints(cls, names: tuple[EndpointName, ...]) -> tuple[EndpointName, ...]:
        if len(set(names)) < len(names):
            raise ValueError(f"an endpoint is given twice in {list(names)}; keep one of each")
        return names

    @property
    def private_subnet_prefix(self) -> int:
        """The smallest private subnet that holds all nodes of a zone: the VPC CNI gives each pod an address, too."""
        addresses = self.nodes * (1 + self.pods_per_node) + ADDRESSES_AWS_KEEPS
        return 32 - (addresses - 1).bit_length()

    @model_validator(mode="after")
    def _room(self) -> Self:
        private, public, zones = self.private_subnet_prefix, PUBLIC_SUBNET_PREFIX, len(self.availability_zones)
        there = vpc_range(self.cidr).num_addresses
        size = 2 ** max(0, 32 - private)
        # Subnets are cut from the range in order, the public ones first, and each begins at a multiple of its size.
        needed = -(-zones * 2 ** (32 - public) // size) * size + zones * size
        if needed > there:
            raise ValueError(
                f"cidr: {self.cidr} is too small: it has {there} addresses, and {zones} zones need {needed}: a "
                f"/{private} each for {self.nodes} nodes with {self.pods_per_node} pods, and a /{public}; "
                f"use {_way_out(self, needed)}"
            )
        return self


def _way_out(vpc: Vpc, needed: int) -> str:
    prefix = 32 - (needed - 1).bit_length()
    fewer = "fewer nodes, podsPerNode or zones"
    address = vpc.cidr.partition("/")[0]
    larger = f"a range of at least a /{prefix}, such as {_network(address, prefix)}"
    return f"{larger}, or {fewer}" if prefix >= 16 else f"{fewer}: a VPC is at most a /16"


def _network(address: str, prefix: int) -> str:
    return str(IPv4Network(f"{address}/{prefix}", strict=False))


class Subnet(Model):
    """A subnet that is there already."""

    id: SubnetId
    """Such as subnet-0123456789abcdef0."""
    zone: str
    """Its zone, named in full, such as us-west-2a."""


class ExistingVpc(Model):
    """A VPC that is there already. Nothing in it is changed or tagged: Karpenter finds the subnets by their ids."""

    vpc_id: VpcId
    """Such as vpc-0123456789abcdef0."""
    cidr: str
    """Its IPv4 range, such as 10.0.0.0/16: nothing is looked up."""
    private_subnets: tuple[Subnet, ...] = Field(min_length=2, strict=False)
    """Where the control plane and all nodes are: in two zones at least, each with a route to the AWS APIs."""
    public_subnets: tuple[Subnet, ...] = Field(default=(), strict=False)
    """Given to EKS beside the private ones; no node is put there."""

    @field_validator("cidr")
    @classmethod
    def _vpc_range(cls, cidr: str) -> str:
        vpc_range(cidr)
        return cidr

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        check_distinct("subnet", [subnet.id for subnet in (*self.private_subnets, *self.public_subnets)])
        zones = {subnet.zone for subnet in self.private_subnets}
        if len(zones) < 2:
            raise ValueError(
                f"privateSubnets: all are in {', '.join(zones)}, and EKS needs two zones; add one elsewhere"
            )
        return self


class Network(Model):
    """Where everything is: exactly one of `vpc` and `existing`."""

    region: Region
    """AWS Region."""
    vpc: Vpc | None = None
    """A VPC of the cluster's own."""
    existing: ExistingVpc | None = None
    """A VPC that is there already."""
    discovery: Literal["tags", "ids"] | None = None
    """How Karpenter finds subnets and security group: by the tag karpenter.sh/discovery, or by their ids. By tags if
    left out, and always by ids in a VPC that is there already."""

    @property
    def by_ids(self) -> bool:
        """Whether Karpenter finds subnets and security group by their ids."""
        return self.existing is not None or self.discovery == "ids"

    @property
    def cidr(self) -> str:
        """The VPC's IPv4 range."""
        vpc = self.vpc or self.existing
        assert vpc is not None  # noqa: S101 - the validator below sees to it
        return vpc.cidr

    @model_validator(mode="after")
    def _one_vpc(self) -> Self:
        if (self.vpc is None) == (self.existing is None):
            given = "neither is" if self.vpc is None else "both are"
            raise ValueError(f"exactly one of vpc and existing is needed, and {given} given; keep one of them")
        if self.existing and self.discovery == "tags":
            raise ValueError("discovery: subnets that are there already are not tagged; use ids, or leave it out")
        return self

    @model_validator(mode="after")
    def _zones_of_region(self) -> Self:
        if self.vpc:
            self._check_zones("vpc.availabilityZones", self.vpc.availability_zones)
        if self.existing:
            for key, subnets in (
                ("privateSubnets", self.existing.private_subnets),
                ("publicSubnets", self.existing.public_subnets),
            ):
                self._check_zones(f"existing.{key}", [subnet.zone for subnet in subnets])
        return self

    def _check_zones(self, key: str, zones: Iterable[str]) -> None:
        foreign = [zone for zone in zones if zone[:-1] != self.region or not zone[-1:].isalpha()]
        if foreign:
            raise ValueError(
                f"{key}: {', '.join(foreign)} is not in region {self.region}; zones there are {self.region}a, "
                f"{self.region}b and so on"
            )
