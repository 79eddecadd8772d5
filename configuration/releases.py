"""The releases that this project pins, and which of them work together."""

from datetime import date, timedelta
from typing import Final

Version = tuple[int, ...]

KARPENTER_IMAGE_DIGESTS: Final = {
    "1.8.0": "sha256:f913075cdd31cfcdfaa9726ca7a0b264832fc42e8a48eb573a2a0f454b38b112",
    "1.8.1": "sha256:41c28a606cbad86869384ff8ae8345203b63f81612b6fcfd2e136197dccc03ef",
    "1.8.2": "sha256:ec27ec5b66f313d89174e3d59eee766caff99a746f36f74f156fd186b5baf407",
    "1.8.3": "sha256:2814fc3dfd440118fae8c75426d469f7015d77353c8b4b1c2fe6398838fd6627",
    "1.8.5": "sha256:4b8a5833ad91e67ec37aa3994d57bb4628117897fd90e67d50e18c01ecbc3ae5",
    "1.8.6": "sha256:dfbaa02d5fad0f7ec89ff2bd94083e244b79c3575da43fd0a377c2547dcf3567",
    "1.8.7": "sha256:19d40308439ce8683fd763d18af291a685f25e86b5142d2c62fa2a8d367548c3",
    "1.8.8": "sha256:36e1c50402eab7aafa7c3b8bba293e66b1f95ad5f211c67fd91c5169db66798c",
    "1.9.0": "sha256:30a506c64fbb1d8026cbfd9a1d662be3ab6e33a7999290a104085d78b49a69d7",
    "1.9.1": "sha256:a2c1d6e1dbc20a60bfc395d9773c65834960f15a9ab2f972ea12453a248368b0",
    "1.9.2": "sha256:daa1a6ab518560d48db0e3137111ca14ad97a92595548fbdd5e27e1f08c35a0d",
    "1.10.0": "sha256:0c215133a37e0d8bc2515b75120d2fefa14be3f939aebc14020813cdc3c001a3",
    "1.10.1": "sha256:02b8cbf49363b013a79acb742a8d2db4321d684d53c93fb4fca5a902808b0740",
    "1.10.2": "sha256:d4a0adabd5f2eb9a741115f402d307328bc6a0343d0dd6905eaf750068186203",
    "1.11.0": "sha256:f5691977d6f6ca3032fa61a3faefbfcfc838837d00586b40331d95bd84d55f74",
    "1.11.1": "sha256:001bce8d2de3e095b910df23859a02c6744358f13339076e9408bd912d078abb",
    "1.11.2": "sha256:86915f69822f8d4d91e7ea58d286c534c9a397b47bb71865491d05aed420226a",
    "1.11.3": "sha256:0e0bb948ea37087f2f26091b35960fb5db232c4f3e4cac7db582baf752eb154d",
    "1.12.0": "sha256:8128bc8cdd0cc8ca2d2cf68ec61033eceb8cfb24834a08ab278784924013cfd0",
    "1.12.1": "sha256:61c1872a00f6eb4ba89d830d359d4c61757d0239a89ecfb748d609a9a81ea1f2",
    "1.12.2": "sha256:faf1688f04ced8421f0c8ac4f67ee06aacc8851534972c294cda83a6513c358d",
    "1.13.0": "sha256:ea731b0cd813add8b2947a76bfe861c38069d85922b01d0c1647d1466279b7fe",
    "1.13.1": "sha256:4d5d576e8ba007948869b379740554a7cd8642ad2bbaa7ea9cf907c141a31f5d",
    "1.14.0": "sha256:723130949e4cab989461ff07d1be4cd781d63515432494641b33c235f300ae23",
    "1.14.1": "sha256:445baefaaa689029cc12ac1f659b916b0b82fb14308ce536f8521fcf079116fa",
}
"""Digest of `public.ecr.aws/karpenter/controller:<version>`, oldest first.

Source: karpenter-provider-aws, the published charts' values.yaml (branch release-v<version>, and where that is gone the
"Stable Release updates" commit of it). The chart inside the tag v<version> will not do: it names the controller of an
older release, since the release job patches the image only when it publishes.
"""

WITHDRAWN_KARPENTER: Final = {
    "1.8.4": "it has a regression with topology spread constraints (kubernetes-sigs/karpenter#2785); use 1.8.8",
}
"""Published releases that must not be run, and why. Source: that issue, where upstream says not to upgrade."""

ZONAL_SHIFT_SINCE: Final = (1, 12)
REFRESH_INTERVALS_SINCE: Final = (1, 13)
CAPACITY_BUFFER_SINCE: Final = (1, 14)
"""Releases of Karpenter whose chart first has settings.enableZonalShift, settings.amiRefreshInterval and
subnetRefreshInterval, and the feature gate CapacityBuffer with what the controller may do for it.

Source: karpenter-provider-aws, charts/karpenter/templates of the tags v1.8.0 to v1.14.1: they are the same within a
minor version, and between minors nothing else differs in what they render (1.9 adds a field to the ServiceMonitor).
"""

