"""The GPU pools stack."""

from typing import Any

import cdk8s
from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import DevicePluginChart, GpuPoolsChart, NodePlacement
from configuration import Environment
from stacks.manifests import apply_chart


class GpuPoolsStack(Stack):
    """GPU pools, their node classes, and the device plugin that registers their GPUs.

    Deleting a node class waits until Karpenter has terminated the last of its nodes, so everything that Karpenter needs
    for that must outlive this stack: it depends on the Karpenter stack.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        cluster: eks.ICluster,
        node_role_name: str,
        tags_of_nodes: dict[str, str],
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, **options)
        charts = cdk8s.App()
        plugin = environment.device_plugin
        device_plugin = apply_chart(
            self,
            cluster,
            DevicePluginChart(
                charts,
                "device-plugin",
                version=plugin.version,
                namespace=plugin.namespace,
                taints=[taint for pool in environment.gpu_pools for taint in pool.taints],
            ),
        )
        pools = apply_chart(
            self,
            cluster,
            GpuPoolsChart(
                charts,
                "gpu-pools",
                node_classes=environment.node_classes,
                pools=environment.gpu_pools,
                placement=NodePlacement(
                    cluster_name=environment.cluster.name, role_name=node_role_name, tags=tags_of_nodes
                ),
            ),
        )
        for manifest in pools:
            manifest.node.add_dependency(*device_plugin)
