"""Instances become nodes, and nodes whose instance is gone leave: kubelet registration and the cloud node lifecycle."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from rehearsal.compute import node
from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import Answer, AwsView
from rehearsal.compute.joining import Refusal, examine
from rehearsal.compute.node import Machine
from rehearsal.compute.notices import NodeJoined, NodeLost, NodeRefused, Reporter, Trouble
from rehearsal.kubernetes.api import KubeApi, KubeError, Manifest

_LOOK_AGAIN_S = 3.0
"""Seconds after which an instance that was refused is looked at again; a kubelet tries again too."""


class Nodes:
    """Keeps a cluster's Node objects equal to the instances that may be nodes of it.

    Args:
        cluster: the cluster.
        api: its administrator.
        aws: the local AWS.
        kubernetes_version: of the kubelets, for example ``1.33.13``.
        reporter: told what happens.
    """

    def __init__(
        self, cluster: ClusterAccess, api: KubeApi, aws: AwsView, kubernetes_version: str, reporter: Reporter
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._aws = aws
        self._version = kubernetes_version
        self._reporter = reporter
        self._machines: dict[str, Machine] = {}
        self._not_before: dict[str, float] = {}

    def step(self) -> None:
        """Look at all instances and nodes once."""
        instances = {str(instance["InstanceId"]): instance for instance in self._aws.instances()}
        nodes = self._api.list("Node")
        registered = {instance_id(found) for found in nodes}
        for found in nodes:
            if instance_id(found) not in instances:
                self._lose(found)
        for identity, instance in instances.items():
            if instance["State"]["Name"] == "running" and identity not in registered:
                self._try(identity, instance)

    def machine(self, name: str) -> Machine | None:
        """The machine behind a node that joined here, or None."""
        return self._machines.get(name)

    def _try(self, identity: str, instance: Answer) -> None:
        """Consider one instance; what AWS refuses to say about it keeps no other instance from joining."""
        try:
            self._consider(identity, instance)
        except ClientError as error:
            self._not_before[identity] = time.monotonic() + _LOOK_AGAIN_S
            self._reporter.once(identity, Trouble(self._cluster.name, f"node {identity}", str(error)))

    def _consider(self, identity: str, instance: Answer) -> None:
        if identity in {machine.instance["InstanceId"] for machine in self._machines.values()}:
            return  # joined once already: a Node that was deleted while its instance runs does not come back by itself
        if time.monotonic() < self._not_before.get(identity, 0):
            return
        found = examine(self._cluster, self._aws, instance, self._version)
        if isinstance(found, Machine):
            self._join(identity, found)
            return
        self._not_before[identity] = time.monotonic() + _LOOK_AGAIN_S
        if isinstance(found, Refusal):
            self._reporter.once(identity, NodeRefused(self._cluster.name, identity, found.reason))

    def _join(self, identity: str, machine: Machine) -> None:
        wanted = node.manifest(machine)
        name: str = wanted["metadata"]["name"]
        try:
            self._api.create(wanted)
        except KubeError as error:
            if not error.conflict:
                raise
            reason = f"the cluster has a node named {name} already"
            self._reporter.once(identity, NodeRefused(self._cluster.name, identity, reason))
            return
        self._machines[name] = machine
        joined = NodeJoined(self._cluster.name, identity, machine.instance["InstanceType"], machine.zone, name)
        self._reporter.report(joined)

    def _lose(self, found: Manifest) -> None:
        name: str = found["metadata"]["name"]
        self._machines.pop(name, None)
        event = NodeLost(self._cluster.name, instance_id(found), name)
        if not found["metadata"].get("deletionTimestamp"):
            self._api.patch("NodeStatus", name, {"status": {"conditions": [_unknown()]}})
            self._api.delete("Node", name)
        self._reporter.once(f"lost {event.instance_id}", event)


def instance_id(found: Manifest) -> str:
    """The instance behind a Node object; empty where there is none."""
    return str(found["spec"].get("providerID") or "").rpartition("/")[2]


def _unknown() -> Manifest:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "the instance is gone (simulated kubelet)",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
