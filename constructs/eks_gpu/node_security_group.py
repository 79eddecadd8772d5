"""The security group of the nodes that Karpenter buys."""

from aws_cdk import Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from eks_gpu.foreign import required


class NodeSecurityGroup(Construct):
    """The one security group that carries the discovery tag, open towards the rest of the cluster and to nobody else.

    EKS makes a security group for the control plane and the managed nodes, but CloudFormation cannot tag what EKS made,
    so Karpenter's nodes get one of ours. All traffic is allowed among them, and both ways between it and the group that
    EKS made. That is the traffic that nodes need, and all that managed nodes have among themselves: control plane to
    kubelet (10250) and to webhooks, nodes to the API server (443), pods to CoreDNS (53) on the managed nodes, and pods
    to pods, for which the VPC CNI uses the node's group (Amazon EKS user guide, sec-group-reqs).

    Args:
        scope: Parent, in the cluster's stack: a rule here is part of a group that goes with the cluster.
        construct_id: Name within the parent.
        cluster: The cluster; an imported one must have `vpc` and `cluster_security_group_id`.
        cluster_name: Its name; value of the discovery tag.
        discovery_tag: Whether Karpenter finds it by the tag, and not by its id.

    Attributes:
        security_group: The security group.

    Raises:
        ValueError: The cluster was imported without what is needed.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        discovery_tag: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        vpc: ec2.IVpc = required(cluster, "vpc", "the security group of Karpenter's nodes")
        made_by_eks: str = required(cluster, "cluster_security_group_id", "traffic between nodes and control plane")
        self.security_group = ec2.SecurityGroup(
            self, "Resource", vpc=vpc, description=f"Nodes that Karpenter buys for {cluster_name}"
        )
        if discovery_tag:
            Tags.of(self.security_group).add("karpenter.sh/discovery", cluster_name)
        ours = self.security_group.security_group_id
        self._allow("AmongThemselves", to=ours, source=ours)
        self._allow("FromCluster", to=ours, source=made_by_eks)
        self._allow("ToCluster", to=made_by_eks, source=ours)

    def _allow(self, construct_id: str, *, to: str, source: str) -> None:
        # A resource of its own, also where both ends are ours: so that each rule has a name that never changes.
        ec2.CfnSecurityGroupIngress(self, construct_id, group_id=to, source_security_group_id=source, ip_protocol="-1")
