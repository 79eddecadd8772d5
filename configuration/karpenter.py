"""Karpenter's controller: its release, where it runs, as whom, and its settings."""

from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from configuration.model import Model
from configuration.releases import CAPACITY_BUFFER_SINCE, WITHDRAWN_KARPENTER, ZONAL_SHIFT_SINCE, numbers
from configuration.text import DnsName, Duration, ImageRepository, Quantity, Release, RoleName

UPSTREAM_REPOSITORY: Final = "public.ecr.aws/karpenter/controller"


class FeatureGates(Model):
    """Features that a release has but may not have switched on.

    Source of names and defaults: karpenter-provider-aws v1.14.1, charts/karpenter/values.yaml, settings.featureGates.
    """

    spot_to_spot_consolidation: bool = False
    """Replace a spot node by a cheaper spot node."""
    node_repair: bool = False
    """Replace nodes that report a broken GPU, network or kubelet; needs the node monitoring agent."""
    reserved_capacity: bool = True
    """Use On-Demand Capacity Reservations and Capacity Blocks."""
    node_overlay: bool = False
    """Correct what Karpenter thinks of an instance type's price and capacity."""
    static_capacity: bool = False
    """Keep a fixed number of nodes in a pool (`replicas`)."""
    capacity_buffer: bool = False
    """Keep spare capacity ready (from 1.14)."""


class Settings(Model):
    """What the controller is told, beside what follows from the cluster.

    Source of names and defaults: karpenter-provider-aws v1.14.1, charts/karpenter/values.yaml, settings.
    """

    batch_max_duration: Duration = "10s"
    """The longest it waits for more pending pods before it buys."""
    batch_idle_duration: Duration = "1s"
    """It buys when no further pod has come for this long."""
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    """Whether a pod's preferences are tried before they are dropped."""
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    """Whether a requirement's minValues may be missed."""
    isolated_vpc: bool = Field(default=False, alias="isolatedVPC")
    """Whether the VPC has no way to the Pricing API: prices are then those the release ships."""
    vm_memory_overhead_percent: float = Field(default=0.075, ge=0, lt=1)
    """Part of a machine's memory that the hypervisor keeps, where it is not known yet."""
    reserved_enis: int = Field(default=0, ge=0, alias="reservedENIs")
    """Network interfaces of a node that pods do not get (VPC CNI custom networking)."""
    enable_zonal_shift: bool = False
    """Buy nothing in a zone that is shifted away (from 1.12); the cluster must have zonal shift on."""
    log_level: Literal["debug", "info", "error"] = "info"
    """What it writes."""


class Karpenter(Model):
    """The Karpenter controller."""

    version: Release
    """Release, without a v."""
    namespace: DnsName
    """Namespace it runs in; created, unless it is kube-system."""
    service_account: DnsName
    """Service account it runs as; the controller role trusts this one alone."""
    credentials: Literal["irsa", "pod-identity"] = "irsa"
    """How its pods get the controller role: IAM roles for service accounts, or EKS Pod Identity."""
    controller_role: RoleName | None = None
    """Name of the controller role; KarpenterControllerRole-<cluster> if left out."""
    replicas: int = Field(ge=1)
    """Pods, each on a node of its own; one leads."""
    cpu: Quantity
    """CPU of one pod, requested and limited, such as "1" (a core)."""
    memory: Quantity
    """Memory of one pod, requested and limited, such as 1Gi."""
    image_repository: ImageRepository = UPSTREAM_REPOSITORY
    """Where the image is pulled from, without a tag: upstream's, or a mirror of it."""
    feature_gates: FeatureGates = FeatureGates()
    """What is switched on."""
    settings: Settings = Settings()
    """How it works."""

    @field_validator("version")
    @classmethod
    def _not_withdrawn(cls, version: str) -> str:
        reason = WITHDRAWN_KARPENTER.get(version)
        if reason:
            raise ValueError(f"{version} must not be run: {reason}")
        return version

    @model_validator(mode="after")
    def _known_to_the_release(self) -> Self:
        """A release passes over what it does not know without a word: the switch would be on, and nothing happen."""
        for key, asked, since in (
            ("featureGates.capacityBuffer", self.feature_gates.capacity_buffer, CAPACITY_BUFFER_SINCE),
            ("settings.enableZonalShift", self.settings.enable_zonal_shift, ZONAL_SHIFT_SINCE),
        ):
            if asked and numbers(self.version) < since:
                needed = ".".join(str(part) for part in since)
                raise ValueError(
                    f"{key}: Karpenter {self.version} does not know it: it needs Karpenter >= {needed}; raise "
                    f"karpenter.version or remove it"
                )
        return self
