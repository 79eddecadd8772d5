"""What kubelet is told on the nodes of a class."""

from collections.abc import Iterable
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from configuration.api.values import EvictionThreshold, Int64, Items, Natural, Percent, Quantity
from configuration.model import Model

_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
_RESERVED: Final = ("cpu", "memory", "ephemeral-storage", "pid")


def _only(keys: Iterable[str], allowed: tuple[str, ...]) -> None:
    for key in keys:
        if key not in allowed:
            raise ValueError(f"{key!r} is not known to kubelet here; use {', '.join(allowed)}")


def _signals(thresholds: dict[str, str]) -> dict[str, str]:
    _only(thresholds, _SIGNALS)
    return thresholds


def _reservations(reserved: dict[str, str]) -> dict[str, str]:
    _only(reserved, _RESERVED)
    for resource, quantity in reserved.items():
        if quantity.startswith("-"):
            raise ValueError(f"{resource} {quantity} is negative; nothing less than 0 can be kept back")
    return reserved


Thresholds = Annotated[dict[str, EvictionThreshold], AfterValidator(_signals)]
GracePeriods = Annotated[dict[str, str], AfterValidator(_signals)]
Reserved = Annotated[dict[str, Quantity], AfterValidator(_reservations)]


class Kubelet(Model):
    """The part of kubelet's configuration that Karpenter passes on, and reckons with."""

    cluster_dns: Items[str] | None = Field(default=None, alias="clusterDNS")
    """Addresses of the cluster's DNS servers."""
    max_pods: Natural | None = None
    """Most pods on a node."""
    pods_per_core: Natural | None = None
    """Most pods for each vCPU; `maxPods` bounds it."""
    system_reserved: Reserved | None = None
    """Kept back for the operating system."""
    kube_reserved: Reserved | None = None
    """Kept back for kubelet and the container runtime."""
    eviction_hard: Thresholds | None = None
    """Below what is left, pods are evicted at once."""
    eviction_soft: Thresholds | None = None
    """Below what is left for `evictionSoftGracePeriod`, pods are evicted."""
    eviction_soft_grace_period: GracePeriods | None = None
    """How long each of `evictionSoft` waits, such as 1m30s."""
    eviction_max_pod_grace_period: Int64 | None = None
    """Seconds that an evicted pod gets at most."""
    image_gc_high_threshold_percent: Percent | None = Field(default=None, alias="imageGCHighThresholdPercent")
    """Part of the disk in use above which images are collected, in percent."""
    image_gc_low_threshold_percent: Percent | None = Field(default=None, alias="imageGCLowThresholdPercent")
    """Part of the disk in use down to which images are collected, in percent."""
    cpu_cfs_quota: bool | None = Field(default=None, alias="cpuCFSQuota")
    """Whether CPU limits of containers are enforced."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        high, low = self.image_gc_high_threshold_percent, self.image_gc_low_threshold_percent
        if high is not None and low is not None and high <= low:
            raise ValueError(
                f"imageGCHighThresholdPercent: {high} is not above imageGCLowThresholdPercent, {low}; raise it"
            )
        soft, grace = set(self.eviction_soft or ()), set(self.eviction_soft_grace_period or ())
        if soft - grace:
            raise ValueError(
                f"evictionSoft: {', '.join(sorted(soft - grace))} needs a time in evictionSoftGracePeriod; add it there"
            )
        if grace - soft:
            raise ValueError(
                f"evictionSoftGracePeriod: {', '.join(sorted(grace - soft))} has no threshold in evictionSoft; "
                f"add it there or remove it here"
            )
        return self
