"""The releases that this project pins, and which of them work together."""

from typing import Final

Version = tuple[int, ...]

KARPENTER_IMAGE_DIGESTS: Final = {
    "1.14.1": "sha256:445baefaaa689029cc12ac1f659b916b0b82fb14308ce536f8521fcf079116fa",
}
"""Digest of `public.ecr.aws/karpenter/controller:<version>`.

Source: karpenter-provider-aws, branch release-v1.14.1, charts/karpenter/values.yaml. (The chart inside the tag v1.14.1
still names the controller of the release before it: the release job patches the image only when it publishes.)
"""

DEVICE_PLUGIN_VERSIONS: Final = ("0.18.2",)
"""Releases of the NVIDIA device plugin whose DaemonSet `charts` writes."""

KUBECTL_LAYERS: Final = ("1.33",)
"""Kubernetes versions for which a kubectl layer (aws-cdk-lambda-layer-kubectl-vXX) is installed."""

_OLDEST_KARPENTER: Final[dict[str, Version]] = {
    "1.30": (0, 37),
    "1.31": (1, 0, 5),
    "1.32": (1, 2),
    "1.33": (1, 5),
    "1.34": (1, 6),
    "1.35": (1, 9),
    "1.36": (1, 13),
}
"""Oldest release of Karpenter for each Kubernetes version.

Source: karpenter-provider-aws, website/content/en/docs/upgrading/compatibility.md, of 2026-08-20.
"""


def incompatibility(*, karpenter: str, kubernetes: str) -> str | None:
    """Say why a Karpenter release cannot run on a Kubernetes version.

    Args:
        karpenter: A release, such as `1.14.1`.
        kubernetes: A minor version, such as `1.33`.

    Returns:
        The reason and the way out, or None where the pair works.
    """
    oldest = _OLDEST_KARPENTER.get(kubernetes)
    if oldest is None:
        known = ", ".join(_OLDEST_KARPENTER)
        return f"no Karpenter release is known to support Kubernetes {kubernetes}; use one of {known}"
    if _numbers(karpenter) < oldest:
        needed = ".".join(str(part) for part in oldest)
        return (
            f"Karpenter {karpenter} does not support Kubernetes {kubernetes}: it needs Karpenter >= {needed}; "
            f"raise karpenter.version or lower the Kubernetes version"
        )
    return None


def _numbers(version: str) -> Version:
    return tuple(int(part) for part in version.split("."))
