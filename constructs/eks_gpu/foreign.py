"""Clusters that somebody else made: what they must tell, and the words when they do not."""

from typing import Any

from aws_cdk import aws_eks_v2 as eks


def required(cluster: eks.ICluster, attribute: str, purpose: str) -> Any:
    """Read an attribute that an imported cluster may lack.

    Args:
        cluster: A cluster of this app, or one from `Cluster.from_cluster_attributes`.
        attribute: Name of the attribute, as that function takes it.
        purpose: What it is needed for, for the message.

    Returns:
        The attribute's value.

    Raises:
        ValueError: The cluster was imported without it.
    """
    try:
        value = getattr(cluster, attribute)
    except RuntimeError as error:  # what jsii raises where the CDK throws
        if "is not defined for this imported cluster" not in str(error):
            raise
        value = None
    if value is None:
        raise ValueError(
            f"the imported cluster at {cluster.node.path} has no {attribute}, which is needed for {purpose}; give "
            f"{attribute}=... to Cluster.from_cluster_attributes"
        )
    return value
