"""The cluster stack."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Stack
from constructs import Construct

from configuration import Environment
from eks_gpu import ExistingNetwork, GpuCluster, Network, NodeSecurityGroup


class ClusterStack(Stack):
    """The EKS cluster, its managed node groups, and the security group of the nodes that Karpenter buys.

    Attributes:
        cluster: The cluster.
        node_subnet_ids: Where Karpenter puts nodes, or None where it finds that by the discovery tag.
        node_security_group_ids: What it gives them, or None likewise.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, network: Network | None, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, **options)
        name, existing = environment.cluster.name, environment.network.existing
        where = ExistingNetwork(self, "Network", existing=existing) if existing else network
        if where is None:
            raise ValueError(f"environment {environment.name}: network.vpc is given, and so its network must be")
        self.cluster = GpuCluster(
            self,
            "Eks",
            cluster=environment.cluster,
            vpc=where.vpc,
            node_subnets=where.node_subnets,
            cluster_subnets=where.cluster_subnets,
            credentials=environment.karpenter.credentials,
        ).cluster
        by_ids = environment.network.by_ids
        nodes = NodeSecurityGroup(
            self, "NodeSecurityGroup", cluster=self.cluster, cluster_name=name, discovery_tag=not by_ids
        )
        self.node_subnet_ids: Sequence[str] | None = None
        self.node_security_group_ids: Sequence[str] | None = None
        if by_ids:
            self.node_subnet_ids = [subnet.subnet_id for subnet in where.node_subnets]
            self.node_security_group_ids = [nodes.security_group.security_group_id]
