"""The network stack."""

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from configuration import Environment
from eks_gpu import Network


class NetworkStack(Stack):
    """A VPC of the cluster's own. What lives here outlives everything else, and is deleted last.

    An environment whose VPC is there already has no such stack.
    """

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, **options: Any) -> None:
        super().__init__(scope, construct_id, **options)
        network = environment.network
        if network.vpc is None:
            raise ValueError(f"environment {environment.name}: the VPC is there already, so there is no network stack")
        self.network = Network(
            self,
            "Network",
            vpc=network.vpc,
            cluster_name=None if network.by_ids else environment.cluster.name,
        )
        self.vpc = self.network.vpc
