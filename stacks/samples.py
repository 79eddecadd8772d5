"""The samples stack."""

from collections.abc import Sequence
from typing import Any

import cdk8s
from aws_cdk import Stack
from constructs import Construct

from charts import SamplesChart
from stacks.manifests import apply_chart
from stacks.node_pools import NodePoolsStack


class SamplesStack(Stack):
    """Sample workloads. They go before the pools do, so that no pod waits for a pool that is gone.

    Args:
        scope: The app, or a stage.
        construct_id: Name of the stack.
        pools: The stack of the pools that they run on.
        names: Which samples.
        options: Of every stack, such as env.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, pools: NodePoolsStack, names: Sequence[str], **options: Any
    ) -> None:
        super().__init__(scope, construct_id, **options)
        self.add_stack_dependency(pools)
        apply_chart(self, pools.cluster, SamplesChart(cdk8s.App(), "samples", names=names))
