"""An EKS cluster whose CPU nodes are managed by EKS and whose GPU nodes are left to Karpenter."""

import importlib
import json
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from aws_cdk import CfnElement, RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IConstruct

import configuration
from configuration.cluster import NETWORKING_ADDONS, Endpoint
from eks_gpu.addons import Addons
from eks_gpu.reasons import acknowledge, managed_policies_of_aws

_AMI_TYPES: Final = {
    "amd64": eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
    "arm64": eks.NodegroupAmiType.AL2023_ARM_64_STANDARD,
}
_LOG_TYPES: Final = {
    "api": eks.ClusterLoggingTypes.API,
    "audit": eks.ClusterLoggingTypes.AUDIT,
    "authenticator": eks.ClusterLoggingTypes.AUTHENTICATOR,
    "controllerManager": eks.ClusterLoggingTypes.CONTROLLER_MANAGER,
    "scheduler": eks.ClusterLoggingTypes.SCHEDULER,
}
_MADE_BY_THE_CDK: Final = (
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryReadOnly",
    "service-role/AWSLambdaBasicExecutionRole",
    "service-role/AWSLambdaVPCAccessExecutionRole",
)


class GpuCluster(Construct):
    """An EKS cluster with managed node groups, access entries, and a kubectl handler.

    Whoever deploys is not made an administrator by it: the kubectl handler has an access entry of its own, and people
    are given theirs.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: Name, version, node groups, endpoint, add-ons and the like.
        vpc: Where it lives.
        node_subnets: Where its managed nodes are.
        cluster_subnets: What EKS is told, for the control plane.
        credentials: How pods get IAM roles: decides on the pod identity agent and the EBS CSI driver's role.

    Attributes:
        cluster: The cluster.
        node_groups: Its managed node groups.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: configuration.Cluster,
        vpc: ec2.IVpc,
        node_subnets: Sequence[ec2.ISubnet],
        cluster_subnets: Sequence[ec2.ISubnet],
        credentials: Literal["irsa", "pod-identity"],
    ) -> None:
        super().__init__(scope, construct_id)
        managed = cluster.addons.versions()
        logs = self._control_plane_logs(cluster) if cluster.control_plane_logs else None
        cluster_with_nodes = eks.Cluster(
            self,
            "Cluster",
            cluster_name=cluster.name,
            version=eks.KubernetesVersion.of(cluster.kubernetes_version),
            vpc=vpc,
            vpc_subnets=[ec2.SubnetSelection(subnets=list(cluster_subnets))],
            service_ipv4_cidr=cluster.service_cidr,
            endpoint_access=_endpoint_access(cluster.endpoint),
            cluster_logging=[_LOG_TYPES[name] for name in cluster.control_plane_logs] or None,
            secrets_encryption_key=self._secrets_key(cluster) if cluster.secrets_key else None,
            # Without this the cluster would be an Auto Mode cluster, which brings a Karpenter of its own.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            # Its own unmanaged ones only where none is asked for: they would be in the way of managed ones.
            bootstrap_self_managed_addons=False if managed.keys() & set(NETWORKING_ADDONS) else None,
            bootstrap_cluster_creator_admin_permissions=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=_kubectl_layer(self, cluster.kubernetes_version)
            ),
            # Every object is a resource of its own, so removing one is CloudFormation's to do. Pruning would put a
            # label made from the resource's path on every object, and it skips custom resources anyway.
            prune=False,
        )
        # jsii's Python classes do not match their own interfaces for a type checker: parameter names differ.
        self.cluster = cast("eks.ICluster", cluster_with_nodes)
        resource = cast("eks.CfnCluster", cluster_with_nodes.node.default_child)
        resource.deletion_protection = cluster.deletion_protection or None
        resource.upgrade_policy = eks.CfnCluster.UpgradePolicyProperty(support_type=cluster.support_type)
        if logs:
            resource.node.add_dependency(logs)
        addons = Addons(
            self,
            "Addons",
            cluster=self.cluster,
            cluster_name=cluster.name,
            versions=managed,
            credentials=credentials,
        )
        self.node_groups = [
            cluster_with_nodes.add_nodegroup_capacity(
                group.name,
                nodegroup_name=group.name,
                ami_type=_AMI_TYPES[group.architecture],
                instance_types=[ec2.InstanceType(group.instance_type)],
                min_size=group.size,
                desired_size=group.size,
                max_size=group.size,
                subnets=ec2.SubnetSelection(subnets=list(node_subnets)),
            )
            for group in cluster.node_groups
        ]
        for group in self.node_groups:
            group.node.add_dependency(*addons.before_nodes)
        for addon in addons.after_nodes:
            addon.node.add_dependency(*self.node_groups)
        self._add_admins(cluster)
        self._give_reasons(cluster)

    def _control_plane_logs(self, cluster: configuration.Cluster) -> Construct:
        """The log group that EKS would make by itself, and leave behind, for ever."""
        from aws_cdk import aws_logs as logs  # loaded by those who use it: it costs time at every synth

        return logs.CfnLogGroup(
            self, "ControlPlaneLogs", log_group_name=f"/aws/eks/{cluster.name}/cluster", retention_in_days=30
        )

    def _secrets_key(self, cluster: configuration.Cluster) -> Any:
        from aws_cdk import aws_kms as kms  # loaded by those who use it: it costs time at every synth

        if cluster.secrets_key != "own":
            return kms.Key.from_key_arn(self, "SecretsKey", cast("str", cluster.secrets_key))
        return kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of the EKS cluster {cluster.name}",
            enable_key_rotation=True,
            # What it encrypts goes with the cluster. KMS still keeps it for 30 days.
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _add_admins(self, cluster: configuration.Cluster) -> None:
        policy = eks.AccessPolicy.from_access_policy_name(
            "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
        )
        for principal in cluster.admins:
            eks.AccessEntry(
                self,
                f"Admin {principal.partition('::')[2].replace('/', ' ')}",
                cluster=self.cluster,
                principal=principal,
                access_policies=[policy],
            )

    def _give_reasons(self, cluster: configuration.Cluster) -> None:
        if cluster.endpoint.access != "private":
            reason = "who may do anything is decided by IAM and access entries; cluster.endpoint narrows it further"
            acknowledge(self.cluster, reason, "EKS1")
        if len(cluster.control_plane_logs) < len(_LOG_TYPES):
            acknowledge(
                self.cluster,
                "which logs are worth their price is the environment's choice (cluster.controlPlaneLogs)",
                "EKS2",
                *(f"EKS2[LogExport::{name}]" for name in _LOG_TYPES if name not in cluster.control_plane_logs),
            )
        managed_policies_of_aws(self, _MADE_BY_THE_CDK, "roles that the CDK makes, with the policies EKS asks for")
        self._give_reasons_for_kubectl()

    def _give_reasons_for_kubectl(self) -> None:
        """The CDK's own functions. Their findings carry names that only the CDK knows."""
        kubectl = self.cluster.node.find_child("KubectlProvider")
        handler = kubectl.node.find_child("Handler")
        condition = self._logical_id(handler.node.find_child("HasEcrPublic"))
        policy = ":iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly"
        arn = json.dumps({"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, policy]]}, separators=(",", ":"))
        found = f'{{"Fn::If":["{condition}",{arn},{{"Ref":"AWS::NoValue"}}]}}'
        acknowledge(
            kubectl,
            "the CDK's kubectl handler: its runtime and its permissions are the CDK's; it talks to this cluster alone",
            "L1",
            f"IAM4[Policy::{found}]",
            f"IAM5[Resource::<{self._logical_id(handler.node.default_child)}.Arn>:*]",
        )

    def _logical_id(self, construct: IConstruct | None) -> str:
        return Stack.of(self).resolve(cast("CfnElement", construct).logical_id)


def _endpoint_access(endpoint: Endpoint) -> eks.EndpointAccess:
    if endpoint.access == "private":
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*(endpoint.public_cidrs or ["0.0.0.0/0"]))


def _kubectl_layer(scope: Construct, kubernetes_version: str) -> Any:
    """The kubectl that belongs to a Kubernetes version: a package of its own for each, of which one is loaded."""
    minor = kubernetes_version.removeprefix("1.")
    module = importlib.import_module(f"aws_cdk.lambda_layer_kubectl_v{minor}")
    return getattr(module, f"KubectlV{minor}Layer")(scope, "KubectlLayer")
