"""An EKS cluster whose CPU nodes are managed by EKS and whose GPU nodes are left to Karpenter."""

from typing import Final, cast

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v33 import KubectlV33Layer
from constructs import Construct

import configuration

_AMI_TYPES: Final = {
    "amd64": eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
    "arm64": eks.NodegroupAmiType.AL2023_ARM_64_STANDARD,
}


class GpuCluster(Construct):
    """An EKS cluster with managed node groups, access entries, and a kubectl handler.

    Whoever deploys is not made an administrator by it: the kubectl handler has an access entry of its own, and people
    are given theirs. The API server can be reached from outside, with IAM credentials, and from inside the VPC.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: Name, version and node groups.
        vpc: Where it lives.

    Attributes:
        cluster: The cluster.
        node_groups: Its managed node groups.
    """

    def __init__(self, scope: Construct, construct_id: str, *, cluster: configuration.Cluster, vpc: ec2.IVpc) -> None:
        super().__init__(scope, construct_id)
        private = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
        cluster_with_nodes = eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster.name,
            version=eks.KubernetesVersion.of(cluster.kubernetes_version),
            vpc=vpc,
            vpc_subnets=[private],
            endpoint_access=eks.EndpointAccess.PUBLIC_AND_PRIVATE,
            # Without this the cluster would be an Auto Mode cluster, which brings a Karpenter of its own.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            bootstrap_cluster_creator_admin_permissions=False,
            kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV33Layer(self, "KubectlLayer")),
            # Every object is a resource of its own, so removing one is CloudFormation's to do. Pruning would put a
            # label made from the resource's path on every object, and it skips custom resources anyway.
            prune=False,
        )
        # jsii's Python classes do not match their own interfaces for a type checker: parameter names differ.
        self.cluster = cast("eks.ICluster", cluster_with_nodes)
        self.node_groups = [
            cluster_with_nodes.add_nodegroup_capacity(
                group.name,
                nodegroup_name=group.name,
                ami_type=_AMI_TYPES[group.architecture],
                instance_types=[ec2.InstanceType(group.instance_type)],
                min_size=group.size,
                desired_size=group.size,
                max_size=group.size,
                subnets=private,
            )
            for group in cluster.node_groups
        ]
