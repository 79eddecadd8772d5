"""The network stack."""

from typing import Any

from aws_cdk import Stack
from constructs import Construct

from configuration import Environment
from eks_gpu import Network


class NetworkStack(Stack):
    """A VPC of the cluster's own. What lives here outlives everything else, and is deleted last."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment, **options: Any) -> None:
        super().__init__(scope, construct_id, **options)
        self.vpc = Network(self, "Network", network=environment.network, cluster_name=environment.cluster.name).vpc
