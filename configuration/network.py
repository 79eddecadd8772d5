"""The network: a VPC of the cluster's own."""

import ipaddress
from typing import Final, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model
from configuration.text import Region

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
