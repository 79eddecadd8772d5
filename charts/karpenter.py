"""Karpenter's controller: the objects of its Helm chart, releases 1.8 to 1.14, as plain manifests.

Source: karpenter-provider-aws v1.8.0 to v1.14.1, charts/karpenter; `tests/parity` compares with what that renders. The
chart's custom resource definitions are not here: they are installed from the chart `karpenter-crd`.
"""

from cdk8s import Chart
from constructs import Construct

from charts.karpenter_deployment import METRICS_PORT, NAME, ClusterFacts, deployment, selector
from charts.karpenter_rbac import add_access
from charts.objects import add_namespace, add_object
from configuration import Karpenter
from configuration.releases import numbers


class KarpenterChart(Chart):
    """Karpenter in its namespace, which is made too unless it is one of the cluster's own.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        karpenter: What the user asks for.
        cluster: The cluster that it buys nodes for.
        role_arn: IAM role that the service account's annotation names (IAM roles for service accounts), may be a CDK
            token; None where the role comes from an EKS Pod Identity association, which no object shows.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        karpenter: Karpenter,
        cluster: ClusterFacts,
        role_arn: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        labels = {
            "helm.sh/chart": f"{NAME}-{karpenter.version}",
            **selector(),
            "app.kubernetes.io/version": karpenter.version,
            # Helm is what upstream's chart says here. Nothing of Helm's manages these.
            "app.kubernetes.io/managed-by": "cdk8s",
        }
        namespace = karpenter.namespace
        add_namespace(self, namespace)
        add_object(
            self,
            api_version="v1",
            kind="ServiceAccount",
            name=karpenter.service_account,
            namespace=namespace,
            labels=labels,
            annotations={"eks.amazonaws.com/role-arn": role_arn} if role_arn else None,
            # The Deployment mounts the token by itself; other pods that name this account get none.
            body={"automountServiceAccountToken": False},
        )
        add_access(
            self,
            name=NAME,
            namespace=namespace,
            service_account=karpenter.service_account,
            labels=labels,
            release=numbers(karpenter.version),
        )
        add_object(
            self,
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            name=NAME,
            namespace=namespace,
            labels=labels,
            body={"spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector()}}},
        )
        add_object(
            self,
            api_version="v1",
            kind="Service",
            name=NAME,
            namespace=namespace,
            labels=labels,
            body={
                "spec": {
                    "type": "ClusterIP",
                    "ports": [
                        {"name": "http-metrics", "port": METRICS_PORT, "targetPort": "http-metrics", "protocol": "TCP"}
                    ],
                    "selector": selector(),
                }
            },
        )
        add_object(
            self,
            api_version="apps/v1",
            kind="Deployment",
            name=NAME,
            namespace=namespace,
            labels=labels,
            body={"spec": deployment(karpenter, cluster)},
        )
