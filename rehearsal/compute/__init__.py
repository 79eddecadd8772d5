"""What instances, nodes, pods and GPUs do behind a cluster's API server: the data plane of a rehearsal."""

from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import AwsAccess
from rehearsal.compute.data_plane import DataPlane
from rehearsal.compute.notices import (
    GpusChanged,
    NodegroupInstance,
    NodeJoined,
    NodeLost,
    NodeRefused,
    Notice,
    PodProcess,
    Sink,
    Trouble,
)

__all__ = [
    "AwsAccess",
    "ClusterAccess",
    "DataPlane",
    "GpusChanged",
    "NodeJoined",
    "NodeLost",
    "NodeRefused",
    "NodegroupInstance",
    "Notice",
    "PodProcess",
    "Sink",
    "Trouble",
]
