"""The role of Karpenter's controller, taken by its service account."""

import json
from typing import Any, Literal, cast

from aws_cdk import Fn, Stack, Token
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from eks_gpu import naming
from eks_gpu.controller_policies import Document, Scope, controller_policies
from eks_gpu.interruption import InterruptionQueue
from eks_gpu.node_access import NodeAccess
from eks_gpu.reasons import iam_wildcards
from eks_gpu.trust import cluster_arn, irsa_trust, pod_identity_trust


class ControllerRole(Construct):
    """`KarpenterControllerRole-<cluster>`: scoped policies, and trust in one service account of one cluster.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: The cluster; it may be imported.
        cluster_name: Its name. Where it is a CDK token, documents become text in an Fn::Sub, since the name is part of
            condition keys.
        release: Karpenter's release, which decides what it needs, such as 1.14.1.
        credentials: How its pods get the role. With `irsa` the cluster must have an OIDC provider, with `pod-identity`
            the pod identity agent.
        namespace: Namespace of the service account.
        service_account: The service account.
        nodes: The role that the controller may give to nodes.
        interruption: The queue that it reads.
        role_name: Name of the role, 64 characters at most; `KarpenterControllerRole-<cluster>` if left out.

    Attributes:
        role_arn: ARN of the role.
        association: The Pod Identity association, or None with IAM roles for service accounts.

    Raises:
        ValueError: The role's name is too long, what the release needs is not known, or the imported cluster has no
            OIDC provider.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        release: str,
        credentials: Literal["irsa", "pod-identity"],
        namespace: str,
        service_account: str,
        nodes: NodeAccess,
        interruption: InterruptionQueue,
        role_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        description = f"Karpenter's controller in the EKS cluster {cluster_name}"
        documents = _documents(stack, cluster_name, release, nodes, interruption)
        policies = [
            iam.CfnManagedPolicy(
                self,
                f"{part}Policy",
                managed_policy_name=naming.policy_name(f"KarpenterController{part}Policy-{cluster_name}"),
                description=description,
                policy_document=document,
            )
            for part, document in documents.items()
        ]
        known = [cast("Document", document) for document in documents.values() if isinstance(document, dict)]
        iam_wildcards(self, known, "what Karpenter finds and buys is not known before; conditions narrow it")
        arn = cluster_arn(stack, cluster_name)
        role = iam.CfnRole(
            self,
            "Role",
            role_name=naming.role_name(role_name, f"KarpenterControllerRole-{cluster_name}"),
            description=description,
            assume_role_policy_document=(
                irsa_trust(cluster, namespace, service_account)
                if credentials == "irsa"
                else pod_identity_trust(arn, namespace, service_account)
            ),
            managed_policy_arns=[policy.ref for policy in policies],
        )
        self.role_arn = role.attr_arn
        self.association = None
        if credentials == "pod-identity":
            self.association = eks.CfnPodIdentityAssociation(
                self,
                "Association",
                # A reference where the cluster is this app's, from which CloudFormation sees the order.
                cluster_name=cluster.cluster_name,
                namespace=namespace,
                service_account=service_account,
                role_arn=role.attr_arn,
            )


def _documents(
    stack: Stack, cluster_name: str, release: str, nodes: NodeAccess, interruption: InterruptionQueue
) -> dict[str, Any]:
    node_role, queue = nodes.role.role_arn, interruption.queue.attr_arn
    if not Token.is_unresolved(cluster_name):
        known = Scope(
            partition=stack.partition,
            region=stack.region,
            account=stack.account,
            cluster_name=cluster_name,
            node_role_arn=node_role,
            queue_arn=queue,
        )
        return dict(controller_policies(known, release))
    in_text = Scope(
        partition="${AWS::Partition}",
        region="${AWS::Region}",
        account="${AWS::AccountId}",
        cluster_name="${ClusterName}",
        node_role_arn="${NodeRole}",
        queue_arn="${Queue}",
    )
    values = {"ClusterName": cluster_name, "NodeRole": node_role, "Queue": queue}
    return {part: _text(document, values) for part, document in controller_policies(in_text, release).items()}


def _text(document: Document, values: dict[str, str]) -> str:
    """A document as text in which CloudFormation puts what it knows, in the condition's keys too."""
    text = json.dumps(document)
    return Fn.sub(text, {name: value for name, value in values.items() if f"${{{name}}}" in text})
