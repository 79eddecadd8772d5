"""The Karpenter stack."""

from typing import Any

import cdk8s
from aws_cdk import Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import KarpenterChart, KarpenterSettings
from configuration import Environment
from configuration.releases import KARPENTER_IMAGE_DIGESTS
from eks_gpu import ControllerRole, InterruptionQueue, NodeAccess
from stacks.manifests import apply_chart


class KarpenterStack(Stack):
    """Karpenter: its queue, its two roles, its custom resource definitions and its controller.

    The controller comes last and goes first, so that it never runs without what it needs.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, cluster: eks.ICluster, **options: Any
    ) -> None:
        super().__init__(scope, construct_id, **options)
        name, karpenter = environment.cluster.name, environment.karpenter
        interruption = InterruptionQueue(self, "Interruption", cluster_name=name)
        nodes = NodeAccess(self, "Nodes", cluster=cluster, cluster_name=name)
        self.node_role_name = nodes.role_name
        controller = ControllerRole(
            self,
            "Controller",
            cluster=cluster,
            cluster_name=name,
            namespace=karpenter.namespace,
            service_account=karpenter.service_account,
            nodes=nodes,
            interruption=interruption,
        )
        definitions = self._definitions(cluster, environment)
        chart = KarpenterChart(
            cdk8s.App(),
            "karpenter",
            settings=KarpenterSettings(
                version=karpenter.version,
                image_digest=KARPENTER_IMAGE_DIGESTS[karpenter.version],
                namespace=karpenter.namespace,
                service_account=karpenter.service_account,
                role_arn=controller.role_arn,
                replicas=karpenter.replicas,
                cpu=karpenter.cpu,
                memory=karpenter.memory,
                node_groups=[group.name for group in environment.cluster.node_groups],
                region=environment.network.region,
                cluster_name=name,
                cluster_endpoint=cluster.cluster_endpoint,
                interruption_queue=interruption.queue.attr_queue_name,
            ),
        )
        namespace, *others, deployment = apply_chart(self, cluster, chart)
        definitions.node.add_dependency(namespace)
        deployment.node.add_dependency(interruption, nodes, controller, definitions, *others)

    def _definitions(self, cluster: eks.ICluster, environment: Environment) -> eks.HelmChart:
        """Karpenter's own definitions, from its own chart: a copy here would be a release behind one day."""
        return eks.HelmChart(
            self,
            "Definitions",
            cluster=cluster,
            release="karpenter-crd",
            chart="karpenter-crd",
            repository="oci://public.ecr.aws/karpenter/karpenter-crd",
            version=environment.karpenter.version,
            namespace=environment.karpenter.namespace,
            create_namespace=False,
            wait=True,
            timeout=Duration.minutes(2),
        )
