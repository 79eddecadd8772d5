"""The machine images that EC2 offers here: the EKS optimised AMIs of Amazon Linux 2023, and Bottlerocket's.

Names, variants and the paths of their SSM parameters are AWS's (EKS user guide, "Retrieve recommended Amazon Linux AMI
IDs"; Karpenter v1.14.1, ``pkg/providers/amifamily/al2023.go``):
``amazon-eks-node-al2023-<arch>-<variant>-<k8s>-vYYYYMMDD``
with the variants standard, nvidia and, for x86_64 alone, neuron. The ids are simulated: a hash of region and name. Of
the releases, v20260714 is one of AWS's (changelog of awslabs/amazon-eks-ami); the older two are made up so that a
pinned image and a drift can be rehearsed.

Of Bottlerocket there is one release, with the parameters' paths and the form of the names that Karpenter v1.14.1 reads
(``pkg/providers/amifamily/bottlerocket.go``); its date and the end of its names are made up. Instances of it can be
bought, and do not become nodes: what Bottlerocket makes of its user data is not simulated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
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

BOTTLEROCKET = ("v1.54.0", "v20260714")
"""Bottlerocket's release, and the date of its images."""

ROOT_DEVICE = "/dev/xvda"
ROOT_GIB = 20
"""Size of the root snapshot of Amazon Linux 2023's images, GiB."""

BOTTLEROCKET_ROOT_GIB = 2
"""Size of the root snapshot of Bottlerocket's images, GiB; what pods use is on another volume."""

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
    root_gib: int = ROOT_GIB
    description: str = "EKS-optimized Kubernetes node based on Amazon Linux 2023"
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    def describe(self) -> dict[str, object]:
        """The image as DescribeImages answers it."""
        return {
            "ImageId": self.id,
            "Name": self.name,
            "Description": f"{self.description}, (k8s: {self.kubernetes})",
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
                        "VolumeSize": self.root_gib,
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


def _bottlerocket(region: str, architecture: str, variant: str, kubernetes: str) -> Image:
    release, made = BOTTLEROCKET
    flavour = f"{kubernetes}-nvidia" if variant == "nvidia" else kubernetes
    image = _image(region, architecture, variant, kubernetes, made)
    name = f"bottlerocket-aws-k8s-{flavour}-{architecture}-{release}"
    digest = hashlib.sha256(f"{region}/{name}".encode()).hexdigest()
    return replace(
        image,
        id=f"ami-0{digest[:16]}",
        name=f"{name}-{digest[:8]}",
        release=release,
        snapshot_id=f"snap-0{digest[16:32]}",
        root_gib=BOTTLEROCKET_ROOT_GIB,
        description="Bottlerocket",
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
    bottlerocket = (
        _bottlerocket(region, architecture, variant, kubernetes)
        for kubernetes in KUBERNETES_VERSIONS
        for architecture in VARIANTS
        for variant in ("standard", "nvidia")
    )
    return {image.id: image for image in (*images, *bottlerocket)}


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
        if image.release == BOTTLEROCKET[0]:
            flavour = f"{image.kubernetes}-nvidia" if image.variant == "nvidia" else image.kubernetes
            for release in (image.release.removeprefix("v"), "latest"):
                parameters[f"/aws/service/bottlerocket/aws-k8s-{flavour}/{image.architecture}/{release}/image_id"] = (
                    image.id
                )
            continue
        folder = (
            f"/aws/service/eks/optimized-ami/{image.kubernetes}/amazon-linux-2023/{image.architecture}/{image.variant}"
        )
        parameters[f"{folder}/{image.name}/image_id"] = image.id
        if image.release == RELEASES[0]:
            parameters[f"{folder}/recommended/image_id"] = image.id
    return parameters
