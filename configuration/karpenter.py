"""Karpenter's controller."""

from pydantic import Field

from configuration.model import Model
from configuration.text import DnsName, Quantity, Release


class Karpenter(Model):
    """The Karpenter controller."""

    version: Release
    """Release, without a v."""
    namespace: DnsName
    """Namespace it runs in; created."""
    service_account: DnsName
    """Service account it runs as; the controller role trusts this one alone."""
    replicas: int = Field(ge=1)
    """Pods, each on a node of its own; one leads."""
    cpu: Quantity
    """CPU of one pod, requested and limited, such as "1" (a core)."""
    memory: Quantity
    """Memory of one pod, requested and limited, such as 1Gi."""
