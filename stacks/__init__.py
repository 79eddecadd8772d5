"""Where AWS and Kubernetes meet: wiring and order, no policy text and no manifests."""

from stacks.cluster import ClusterStack
from stacks.karpenter import KarpenterStack
from stacks.network import NetworkStack
from stacks.node_pools import NodePoolsStack
from stacks.review import write_manifests
from stacks.samples import SamplesStack

__all__ = ["ClusterStack", "KarpenterStack", "NetworkStack", "NodePoolsStack", "SamplesStack", "write_manifests"]
