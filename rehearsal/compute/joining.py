"""Whether a running instance becomes a node of a cluster, and if not, why: what AWS and nodeadm would let happen."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import Answer, AwsView, tags
from rehearsal.compute.node import Machine
from rehearsal.compute.nodeadm import EksImage, NodeConfig, NodeConfigError, parse

_NODE_ENTRY_TYPES = ("EC2_LINUX", "EC2")


@dataclass(frozen=True)
class Refusal:
    """Why an instance does not become a node."""

    reason: str


def concerns(cluster: str, instance: Answer, config: NodeConfig | None) -> bool:
    """True where an instance means to be a node of this cluster, by its user data or by its tags."""
    if config is not None:
        return config.cluster_name == cluster
    found = tags(instance)
    return (
        found.get(f"kubernetes.io/cluster/{cluster}") == "owned"
        or found.get("eks:cluster-name") == cluster
        or found.get("eks:eks-cluster-name") == cluster
    )


def mismatch(cluster: ClusterAccess, config: NodeConfig) -> str | None:
    """What in a NodeConfig keeps a kubelet from this cluster's API server, or None."""
    if config.endpoint.rstrip("/") != cluster.endpoint.rstrip("/"):
        return f"its user data names the API server {config.endpoint}, the cluster's is {cluster.endpoint}"
    if config.certificate_authority != base64.b64encode(cluster.ca_pem).decode():
        return "its user data has another certificate authority than the cluster"
    return None


def wrong_image(name: str, image_id: str, architectures: list[str]) -> str | None:
    """What in an image keeps an instance from becoming a node, or None.

    Args:
        name: the image's name, empty where it is unknown.
        image_id: its id.
        architectures: those that the instance's type supports.
    """
    image = EksImage.of(name)
    if image is None:
        shown = name or image_id
        return f"its image {shown} is no EKS optimised AMI of Amazon Linux 2023, so that nodeadm is not there"
    if image.architecture not in architectures:
        return f"its image {name} is for {image.architecture}, its type runs {', '.join(architectures)}"
    return None


def wrong_identity(cluster: str, role_arn: str | None, entry_type: str | None) -> str | None:
    """Why the API server knows an instance's IAM role for no node, or None.

    Args:
        cluster: the cluster's name.
        role_arn: the role of the instance profile.
        entry_type: type of the role's access entry.
    """
    if role_arn is None:
        return "it has no instance profile with a role, so that its kubelet has no identity"
    if entry_type is None:
        return f"its role {role_arn} has no access entry in cluster {cluster} (Unauthorized)"
    if entry_type not in _NODE_ENTRY_TYPES:
        return f"the access entry of its role {role_arn} has the type {entry_type}, a node needs EC2_LINUX"
    return None


def examine(
    cluster: ClusterAccess, aws: AwsView, instance: Answer, kubernetes_version: str
) -> Machine | Refusal | None:
    """Decide about one running instance.

    Returns:
        The machine, ready to become a node; why it does not; or None where it is none of this cluster's business.
    """
    config: NodeConfig | None = None
    problem: str | None = None
    try:
        config = parse(aws.user_data(instance["InstanceId"]))
        labels_error = _labels_error(config)
        problem = labels_error or mismatch(cluster, config)
    except NodeConfigError as error:
        problem = str(error)
    if not concerns(cluster.name, instance, config):
        return None
    name = aws.image_name(instance["ImageId"])
    kind = aws.instance_type(instance["InstanceType"])
    architectures = [str(item) for item in kind["ProcessorInfo"]["SupportedArchitectures"]]
    problem = wrong_image(name, instance["ImageId"], architectures) or problem
    if problem is None:
        role = aws.instance_role(instance)
        entry = None if role is None else aws.access_entry_type(cluster.name, role)
        problem = wrong_identity(cluster.name, role, entry)
    image = EksImage.of(name)
    if problem is not None or config is None or image is None:
        return Refusal(problem or "unknown")
    return Machine(
        instance=instance,
        type=kind,
        image=image,
        config=config,
        zone_id=aws.zone_id(instance["Placement"]["AvailabilityZone"]),
        root_gib=aws.root_volume_gib(instance),
        region=aws.access.region,
        kubernetes_version=kubernetes_version,
    )


def _labels_error(config: NodeConfig) -> str | None:
    try:
        _ = config.labels
    except NodeConfigError as error:
        return str(error)
    return None
