"""The machine images that EC2 offers here: the EKS optimised AMIs of Amazon Linux 2023.

Names, variants and the paths of their SSM parameters are AWS's (EKS user guide, "Retrieve recommended Amazon Linux AMI
IDs"; Karpenter v1.14.1, ``pkg/providers/amifamily/al2023.go``):
``amazon-eks-node-al2023-<arch>-<variant>-<k8s>-vYYYYMMDD``
with the variants standard, nvidia and, for x86_64 alone, neuron. The ids are simulated: a hash of region and name. Of
the releases, v20260714 is one of AWS's (changelog of awslabs/amazon-eks-ami); the older two are made up so that a
pinned image and a drift can be rehearsed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

KUBERNETES_VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
RELEASES = ("v20260714", "v20260616", "v20260512")
"""Releases of the images, newest first."""

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "x86_64": ("standard", "nvidia", "neuron"),
    "arm64": ("standard", "nvidia"),
}
"""Architecture to the variants that AWS builds for it."""

OWNER_ID = "602401143452"
"""The account that owns the EKS AMIs in most commercial regions; its alias is ``amazon``."""

ROOT_DEVICE = "/dev/xvda"
ROOT_GIB = 20
"""Size of the root snapshot, GiB."""

# AWS deprecates public images two years after their creation ("Deprecate an Amazon EC2 AMI", EC2 user guide).
_LIFETIME = timedelta(days=730)


@dataclass(frozen=True)
class Image:
    """One AMI."""

    id: str
    name: str
    architecture: str
    variant: str
    kubernetes: str
    release: str
    created: str
    deprecated: str
    snapshot_id: str
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    def describe(self) -> dict[str, object]:
        """The image as DescribeImages answers it."""
        return {
            "ImageId": self.id,
            "Name": self.name,
            "Description": f"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {self.kubernetes})",
            "ImageLocation": f"amazon/{self.name}",
            "OwnerId": OWNER_ID,
            "ImageOwnerAlias": "amazon",
            "State": "available",
            "Public": True,
            "Architecture": self.architecture,
            "ImageType": "machine",
            "CreationDate": self.created,
            "DeprecationTime": self.deprecated,
            "Hypervisor": "xen",
            "VirtualizationType": "hvm",
            "EnaSupport": True,
            "SriovNetSupport": "simple",
            "BootMode": "uefi-preferred" if self.architecture == "x86_64" else "uefi",
            "PlatformDetails": "Linux/UNIX",
            "UsageOperation": "RunInstances",
            "ImdsSupport": "v2.0",
            "RootDeviceType": "ebs",
            "RootDeviceName": ROOT_DEVICE,
            "BlockDeviceMappings": [
                {
                    "DeviceName": ROOT_DEVICE,
                    "Ebs": {
                        "DeleteOnTermination": True,
                        "Encrypted": False,
                        "SnapshotId": self.snapshot_id,
                        "VolumeSize": ROOT_GIB,
                        "VolumeType": "gp3",
                    },
                }
            ],
        }


def _image(region: str, architecture: str, variant: str, kubernetes: str, release: str) -> Image:
    name = f"amazon-eks-node-al2023-{architecture}-{variant}-{kubernetes}-{release}"
    digest = hashlib.sha256(f"{region}/{name}".encode()).hexdigest()
    created = datetime.strptime(release, "v%Y%m%d")
    return Image(
        id=f"ami-0{digest[:16]}",
        name=name,
        architecture=architecture,
        variant=variant,
        kubernetes=kubernetes,
        release=release,
        created=created.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        deprecated=(created + _LIFETIME).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        snapshot_id=f"snap-0{digest[16:32]}",
    )


def eks_images(region: str) -> dict[str, Image]:
    """Every image of a region, by id; newest releases first."""
    images = (
        _image(region, architecture, variant, kubernetes, release)
        for release in RELEASES
        for kubernetes in KUBERNETES_VERSIONS
        for architecture, variants in VARIANTS.items()
        for variant in variants
    )
    return {image.id: image for image in images}


def ssm_parameters(images: Iterable[Image], kubernetes_versions: Iterable[str] | None = None) -> dict[str, str]:
    """The public SSM parameters that lead to the images.

    Args:
        images: the images of one region.
        kubernetes_versions: for example ``["1.36"]``; all of :data:`KUBERNETES_VERSIONS` when left out.

    Returns:
        Parameter name to image id: one for each image under its own name, and ``recommended`` for the newest release.
    """
    wanted = set(KUBERNETES_VERSIONS if kubernetes_versions is None else kubernetes_versions)
    parameters: dict[str, str] = {}
    for image in images:
        if image.kubernetes not in wanted:
            continue
        folder = (
            f"/aws/service/eks/optimized-ami/{image.kubernetes}/amazon-linux-2023/{image.architecture}/{image.variant}"
        )
        parameters[f"{folder}/{image.name}/image_id"] = image.id
        if image.release == RELEASES[0]:
            parameters[f"{folder}/recommended/image_id"] = image.id
    return parameters
