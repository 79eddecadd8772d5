"""What a user may ask for: one YAML file per environment, read into frozen models.

Nothing here knows of CDK or cdk8s, so that a wrong value is found in milliseconds and before anything is built.
"""

from configuration.environment import Cluster, DevicePlugin, Environment, Karpenter, Network, NodeGroup
from configuration.errors import ConfigurationError
from configuration.loading import load_environment
from configuration.pools import GpuPool, NodeClass
from configuration.scheduling import Requirement, Taint

__all__ = [
    "Cluster",
    "ConfigurationError",
    "DevicePlugin",
    "Environment",
    "GpuPool",
    "Karpenter",
    "Network",
    "NodeClass",
    "NodeGroup",
    "Requirement",
    "Taint",
    "load_environment",
]
