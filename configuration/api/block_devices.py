"""Disks of the nodes of a class."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from configuration.api.values import VOLUME_SIZE, Int64, Items
from configuration.model import Model


class Ebs(Model):
    """An EBS volume."""

    volume_size: Annotated[str, Field(pattern=VOLUME_SIZE)] | None = None
    """Size with its unit, such as 100Gi. Karpenter's own default of 20Gi holds no CUDA image."""
    volume_type: Literal["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"] | None = None
    """EBS volume type."""
    iops: Int64 | None = None
    """I/O operations a second, for gp3, io1 and io2."""
    throughput: Int64 | None = None
    """MiB a second, for gp3."""
    encrypted: bool | None = None
    """Whether EBS encrypts it."""
    kms_key_id: str | None = Field(default=None, alias="kmsKeyID")
    """Key that it is encrypted with: id, alias or ARN."""
    delete_on_termination: bool | None = None
    """Whether it goes with its instance; a volume that stays is paid for until somebody finds it."""
    snapshot_id: str | None = Field(default=None, alias="snapshotID")
    """Snapshot that it begins as."""
    volume_initialization_rate: int | None = Field(default=None, ge=100, le=300)
    """MiB a second at which the snapshot is read."""

    @model_validator(mode="after")
    def _has_size_or_snapshot(self) -> Self:
        if self.volume_size is None and self.snapshot_id is None:
            raise ValueError("a volume needs volumeSize or snapshotID; add for example volumeSize: 100Gi")
        if self.volume_initialization_rate is not None and not self.snapshot_id:
            raise ValueError("volumeInitializationRate: is the rate at which a snapshot is read; add snapshotID")
        return self


class BlockDeviceMapping(Model):
    """A disk at a device."""

    device_name: str | None = None
    """Such as /dev/xvda, the root device of Amazon Linux 2023."""
    root_volume: bool | None = None
    """Whether kubelet's folder, and with it images and logs, is there."""
    ebs: Ebs | None = None
    """The volume."""


def _one_root(mappings: tuple[BlockDeviceMapping, ...]) -> tuple[BlockDeviceMapping, ...]:
    if sum(bool(mapping.root_volume) for mapping in mappings) > 1:
        raise ValueError("two say rootVolume: true; keep it on one")
    return mappings


BlockDeviceMappings = Annotated[Items[BlockDeviceMapping], Field(max_length=50), AfterValidator(_one_root)]
