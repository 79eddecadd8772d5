"""Trust policies by which a Kubernetes service account, and no other, takes an IAM role."""

import json
from typing import Any

from aws_cdk import Fn, Stack, Token
from aws_cdk import aws_eks_v2 as eks

from eks_gpu.foreign import required


def irsa_trust(cluster: eks.ICluster, namespace: str, service_account: str) -> Any:
    """Trust by IAM roles for service accounts.

    The cluster's OIDC issuer must vouch for both the account (`sub`) and the audience (`aud`). The issuer is known only
    once the cluster is there, and it is part of the condition's keys, where CloudFormation takes no reference. So the
    document is text in an Fn::Sub, as upstream's own template does for its policies; a custom resource (CfnJson) would
    need a Lambda function and hide the document from `cdk diff`.

    Args:
        cluster: The cluster; its OIDC provider is made if it is this app's.
        namespace: Namespace of the service account.
        service_account: The service account.

    Raises:
        ValueError: The cluster was imported without its OIDC provider.
    """
    provider = required(cluster, "open_id_connect_provider", "IAM roles for service accounts")
    document = _document(
        {
            "Principal": {"Federated": "${Provider}"},
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": {
                "StringEquals": {
                    "${Issuer}:aud": "sts.amazonaws.com",
                    "${Issuer}:sub": f"system:serviceaccount:{namespace}:{service_account}",
                }
            },
        }
    )
    return Fn.sub(
        json.dumps(document),
        {
            "Issuer": provider.open_id_connect_provider_issuer,
            "Provider": provider.open_id_connect_provider_arn,
        },
    )


def pod_identity_trust(cluster_arn: str, namespace: str, service_account: str) -> Any:
    """Trust by EKS Pod Identity, which takes the role with tags that say for which pod.

    Without conditions any association of the account could hand the role out. The conditions go by the tags that the
    service is documented to send; the cluster's ARN among them says the account too (Amazon EKS user guide, pod-id-role
    and pod-id-abac). aws:SourceArn and aws:SourceAccount, which the guide does not promise here, would risk that no pod
    ever gets the role.

    Args:
        cluster_arn: ARN of the cluster.
        namespace: Namespace of the service account.
        service_account: The service account.
    """
    return _document(
        {
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {
                "StringEquals": {
                    "aws:RequestTag/eks-cluster-arn": cluster_arn,
                    "aws:RequestTag/kubernetes-namespace": namespace,
                    "aws:RequestTag/kubernetes-service-account": service_account,
                }
            },
        }
    )


def cluster_arn(stack: Stack, cluster_name: str) -> str:
    """ARN of a cluster in a stack's account and Region, readable where these are known."""
    return f"arn:{stack.partition}:eks:{stack.region}:{stack.account}:cluster/{cluster_name}"


def is_literal(name: str) -> bool:
    """Whether a name is known when the template is written."""
    return not Token.is_unresolved(name)


def _document(statement: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **statement}]}
