"""Where AWS and Kubernetes meet: wiring and order, no policy text and no manifests."""

from stacks.cluster import ClusterStack
from stacks.gpu_pools import GpuPoolsStack
from stacks.karpenter import KarpenterStack
from stacks.network import NetworkStack
from stacks.review import write_manifests

__all__ = ["ClusterStack", "GpuPoolsStack", "KarpenterStack", "NetworkStack", "write_manifests"]