DEVICE_PLUGIN_VERSIONS: Final = ("0.18.2",)
"""Releases of the NVIDIA device plugin whose objects `charts` writes."""

NFD_VERSIONS: Final = {"0.18.2": "0.17.3"}
"""Release of node feature discovery that each release of the device plugin's chart brings.

Source: NVIDIA/k8s-device-plugin v0.18.2, deployments/helm/nvidia-device-plugin/Chart.yaml.
"""

DCGM_EXPORTER_IMAGE_TAGS: Final = {"4.8.2": "4.5.3-4.8.2-distroless"}
"""Tag of `nvcr.io/nvidia/k8s/dcgm-exporter` for each release of its chart.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2, deployment/Chart.yaml and values.yaml.
"""

KUBECTL_LAYERS: Final = ("1.33", "1.34", "1.35", "1.36")
"""Kubernetes versions for which a kubectl layer (aws-cdk-lambda-layer-kubectl-vXX) is installed."""

OLDEST_KARPENTER: Final[dict[str, Version]] = {
    "1.29": (0, 34),
    "1.30": (0, 37),
    "1.31": (1, 0, 5),
    "1.32": (1, 2),
    "1.33": (1, 5),
    "1.34": (1, 6),
    "1.35": (1, 9),
    "1.36": (1, 13),
}
"""Oldest release of Karpenter for each Kubernetes version. What is newer supports it too.

Source: karpenter-provider-aws, website/content/en/docs/upgrading/compatibility.md, of 2026-08-20.
"""

STANDARD_SUPPORT_ENDS: Final = {
    "1.33": date(2026, 7, 29),
    "1.34": date(2026, 12, 2),
    "1.35": date(2027, 3, 27),
    "1.36": date(2027, 8, 2),
}
"""Last days of a Kubernetes version's standard support on EKS.

Source: Amazon EKS user guide, kubernetes-versions (the release calendar), as of 2026-11-20.
"""

CALENDAR_READ: Final = date(2026, 11, 20)
"""When the calendar was read. Synth has no clock, so a warning goes by this day and names the date."""

NOTICE: Final = timedelta(days=60)
"""How long before its end a version's support is worth a warning: an upgrade takes weeks."""

STANDARD_PRICE: Final = 0.10
EXTENDED_PRICE: Final = 0.60
"""USD per cluster and hour, in standard and in extended support. Source: aws.amazon.com/eks/pricing, 2026-11-20."""


def incompatibility(*, karpenter: str, kubernetes: str) -> str | None:
    """Say why a Karpenter release cannot run on a Kubernetes version.

    Args:
        karpenter: A release, such as `1.14.1`.
        kubernetes: A minor version, such as `1.33`.

    Returns:
        The reason and the newest pairs that work, or None where the pair does.
    """
    newest = max(KARPENTER_IMAGE_DIGESTS, key=numbers)
    oldest = OLDEST_KARPENTER.get(kubernetes)
    if oldest is None:
        known = ", ".join(OLDEST_KARPENTER)
        return f"no Karpenter release is known to support Kubernetes {kubernetes}; use one of {known}"
    if numbers(karpenter) >= oldest:
        return None
    needed = ".".join(str(part) for part in oldest)
    supported = [version for version, least in OLDEST_KARPENTER.items() if numbers(karpenter) >= least]
    or_lower = f", or Kubernetes {supported[-1]}, the newest that Karpenter {karpenter} supports" if supported else ""
    return (
        f"Karpenter {karpenter} does not support Kubernetes {kubernetes}, which needs Karpenter >= {needed}; "
        f"use Karpenter {newest}{or_lower}"
    )


def support_warning(kubernetes: str) -> str | None:
    """Say what a Kubernetes version costs once EKS no longer supports it in the standard way.

    Args:
        kubernetes: A minor version, such as `1.33`.

    Returns:
        A warning, or None for a version with standard support for a good while.
    """
    ends = STANDARD_SUPPORT_ENDS[kubernetes]
    if ends > CALENDAR_READ + NOTICE:
        return None
    month = (EXTENDED_PRICE - STANDARD_PRICE) * 730
    newest = max(STANDARD_SUPPORT_ENDS, key=numbers)
    when = "has been in extended support since" if ends <= CALENDAR_READ else "goes into extended support on"
    return (
        f"Kubernetes {kubernetes} {when} {ends.isoformat()}: EKS asks {EXTENDED_PRICE:.2f} USD an hour for the control "
        f"plane instead of {STANDARD_PRICE:.2f}, {month:.0f} USD a month more; Kubernetes {newest} is supported until "
        f"{STANDARD_SUPPORT_ENDS[newest].isoformat()}"
    )


def numbers(version: str) -> Version:
    """Return a version's parts, to compare by."""
    return tuple(int(part) for part in version.split("."))
