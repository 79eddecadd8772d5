"""What happens on a cluster's data plane, as the story tells it and the log keeps it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Notice:
    """One thing that happened on the data plane of a cluster.

    Args:
        cluster: the cluster's name.
    """

    kind: ClassVar[str] = "data-plane"
    cluster: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return self.kind

    @property
    def data(self) -> dict[str, Any]:
        """The same for machines."""
        return asdict(self)


@dataclass(frozen=True)
class NodeJoined(Notice):
    """An instance became a node."""

    kind: ClassVar[str] = "node-joined"
    instance_id: str
    instance_type: str
    zone: str
    node: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"{self.instance_type} {self.instance_id} in {self.zone} joined {self.cluster} as node {self.node}"


@dataclass(frozen=True)
class NodeRefused(Notice):
    """A running instance cannot become a node; reported once for each reason, and tried again."""

    kind: ClassVar[str] = "node-refused"
    instance_id: str
    reason: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"{self.instance_id} does not join {self.cluster}: {self.reason}"


@dataclass(frozen=True)
class NodeLost(Notice):
    """A node's instance is gone; its Node object was removed, or is left to the finalizers it has."""

    kind: ClassVar[str] = "node-lost"
    instance_id: str
    node: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"node {self.node} left {self.cluster}: its instance {self.instance_id} is gone"


@dataclass(frozen=True)
class GpusChanged(Notice):
    """``nvidia.com/gpu`` was registered on a node, or withdrawn from it (count 0). Simulated."""

    kind: ClassVar[str] = "gpus-changed"
    node: str
    count: int
    reason: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"node {self.node} offers nvidia.com/gpu: {self.count} ({self.reason}; simulated device)"


@dataclass(frozen=True)
class PodProcess(Notice):
    """The real process of a pod started, became ready, ended or was not to be started.

    Args:
        pod: ``<namespace>/<name>``.
        state: ``started``, ``ready``, ``exited``, ``stopped`` or ``failed``.
        detail: why, or where its log is.
    """

    kind: ClassVar[str] = "pod-process"
    pod: str
    state: str
    detail: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"pod {self.pod} {self.state}: {self.detail}"


@dataclass(frozen=True)
class PodIdentityRefused(Notice):
    """The EKS Pod Identity agent gave a pod no credentials."""

    kind: ClassVar[str] = "pod-identity-denied"
    why: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"EKS Pod Identity of {self.cluster} gave a pod no credentials: {self.why}"


@dataclass(frozen=True)
class NodegroupInstance(Notice):
    """The EKS service launched or terminated an instance of a managed node group."""

    kind: ClassVar[str] = "nodegroup-instance"
    nodegroup: str
    instance_id: str
    state: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"node group {self.nodegroup}: {self.instance_id} {self.state}"


@dataclass(frozen=True)
class Trouble(Notice):
    """Something failed and is tried again; reported once until it changes."""

    kind: ClassVar[str] = "data-plane-trouble"
    where: str
    message: str

    @property
    def text(self) -> str:
        """One sentence for a person."""
        return f"{self.where} of {self.cluster}: {self.message}"


Sink = Callable[[Notice], None]
"""Takes events from any thread."""


class Reporter:
    """Passes events on to a sink and the log; passes each recurring one on only once.

    Args:
        cluster: the cluster's name.
        sink: takes the events.
    """

    def __init__(self, cluster: str, sink: Sink) -> None:
        self.cluster = cluster
        self._sink = sink
        self._said: dict[str, Notice] = {}

    def report(self, event: Notice) -> None:
        """Pass an event on."""
        log.log(logging.WARNING if isinstance(event, Trouble | NodeRefused) else logging.INFO, "%s", event.text)
        self._sink(event)

    def once(self, key: str, event: Notice) -> bool:
        """Pass an event on unless it is the last one that was said under this key; True where it was passed on."""
        if self._said.get(key) == event:
            return False
        self._said[key] = event
        self.report(event)
        return True

    def forget(self, key: str) -> None:
        """Let the next event under this key through."""
        self._said.pop(key, None)
