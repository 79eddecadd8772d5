"""A VPC for one cluster."""

from aws_cdk import Tags
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

import configuration
from configuration.network import PRIVATE_SUBNET_PREFIX, PUBLIC_SUBNET_PREFIX


class Network(Construct):
    """A VPC with a public and a private subnet in every zone, and one NAT gateway.

    Nodes live in the private subnets, which carry the tag by which Karpenter finds them. One NAT gateway, not one a
    zone: it is what a workshop needs, at a third of the price; the zone that holds it is then everybody's way out.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        network: Range and zones.
        cluster_name: Value of the discovery tag.

    Attributes:
        vpc: The VPC.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, network: configuration.Network, cluster_name: str
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=list(network.availability_zones),
            nat_gateways=1,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=PUBLIC_SUBNET_PREFIX
                ),
                ec2.SubnetConfiguration(
                    name="Private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=PRIVATE_SUBNET_PREFIX
                ),
            ],
            # Emptying the default security group would take a Lambda function and a role; nothing here ever uses it.
            restrict_default_security_group=False,
        )
        for subnet in self.vpc.private_subnets:
            Tags.of(subnet).add("karpenter.sh/discovery", cluster_name, include_resource_types=["AWS::EC2::Subnet"])
