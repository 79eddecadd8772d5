"""The node pools stack."""

from collections.abc import Mapping, Sequence
from typing import Any

import cdk8s
from aws_cdk import Stack
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from charts import DcgmExporterChart, DevicePluginChart, NodePlacement, NodePoolsChart
from charts.gpu_nodes import classes_with_plugin
from configuration import CpuPool, DcgmExporter, DevicePlugin, GpuPool, NodeClass
from stacks.karpenter import KarpenterStack
from stacks.manifests import apply_chart


class NodePoolsStack(Stack):
    """Pools, their node classes, and what registers and watches their GPUs.

    Deleting a node class waits until Karpenter has terminated the last of its nodes, so everything that Karpenter needs
    for that must outlive this stack: it depends on the Karpenter stack.

    Args:
        scope: The app, or a stage.
        construct_id: Name of the stack.
        karpenter: The stack of the Karpenter that buys the nodes.
        node_classes: Node classes by name.
        gpu_pools: Pools of nodes with GPUs.
        cpu_pools: Pools of nodes without.
        device_plugin: What registers GPUs; None where the cluster has that already.
        dcgm_exporter: What tells Prometheus of GPUs.
        subnet_ids: Where nodes are put; None for the subnets with the tag `karpenter.sh/discovery`.
        security_group_ids: Their security groups; None likewise.
        tags_of_nodes: EC2 tags of instances, volumes and network interfaces.
        options: Of every stack, such as env.

    Attributes:
        cluster: The cluster.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        karpenter: KarpenterStack,
        node_classes: Mapping[str, NodeClass],
        gpu_pools: Sequence[GpuPool],
        cpu_pools: Sequence[CpuPool] = (),
        device_plugin: DevicePlugin | None = None,
        dcgm_exporter: DcgmExporter | None = None,
        subnet_ids: Sequence[str] | None = None,
        security_group_ids: Sequence[str] | None = None,
        tags_of_nodes: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, construct_id, **options)
        self.add_stack_dependency(karpenter)
        self.cluster = karpenter.cluster
        pools = NodePoolsChart(
            cdk8s.App(),
            "node-pools",
            node_classes=node_classes,
            pools=[*gpu_pools, *cpu_pools],
            placement=NodePlacement(
                cluster_name=karpenter.cluster_name,
                role_name=karpenter.node_role_name,
                tags=tags_of_nodes or {},
                subnet_ids=subnet_ids,
                security_group_ids=security_group_ids,
            ),
        )
        on_nodes: list[eks.KubernetesManifest] = []
        for chart in _on_gpu_nodes(node_classes, gpu_pools, device_plugin, dcgm_exporter):
            applied = apply_chart(self, self.cluster, chart)
            for manifest in applied:
                # The exporter may live in the plugin's namespace.
                manifest.node.add_dependency(*on_nodes)
            on_nodes.extend(applied)
        for manifest in apply_chart(self, self.cluster, pools):
            manifest.node.add_dependency(*on_nodes)


def _on_gpu_nodes(
    node_classes: Mapping[str, NodeClass],
    pools: Sequence[GpuPool],
    plugin: DevicePlugin | None,
    exporter: DcgmExporter | None,
) -> list[cdk8s.Chart]:
    charts, app = list[cdk8s.Chart](), cdk8s.App()
    taints = [taint for pool in pools for taint in pool.taints]
    if plugin:
        charts.append(
            DevicePluginChart(
                app,
                "device-plugin",
                version=plugin.version,
                namespace=plugin.namespace,
                taints=taints,
                feature_discovery=plugin.gpu_feature_discovery,
                classes_with_plugin=classes_with_plugin(node_classes),
            )
        )
    if exporter:
        charts.append(
            DcgmExporterChart(
                app,
                "dcgm-exporter",
                version=exporter.version,
                namespace=exporter.namespace,
                taints=taints,
                create_namespace=plugin is None or exporter.namespace != plugin.namespace,
            )
        )
    return charts
