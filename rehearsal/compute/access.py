"""How the data plane reaches its cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ClusterAccess:
    """A cluster and its administrator.

    Args:
        name: the cluster's name.
        endpoint: URL of its API server.
        ca_pem: certificate of the authority that signed the API server's.
        kubeconfig: an administrator's.
    """

    name: str
    endpoint: str
    ca_pem: bytes
    kubeconfig: Path
