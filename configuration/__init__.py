"""What a user may ask for: one YAML file per environment, read into frozen models.

Nothing here knows of CDK or cdk8s, so that a wrong value is found in milliseconds and before anything is built.
"""

from configuration.cluster import Cluster, NodeGroup
from configuration.device_plugin import DcgmExporter, DevicePlugin
from configuration.environment import Environment
from configuration.errors import ConfigurationError
from configuration.karpenter import Karpenter
from configuration.loading import load_environment
from configuration.network import ExistingVpc, Network, Vpc
from configuration.pools import CpuPool, GpuPool, NodeClass, Pool
from configuration.scheduling import Requirement, Taint

__all__ = [
    "Cluster",
    "ConfigurationError",
    "CpuPool",
    "DcgmExporter",
    "DevicePlugin",
    "Environment",
    "ExistingVpc",
    "GpuPool",
    "Karpenter",
    "Network",
    "NodeClass",
    "NodeGroup",
    "Pool",
    "Requirement",
    "Taint",
    "Vpc",
    "load_environment",
]
