"""EKS add-ons, in the order that nodes and pods need."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from aws_cdk import Aws, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from eks_gpu.reasons import managed_policies_of_aws
from eks_gpu.trust import cluster_arn, irsa_trust, pod_identity_trust

BEFORE_NODES: Final = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""DaemonSets that a node needs from its first moment. EKS has them active without any node."""

POD_IDENTITY_AGENT: Final = "eks-pod-identity-agent"

EBS_CSI_DRIVER: Final = "aws-ebs-csi-driver"
EBS_CSI_SERVICE_ACCOUNT: Final = "ebs-csi-controller-sa"
EBS_CSI_POLICY: Final = "service-role/AmazonEBSCSIDriverPolicy"
"""Source: Amazon EKS user guide, ebs-csi."""


class Addons(Construct):
    """The add-ons of a cluster.

    Those of `BEFORE_NODES` come before the node groups and go after them, so that a node can run pods, and end them,
    for as long as it lives. The others have pods of a Deployment, or are of no use without nodes: they come after.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: The cluster.
        cluster_name: Its name.
        versions: What is installed: `default` for the version that EKS takes, or a version, by name.
        credentials: How the EBS CSI driver gets its role; with `pod-identity` the agent is there in any case.

    Attributes:
        before_nodes: What node groups must depend on.
        after_nodes: What must depend on node groups.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        versions: Mapping[str, str],
        credentials: Literal["irsa", "pod-identity"],
    ) -> None:
        super().__init__(scope, construct_id)
        self._cluster, self._cluster_name, self._credentials = cluster, cluster_name, credentials
        if credentials == "pod-identity":
            versions = {**versions, POD_IDENTITY_AGENT: versions.get(POD_IDENTITY_AGENT, "default")}
        self.before_nodes: Sequence[IDependable] = [
            self._addon(name, versions[name]) for name in BEFORE_NODES if name in versions
        ]
        self.after_nodes: Sequence[Construct] = [
            self._addon(name, version) for name, version in versions.items() if name not in BEFORE_NODES
        ]

    def _addon(self, name: str, version: str) -> eks.CfnAddon:
        addon = eks.CfnAddon(
            self,
            name,
            addon_name=name,
            addon_version=None if version == "default" else version,
            # A reference, from which CloudFormation sees the order; the name itself is only a name.
            cluster_name=self._cluster.cluster_name,
            # What somebody changed by hand in an add-on's objects would otherwise stop its update.
            resolve_conflicts="OVERWRITE",
        )
        if name == EBS_CSI_DRIVER:
            self._give_role(addon)
        return addon

    def _give_role(self, addon: eks.CfnAddon) -> None:
        stack, account, pod_identity = Stack.of(self), EBS_CSI_SERVICE_ACCOUNT, self._credentials == "pod-identity"
        role = iam.CfnRole(
            self,
            "EbsCsiRole",
            description=f"EBS CSI driver in the EKS cluster {self._cluster_name}",
            assume_role_policy_document=(
                pod_identity_trust(cluster_arn(stack, self._cluster_name), "kube-system", account)
                if pod_identity
                else irsa_trust(self._cluster, "kube-system", account)
            ),
            managed_policy_arns=[f"arn:{Aws.PARTITION}:iam::aws:policy/{EBS_CSI_POLICY}"],
        )
        managed_policies_of_aws(role, [EBS_CSI_POLICY], "what AWS writes for its driver, and keeps up to date")
        if pod_identity:
            addon.pod_identity_associations = [
                eks.CfnAddon.PodIdentityAssociationProperty(service_account=account, role_arn=role.attr_arn)
            ]
        else:
            addon.service_account_role_arn = role.attr_arn
