"""Container images: where they come from, and which processors they run on."""

from collections.abc import Iterable
from typing import Final, Literal

from configuration.device_plugin import DcgmExporter, DevicePlugin
from configuration.releases import DCGM_EXPORTER_IMAGE_TAGS, NFD_VERSIONS
from configuration.scheduling import Requirement

Architecture = Literal["amd64", "arm64"]

ARCHITECTURE_LABEL: Final = "kubernetes.io/arch"

DEVICE_PLUGIN_REPOSITORY: Final = "nvcr.io/nvidia/k8s-device-plugin"
NFD_REPOSITORY: Final = "registry.k8s.io/nfd/node-feature-discovery"
DCGM_EXPORTER_REPOSITORY: Final = "nvcr.io/nvidia/k8s/dcgm-exporter"
CUDA_REPOSITORY: Final = "nvidia/cuda"
PAUSE_REPOSITORY: Final = "public.ecr.aws/eks-distro/kubernetes/pause"

_BOTH: Final[frozenset[Architecture]] = frozenset({"amd64", "arm64"})

IMAGE_ARCHITECTURES: Final[dict[str, frozenset[Architecture]]] = {
    "public.ecr.aws/karpenter/controller": _BOTH,
    DEVICE_PLUGIN_REPOSITORY: _BOTH,
    NFD_REPOSITORY: _BOTH,
    DCGM_EXPORTER_REPOSITORY: _BOTH,
    CUDA_REPOSITORY: _BOTH,
    PAUSE_REPOSITORY: _BOTH,
}
"""Which processors an image has a variant for, by repository, for the releases that this project carries.

Source: karpenter-provider-aws v1.8.8 and v1.14.1, .ko.yaml; k8s-device-plugin v0.18.2, deployments/container/
multi-arch.mk; node-feature-discovery v0.17.3, Makefile; dcgm-exporter 4.5.3-4.8.2, Makefile; NVIDIA's container-images
/cuda and AWS's eks-distro, whose images are multi-architecture manifests.
"""


def device_plugin_image(version: str) -> str:
    """Return the image of the device plugin, GPU feature discovery and the MPS control daemon."""
    return f"{DEVICE_PLUGIN_REPOSITORY}:v{version}"


def nfd_image(version: str) -> str:
    """Return the image of node feature discovery."""
    return f"{NFD_REPOSITORY}:v{version}"


def dcgm_exporter_image(version: str) -> str:
    """Return the image of DCGM exporter, by the release of its chart."""
    return f"{DCGM_EXPORTER_REPOSITORY}:{DCGM_EXPORTER_IMAGE_TAGS[version]}"


def images_on_gpu_nodes(plugin: DevicePlugin | None, exporter: DcgmExporter | None) -> list[str]:
    """Return the images that every GPU node must run."""
    images = list[str]()
    if plugin:
        images.append(device_plugin_image(plugin.version))
        if plugin.gpu_feature_discovery:
            images.append(nfd_image(NFD_VERSIONS[plugin.version]))
    if exporter:
        images.append(dcgm_exporter_image(exporter.version))
    return images


def architectures(requirements: Iterable[Requirement]) -> frozenset[Architecture]:
    """Return the processors that a pool's nodes may have.

    Args:
        requirements: The pool's. One that does not speak of the architecture leaves both.
    """
    left: frozenset[Architecture] = _BOTH
    for requirement in requirements:
        if requirement.key == ARCHITECTURE_LABEL:
            named = set(requirement.values or ())
            if requirement.operator == "In":
                left = frozenset(found for found in left if found in named)
            elif requirement.operator == "NotIn":
                left = frozenset(found for found in left if found not in named)
    return left


def check_architectures(requirements: Iterable[Requirement], images: Iterable[str]) -> None:
    """Refuse a pool some of whose nodes could not run an image that all of them need.

    Args:
        requirements: The pool's.
        images: Images that run on its nodes, with or without a tag and a digest. One of a repository that is not in
            `IMAGE_ARCHITECTURES` is taken to run anywhere.

    Raises:
        ValueError: An image has no variant for a processor that the pool may buy.
    """
    wanted = architectures(requirements)
    for image in images:
        there = IMAGE_ARCHITECTURES.get(repository(image), _BOTH)
        lacking = sorted(wanted - there)
        if lacking:
            offered = ", ".join(sorted(there))
            raise ValueError(
                f"requirements: the pool may buy {' and '.join(lacking)} nodes, and {image}, which every one of them "
                f"must run, is there for {offered} alone; require {ARCHITECTURE_LABEL} In [{offered}]"
            )


def repository(image: str) -> str:
    """Return an image's name without its tag and its digest."""
    name = image.partition("@")[0]
    head, colon, tag = name.rpartition(":")
    # A colon before the last slash is a registry's port.
    return head if colon and "/" not in tag else name
