"""The AWS side: one construct per capability. Nothing here knows of charts."""

from eks_gpu.cluster import GpuCluster
from eks_gpu.controller_role import ControllerRole
from eks_gpu.interruption import InterruptionQueue
from eks_gpu.network import ExistingNetwork, Network
from eks_gpu.node_access import NodeAccess
from eks_gpu.node_security_group import NodeSecurityGroup
from eks_gpu.spot_role import SpotServiceLinkedRole

__all__ = [
    "ControllerRole",
    "ExistingNetwork",
    "GpuCluster",
    "InterruptionQueue",
    "Network",
    "NodeAccess",
    "NodeSecurityGroup",
    "SpotServiceLinkedRole",
]
