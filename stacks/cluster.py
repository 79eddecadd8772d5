"""The cluster stack."""

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from configuration import Environment
from eks_gpu import GpuCluster, NodeSecurityGroup


class ClusterStack(Stack):
    """The EKS cluster, its managed node groups, and the security group of the nodes that Karpenter buys."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, vpc: ec2.IVpc, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, **options)
        self.cluster = GpuCluster(self, "Eks", cluster=environment.cluster, vpc=vpc).cluster
        NodeSecurityGroup(self, "NodeSecurityGroup", cluster=self.cluster, cluster_name=environment.cluster.name)
