"""Who the nodes are that Karpenter buys, and that they may join."""

from typing import Final, cast

from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from eks_gpu import naming
from eks_gpu.reasons import managed_policies_of_aws

NODE_POLICIES: Final = (
    "AmazonEKS_CNI_Policy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""Source: karpenter-provider-aws v1.14.1, getting-started cloudformation.yaml, KarpenterNodeRole."""


class NodeAccess(Construct):
    """The role of Karpenter's nodes and its entry in the cluster.

    There is no instance profile: Karpenter makes one for each node class. The entry is of type EC2_LINUX, which gives
    the node the user name and group that the aws-auth ConfigMap, now deprecated, used to give it. A role has one entry
    in a cluster, so the managed node groups have roles of their own.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: The cluster; it may be imported. Its authentication mode must allow access entries.
        cluster_name: Its name; may be a CDK token.
        role_name: Name of the role, 64 characters at most; `KarpenterNodeRole-<cluster>` if left out.

    Attributes:
        role: The role.
        role_name: Its name; a literal where the cluster's is one.
        entry: The access entry.

    Raises:
        ValueError: The role's name is too long.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        role_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.role_name = naming.role_name(role_name, f"KarpenterNodeRole-{cluster_name}")
        self.role = iam.Role(
            self,
            "Role",
            role_name=self.role_name,
            description=f"Nodes that Karpenter buys for the EKS cluster {cluster_name}",
            assumed_by=cast(
                "iam.IPrincipal", iam.ServicePrincipal.from_static_service_principle_name(_ec2(Stack.of(self)))
            ),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in NODE_POLICIES],
        )
        managed_policies_of_aws(self.role, NODE_POLICIES, "what EKS asks of a node's role; AWS keeps them up to date")
        self.entry = eks.AccessEntry(
            self,
            "Entry",
            cluster=cluster,
            principal=self.role.role_arn,
            access_entry_type=eks.AccessEntryType.EC2_LINUX,
            access_policies=[],
        )


def _ec2(stack: Stack) -> str:
    """The name by which EC2 takes a role: another one in China (the same template, `ec2.${AWS::URLSuffix}`)."""
    return "ec2.amazonaws.com.cn" if stack.region.startswith("cn-") else "ec2.amazonaws.com"
