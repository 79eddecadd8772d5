"""What EC2 sells in one region: instance types, where they are offered, and for how much.

Types and offerings are what AWS's own DescribeInstanceTypes and DescribeInstanceTypeOfferings answered when moto's
maintainers recorded them; they are read from moto's package data (``moto/ec2/resources``). On-demand prices are given
by the caller. Spot prices are **simulated**, see :meth:`Catalogue.spot_price`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast

CapacityType = Literal["on-demand", "spot"]
LocationType = Literal["region", "availability-zone", "availability-zone-id"]


def _recorded(path: str) -> Any:
    resource = files("moto").joinpath("ec2", "resources", *path.split("/"))
    return json.loads(gzip.decompress(resource.read_bytes()))


@cache
def _types() -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", _recorded("instance_types.json.gz"))


@cache
def _offerings(location_type: LocationType, region: str) -> list[dict[str, str]]:
    try:
        rows = cast("list[dict[str, str]]", _recorded(f"instance_type_offerings/{location_type}/{region}.json.gz"))
    except FileNotFoundError as error:
        raise ValueError(f"no offerings of EC2 are recorded for the region {region!r}") from error
    return sorted(rows, key=lambda row: (row["InstanceType"], row["Location"]))


class Catalogue:
    """The types, offerings and prices of one region.

    Args:
        region: for example ``us-west-2``.
        prices: instance type to on-demand price, USD an hour, for Linux on shared tenancy. A type without a price is
            listed, and cannot be bought.

    Raises:
        ValueError: no offerings are recorded for the region.
    """

    def __init__(self, region: str, prices: Mapping[str, float]) -> None:
        self.region = region
        self.prices = dict(prices)
        self._sold_out: set[tuple[str, str, CapacityType]] = set()
        offered = {row["InstanceType"] for row in _offerings("region", region)}
        self.types: dict[str, dict[str, Any]] = {name: _types()[name] for name in sorted(offered) if name in _types()}
        """The answer of DescribeInstanceTypes for each type that the region offers."""
        self._zones: dict[str, list[str]] = {}
        for row in _offerings("availability-zone", region):
            self._zones.setdefault(row["InstanceType"], []).append(row["Location"])

    def offerings(self, location_type: LocationType) -> Sequence[Mapping[str, str]]:
        """Rows of DescribeInstanceTypeOfferings: ``InstanceType`` and ``Location``."""
        return _offerings(location_type, self.region)

    def zones(self, instance_type: str) -> Sequence[str]:
        """Names of the zones that offer a type; empty for an unknown one."""
        return self._zones.get(instance_type, [])

    def architectures(self, instance_type: str) -> Sequence[str]:
        """Architectures that the type runs, as EC2 names them: ``x86_64``, ``arm64``, ``i386``."""
        return self.types[instance_type]["ProcessorInfo"]["SupportedArchitectures"]

    def sells(self, instance_type: str, capacity: CapacityType) -> bool:
        """Whether the type is sold that way at all (``SupportedUsageClasses``)."""
        return capacity in self.types[instance_type]["SupportedUsageClasses"]

    def spot_price(self, instance_type: str, zone: str) -> float | None:
        """Current spot price in USD an hour, or ``None`` where the type is not sold as spot there.

        Simulated, for AWS's current prices cannot be had without AWS: a share of the on-demand price between 30 % and
        45 %, fixed for each pair of type and zone (from a hash of both), and never changing.
        """
        price = self.prices.get(instance_type)
        if price is None or zone not in self.zones(instance_type) or not self.sells(instance_type, "spot"):
            return None
        digest = hashlib.sha256(f"{instance_type}/{zone}".encode()).digest()
        return round(price * (0.30 + 0.15 * int.from_bytes(digest[:4], "big") / 2**32), 6)

    def price(self, instance_type: str, zone: str, capacity: CapacityType) -> float | None:
        """Price in USD an hour, or ``None`` where it cannot be bought for want of one."""
        return self.spot_price(instance_type, zone) if capacity == "spot" else self.prices.get(instance_type)

    def has_capacity(self, instance_type: str, zone: str, capacity: CapacityType) -> bool:
        """Whether the pool has capacity left; every pool has, without end, unless :meth:`set_capacity` took it."""
        return (instance_type, zone, capacity) not in self._sold_out

    def set_capacity(self, instance_type: str, zone: str, capacity: CapacityType, *, available: bool) -> None:
        """Take a pool's capacity away, or give it back."""
        pool = (instance_type, zone, capacity)
        if available:
            self._sold_out.discard(pool)
        else:
            self._sold_out.add(pool)
