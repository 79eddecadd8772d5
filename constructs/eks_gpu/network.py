"""Where a cluster lives: a VPC of its own, or one that is there already."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Annotations, Tags
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

import configuration
from configuration.network import PUBLIC_SUBNET_PREFIX, Subnet
from eks_gpu.reasons import acknowledge

FLOW_LOG_DAYS: Final = 30


class Network(Construct):
    """A VPC with a public and a private subnet in every zone.

    Nodes live in the private subnets, which carry the tag by which Karpenter finds them, unless it is to find them by
    their ids.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        vpc: Range, zones, size, NAT gateways, endpoints and flow logs.
        cluster_name: Value of the discovery tag; None for no such tag.

    Attributes:
        vpc: The VPC.
        node_subnets: Its private subnets, where the control plane and the nodes are.
        cluster_subnets: The same: what EKS is told.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, vpc: configuration.Vpc, cluster_name: str | None
    ) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(vpc.cidr),
            availability_zones=list(vpc.availability_zones),
            nat_gateways=1 if vpc.nat_gateways == "one" else len(vpc.availability_zones),
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=PUBLIC_SUBNET_PREFIX
                ),
                ec2.SubnetConfiguration(
                    name="Private",
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=vpc.private_subnet_prefix,
                ),
            ],
            # Emptying the default security group would take a Lambda function and a role; nothing here ever uses it.
            restrict_default_security_group=False,
        )
        self.node_subnets: Sequence[ec2.ISubnet] = self.vpc.private_subnets
        self.cluster_subnets = self.node_subnets
        if cluster_name:
            self._tag(cluster_name)
        if vpc.endpoints:
            self._add_endpoints(vpc)
        if vpc.flow_logs:
            self._add_flow_logs()
        else:
            acknowledge(self.vpc, "flow logs are the environment's choice (network.vpc.flowLogs): they cost", "VPC7")

    def _tag(self, cluster_name: str) -> None:
        for subnet in self.vpc.private_subnets:
            Tags.of(subnet).add("karpenter.sh/discovery", cluster_name, include_resource_types=["AWS::EC2::Subnet"])

    def _add_endpoints(self, vpc: configuration.Vpc) -> None:
        interfaces = [name for name in vpc.endpoints if name != "s3"]
        if "s3" in vpc.endpoints:
            self.vpc.add_gateway_endpoint("S3", service=ec2.GatewayVpcEndpointAwsService.S3)
        if not interfaces:
            return
        group = ec2.SecurityGroup(
            self, "Endpoints", vpc=self.vpc, description="AWS endpoints in the VPC", allow_all_outbound=False
        )
        group.add_ingress_rule(ec2.Peer.ipv4(vpc.cidr), ec2.Port.tcp(443), "HTTPS from the VPC")
        for name in interfaces:
            self.vpc.add_interface_endpoint(
                name, service=ec2.InterfaceVpcEndpointAwsService(name), security_groups=[group], open=False
            )

    def _add_flow_logs(self) -> None:
        from aws_cdk import aws_logs as logs  # loaded by those who use it: it costs time at every synth

        group = logs.LogGroup(self, "FlowLogGroup", retention=logs.RetentionDays.ONE_MONTH)
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group))


class ExistingNetwork(Construct):
    """A VPC that is there already, known by what the environment says of it: nothing is looked up, tagged or changed.

    Args:
        scope: Parent, in the cluster's stack: there is nothing to deploy for it.
        construct_id: Name within the parent.
        existing: Ids, zones and range.

    Attributes:
        vpc: The VPC, without subnets: those below are chosen one by one.
        node_subnets: The private subnets, where the nodes are.
        cluster_subnets: All of them: what EKS is told.
    """

    def __init__(self, scope: Construct, construct_id: str, *, existing: configuration.ExistingVpc) -> None:
        super().__init__(scope, construct_id)
        private, public = existing.private_subnets, existing.public_subnets
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=existing.vpc_id,
            vpc_cidr_block=existing.cidr,
            availability_zones=list(dict.fromkeys(subnet.zone for subnet in private)),
        )
        self.node_subnets: Sequence[ec2.ISubnet] = [self._subnet(subnet) for subnet in private]
        self.cluster_subnets: Sequence[ec2.ISubnet] = [*self.node_subnets, *(self._subnet(subnet) for subnet in public)]

    def _subnet(self, subnet: Subnet) -> ec2.ISubnet:
        imported = ec2.Subnet.from_subnet_attributes(
            self, subnet.id, subnet_id=subnet.id, availability_zone=subnet.zone
        )
        Annotations.of(imported).acknowledge_warning(
            "@aws-cdk/aws-ec2:noSubnetRouteTableId", "no route is added to a subnet that is there already"
        )
        return imported
