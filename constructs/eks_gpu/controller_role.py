"""The role of Karpenter's controller, taken by its service account."""

import json

from aws_cdk import Fn, Stack
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from eks_gpu.controller_policies import Scope, controller_policies
from eks_gpu.interruption import InterruptionQueue
from eks_gpu.node_access import NodeAccess


class ControllerRole(Construct):
    """`KarpenterControllerRole-<cluster>`: six scoped policies, and trust in one service account of one cluster.

    Trust goes by IAM roles for service accounts: the cluster's OIDC issuer must vouch for both the account (`sub`) and
    the audience (`aud`). The issuer is known only once the cluster is there, and it is part of the condition's keys,
    where CloudFormation takes no reference. So the document is text in an Fn::Sub, as upstream's own template does for
    its policies; a custom resource (CfnJson) would need a Lambda function and hide the document from `cdk diff`.

    Args:
        scope: Parent.
        construct_id: Name within the parent.
        cluster: The cluster.
        cluster_name: Its name, a literal.
        namespace: Namespace of the service account.
        service_account: The service account.
        nodes: The role that the controller may give to nodes.
        interruption: The queue that it reads.

    Attributes:
        role_arn: ARN of the role.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        cluster_name: str,
        namespace: str,
        service_account: str,
        nodes: NodeAccess,
        interruption: InterruptionQueue,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        documents = controller_policies(
            Scope(
                partition=stack.partition,
                region=stack.region,
                account=stack.account,
                cluster_name=cluster_name,
                node_role_arn=nodes.role.role_arn,
                queue_arn=interruption.queue.attr_arn,
            )
        )
        policies = [
            iam.ManagedPolicy(
                self,
                f"{part}Policy",
                managed_policy_name=f"KarpenterController{part}Policy-{cluster_name}",
                description=f"Karpenter's controller in the EKS cluster {cluster_name}",
                document=document,
            )
            for part, document in documents.items()
        ]
        role = iam.CfnRole(
            self,
            "Role",
            role_name=f"KarpenterControllerRole-{cluster_name}",
            description=f"Karpenter's controller in the EKS cluster {cluster_name}",
            assume_role_policy_document=_trust(cluster, namespace, service_account),
            managed_policy_arns=[policy.managed_policy_arn for policy in policies],
        )
        self.role_arn = role.attr_arn


def _trust(cluster: eks.ICluster, namespace: str, service_account: str) -> str:
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": "${Provider}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        "${Issuer}:aud": "sts.amazonaws.com",
                        "${Issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                    }
                },
            }
        ],
    }
    provider = cluster.open_id_connect_provider
    return Fn.sub(
        json.dumps(document),
        {
            "Issuer": provider.open_id_connect_provider_issuer,
            "Provider": provider.open_id_connect_provider_arn,
        },
    )
