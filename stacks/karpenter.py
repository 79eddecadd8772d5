"""The Karpenter stack."""

from collections.abc import Sequence
from typing import Any, cast

import cdk8s
from aws_cdk import Duration, Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import ClusterFacts, KarpenterChart
from configuration import Karpenter
from eks_gpu import ControllerRole, InterruptionQueue, NodeAccess, SpotServiceLinkedRole
from eks_gpu.foreign import required
from stacks.manifests import apply_chart


class KarpenterStack(Stack):
    """Karpenter: its queue, its two roles, its custom resource definitions and its controller.

    The controller comes last and goes first, so that it never runs without what it needs.

    Args:
        scope: The app, or a stage.
        construct_id: Name of the stack.
        cluster: The cluster, of this app, of another stack of the same one, or imported by its attributes.
        cluster_name: Its name; where it is a literal, policies can be read in `cdk diff`.
        karpenter: Release, place, credentials and settings.
        node_groups: Managed node groups that the controller may run on; any node that it did not buy if left out.
        buys_spot: Whether a pool may buy spot capacity: the account then needs EC2's spot service-linked role.
        alarm_topic_arn: SNS topic that is told when nobody reads the interruption queue.
        options: Of every stack, such as env.

    Attributes:
        cluster: The cluster.
        cluster_name: Its name.
        node_role_name: Name of the role that nodes run as.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster | eks.Cluster,
        cluster_name: str,
        karpenter: Karpenter,
        node_groups: Sequence[str] = (),
        buys_spot: bool = True,
        alarm_topic_arn: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, **options)
        # jsii's Python classes do not match their own interfaces for a type checker: parameter names differ.
        self.cluster, self.cluster_name = cast("eks.ICluster", cluster), cluster_name
        interruption = InterruptionQueue(
            self,
            "Interruption",
            cluster_name=cluster_name,
            release=karpenter.version,
            alarm_topic_arn=alarm_topic_arn,
        )
        nodes = NodeAccess(self, "Nodes", cluster=self.cluster, cluster_name=cluster_name)
        self.node_role_name = nodes.role_name
        controller = ControllerRole(
            self,
            "Controller",
            cluster=self.cluster,
            cluster_name=cluster_name,
            release=karpenter.version,
            credentials=karpenter.credentials,
            role_name=karpenter.controller_role,
            namespace=karpenter.namespace,
            service_account=karpenter.service_account,
            nodes=nodes,
            interruption=interruption,
        )
        definitions = self._definitions(karpenter)
        chart = KarpenterChart(
            cdk8s.App(),
            "karpenter",
            karpenter=karpenter,
            cluster=ClusterFacts(
                name=cluster_name,
                endpoint=required(self.cluster, "cluster_endpoint", "what Karpenter tells new nodes"),
                region=self.region,
                interruption_queue=interruption.queue.attr_queue_name,
                node_groups=list(node_groups),
            ),
            role_arn=controller.role_arn if karpenter.credentials == "irsa" else None,
        )
        *others, deployment = apply_chart(self, self.cluster, chart)
        definitions.node.add_dependency(*(made for made in others if made.node.id.startswith("Namespace-")))
        deployment.node.add_dependency(interruption, nodes, controller, definitions, *others)
        if buys_spot:
            deployment.node.add_dependency(SpotServiceLinkedRole(self, "SpotServiceLinkedRole"))

    def _definitions(self, karpenter: Karpenter) -> eks.HelmChart:
        """Karpenter's own definitions, from its own chart: a copy here would be a release behind one day."""
        return eks.HelmChart(
            self,
            "Definitions",
            cluster=self.cluster,
            release="karpenter-crd",
            chart="karpenter-crd",
            repository="oci://public.ecr.aws/karpenter/karpenter-crd",
            version=karpenter.version,
            namespace=karpenter.namespace,
            create_namespace=False,
            wait=True,
            timeout=Duration.minutes(2),
        )
