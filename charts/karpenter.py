"""Karpenter's controller: the objects of its Helm chart, release 1.14.1, as plain manifests.

Source: karpenter-provider-aws, branch release-v1.14.1, charts/karpenter. The chart's custom resource definitions are
not here: they are installed from the chart `karpenter-crd`.
"""

from cdk8s import Chart
from constructs import Construct

from charts.karpenter_deployment import METRICS_PORT, NAME, KarpenterSettings, deployment, selector
from charts.karpenter_rbac import add_access
from charts.objects import add_object


class KarpenterChart(Chart):
    """Karpenter in a namespace of its own."""

    def __init__(self, scope: Construct, construct_id: str, *, settings: KarpenterSettings) -> None:
        super().__init__(scope, construct_id)
        labels = {
            "helm.sh/chart": f"{NAME}-{settings.version}",
            **selector(),
            "app.kubernetes.io/version": settings.version,
            # Helm is what upstream's chart says here. Nothing of Helm's manages these.
            "app.kubernetes.io/managed-by": "cdk8s",
        }
        namespace = settings.namespace
        add_object(self, api_version="v1", kind="Namespace", name=namespace)
        add_object(
            self,
            api_version="v1",
            kind="ServiceAccount",
            name=settings.service_account,
            namespace=namespace,
            labels=labels,
            annotations={"eks.amazonaws.com/role-arn": settings.role_arn},
            # The Deployment mounts the token by itself; other pods that name this account get none.
            body={"automountServiceAccountToken": False},
        )
        add_access(self, name=NAME, namespace=namespace, service_account=settings.service_account, labels=labels)
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
            body={"spec": deployment(settings)},
        )
