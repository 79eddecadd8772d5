"""The service: operations by name, one lock, and instances that change state on their own."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rehearsal.compute.ec2 import images, protocol
from rehearsal.compute.ec2.catalogue import CapacityType, Catalogue
from rehearsal.compute.ec2.describe import Describe
from rehearsal.compute.ec2.errors import DryRunError, Ec2Error, NotSimulatedError
from rehearsal.compute.ec2.fleet import Fleets
from rehearsal.compute.ec2.launch import Launcher, merge
from rehearsal.compute.ec2.ports import Identity, Network
from rehearsal.compute.ec2.protocol import items, only, tag_map
from rehearsal.compute.ec2.state import KINDS, STATE_CODES, Gate, Instance, State, StateName, new_id
from rehearsal.compute.ec2.templates import Templates

Publish = Callable[[str, Mapping[str, Any]], None]
"""Takes an event of the source ``aws.ec2``: its detail type and its detail."""

Schedule = Callable[[float, Callable[[], None]], None]
"""Calls something once, after so many seconds, on a thread of its own."""

_CONSTANT = frozenset({"DescribeInstanceTypes", "DescribeInstanceTypeOfferings"})

STATE_CHANGE = "EC2 Instance State-change Notification"
SPOT_INTERRUPTION = "EC2 Spot Instance Interruption Warning"


def utc_now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def after(seconds: float, call: Callable[[], None]) -> None:
    """Schedule on a daemon thread."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class Ec2Service:
    """The part of EC2 that nodes are bought from, for one account and region.

    Safe to call from several threads. Events are published after the lock is released.

    Args:
        account_id: owns everything.
        region: one whose offerings are recorded, for example ``us-west-2``.
        network: VPC objects.
        identity: IAM, for the caller of the request that is being handled on this thread.
        prices: instance type to on-demand price, USD an hour.
        on_event: gets each event that EC2 would put on the default event bus.
        boot_seconds: from pending to running. Simulated: seconds here, tens of seconds on AWS.
        shutdown_seconds: from shutting-down to terminated, likewise.
        clock: the time.
        schedule: how state changes are deferred.

    Raises:
        ValueError: no offerings are recorded for the region.
    """

    def __init__(
        self,
        *,
        account_id: str,
        region: str,
        network: Network,
        identity: Identity,
        prices: Mapping[str, float],
        on_event: Publish | None = None,
        boot_seconds: float = 1.0,
        shutdown_seconds: float = 1.0,
        clock: Callable[[], datetime] = utc_now,
        schedule: Schedule = after,
    ) -> None:
        self.catalogue = Catalogue(region, prices)
        """Types, offerings and prices; its ``set_capacity`` empties a pool."""
        self.images = images.eks_images(region)
        """Image id to image."""
        self._gate = Gate(identity, account_id, region)
        self._state = State(account_id, region, network, self.catalogue, self.images, self._gate, clock)
        self._launcher = Launcher(self._state)
        self._fleets = Fleets(self._state, self._launcher)
        self._on_event = on_event
        self._boot_seconds = boot_seconds
        self._shutdown_seconds = shutdown_seconds
        self._schedule = schedule
        self._lock = threading.RLock()
        self._outbox: deque[tuple[str, dict[str, Any]]] = deque()
        self._answers: dict[tuple[str, str], bytes] = {}
        templates, describe = Templates(self._state), Describe(self._state)
        self._operations: dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
            **describe.operations(),
            "DescribeLaunchTemplates": templates.describe,
            "DescribeLaunchTemplateVersions": templates.describe_versions,
            "CreateLaunchTemplate": templates.create,
            "CreateLaunchTemplateVersion": templates.create_version,
            "DeleteLaunchTemplate": templates.delete,
            "CreateFleet": self._create_fleet,
            "RunInstances": self._run_instances,
            "TerminateInstances": self._terminate_instances,
            "CreateTags": self._create_tags,
            "DeleteTags": self._delete_tags,
        }
        self.operations = frozenset(self._operations)
        """Names of the operations that :meth:`handle` answers."""

    def handle(self, operation: str, params: Mapping[str, Sequence[str]]) -> tuple[int, bytes]:
        """Answer one request of the EC2 query protocol.

        Args:
            operation: the ``Action``; one of :attr:`operations`.
            params: the form parameters.

        Returns:
            HTTP status and XML (:data:`rehearsal.compute.ec2.protocol.CONTENT_TYPE`).
        """
        try:
            if operation not in self._operations:
                raise Ec2Error("InvalidAction", f"The action {operation} is not valid for this web service.")
            request = protocol.parse(operation, params)
            with self._lock:
                status, body = 200, self._answer(operation, request)
        except Ec2Error as error:
            status, body = error.status, protocol.serialise_error(error)
        self._publish()
        return status, body

    def instances(self) -> list[Instance]:
        """Every instance that ever was, in order of launch; copies, terminated ones among them."""
        with self._lock:
            return self._state.snapshot()

    def ssm_parameters(self, kubernetes_versions: Iterable[str] | None = None) -> dict[str, str]:
        """Public SSM parameters to image ids, see :func:`rehearsal.compute.ec2.images.ssm_parameters`."""
        return images.ssm_parameters(self.images.values(), kubernetes_versions)

    def addresses_in_use(self, subnet_id: str) -> int:
        """Addresses that instances hold in a subnet: what its ``AvailableIpAddressCount`` is smaller by."""
        with self._lock:
            return len(self._state.addresses(subnet_id))

    def owns(self, resource_id: str) -> bool:
        """Whether a resource that can be tagged is this service's."""
        with self._lock:
            return resource_id in self._state.tags

    def set_capacity(self, instance_type: str, zone: str, capacity: CapacityType, *, available: bool) -> None:
        """Empty a pool, so that launches get InsufficientInstanceCapacity, or fill it again."""
        with self._lock:
            self.catalogue.set_capacity(instance_type, zone, capacity, available=available)

    def interrupt(self, instance_id: str, notice_seconds: float = 120.0) -> None:
        """Reclaim a spot instance: EC2's warning now, termination when the notice is over.

        Args:
            instance_id: a spot instance that is alive.
            notice_seconds: AWS gives two minutes.

        Raises:
            ValueError: it is not a living spot instance.
        """
        with self._lock:
            instance = self._state.instances.get(instance_id)
            if instance is None or instance.capacity_type != "spot" or instance.terminated_at is not None:
                raise ValueError(f"{instance_id} is not a living spot instance")
            self._outbox.append((SPOT_INTERRUPTION, {"instance-id": instance_id, "instance-action": "terminate"}))
            self._schedule(notice_seconds, partial(self._reclaim, instance_id))
        self._publish()

    def _answer(self, operation: str, request: Mapping[str, Any]) -> bytes:
        self._gate.begin()
        # A repeated request is answered as the first time; and so is one whose answer never changes, for writing those
        # takes its time.
        remember = repr(request) if operation in _CONSTANT else request.get("ClientToken")
        if remember and not request.get("DryRun") and (operation, remember) in self._answers:
            return self._answers[operation, remember]
        if request.get("DryRun") and operation.startswith("Describe"):
            self._gate.ask(f"ec2:{operation}", "*")
            raise DryRunError
        body = protocol.serialise(operation, self._operations[operation](request))
        if remember:
            self._answers[operation, remember] = body
        return body

    def _create_fleet(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer, instances = self._fleets.create(request, new_id("fleet"))
        self._started(instances)
        return answer

    def _run_instances(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "RunInstances"
        asked = dict(request)
        dry_run, least, most = asked.pop("DryRun", False), asked.pop("MinCount", 1), asked.pop("MaxCount", 1)
        asked.pop("ClientToken", None)
        named = asked.pop("LaunchTemplate", None)
        used, data = None, {}
        if named:
            template = self._state.template(named)
            used = (template, template.version(named.get("Version")))
            data = template.versions[used[1]]
        launch = self._launcher.resolve(operation, merge(data, asked), used)
        self._launcher.authorise(launch)
        if dry_run:
            raise DryRunError
        instances = self._launcher.carry_out(launch, most, at_least=least)
        self._started(instances)
        return {
            "ReservationId": instances[0].reservation_id,
            "OwnerId": self._state.account_id,
            "Instances": [Describe.instance(instance) for instance in instances],
        }

    def _terminate_instances(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        only("TerminateInstances", request, "InstanceIds", "DryRun", "Force", "SkipOsShutdown")
        instances = self._state.find_instances(items(request, "InstanceIds"))
        for instance in instances:
            self._gate.ask(
                "ec2:TerminateInstances",
                self._gate.arn("instance", instance.id),
                held=instance.tags,
                InstanceType=instance.instance_type,
            )
        if request.get("DryRun"):
            raise DryRunError
        changes: list[dict[str, Any]] = []
        for instance in instances:
            before = instance.state
            self._shut_down(instance, ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated"))
            changes.append(
                {
                    "InstanceId": instance.id,
                    "PreviousState": {"Name": before, "Code": STATE_CODES[before]},
                    "CurrentState": {"Name": instance.state, "Code": STATE_CODES[instance.state]},
                }
            )
        return {"TerminatingInstances": changes}

    def _create_tags(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        only("CreateTags", request, "Resources", "Tags", "DryRun")
        tags = tag_map(request.get("Tags"))
        for resource in self._tagged("CreateTags", request, tags):
            resource.update(tags)
        return {}

    def _delete_tags(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        only("DeleteTags", request, "Resources", "Tags", "DryRun")
        wanted: list[Mapping[str, str]] = items(request, "Tags")
        for resource in self._tagged("DeleteTags", request, tag_map(wanted)):
            if not wanted:
                resource.clear()
            for tag in wanted:
                # A tag that is named with a value goes only if it has that value.
                if tag.get("Value") in (None, resource.get(tag["Key"])):
                    resource.pop(tag["Key"], None)
        return {}

    def _tagged(self, operation: str, request: Mapping[str, Any], tags: Mapping[str, str]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = []
        for resource in items(request, "Resources"):
            if resource not in self._state.tags:
                if resource.startswith("i-"):
                    self._state.find_instances([resource])
                raise NotSimulatedError(operation, f"a request that also names {resource}, which another service holds")
            held = self._state.tags[resource]
            arn = self._gate.arn(KINDS[resource.split("-")[0]], resource)
            self._gate.ask(f"ec2:{operation}", arn, requested=tags, held=held)
            found.append(held)
        if request.get("DryRun"):
            raise DryRunError
        return found

    def _started(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            self._changed(instance)
            self._schedule(self._boot_seconds, partial(self._enter, instance.id, "pending", "running"))

    def _shut_down(self, instance: Instance, reason: tuple[str, str]) -> None:
        if instance.terminated_at is not None:
            return
        instance.state = "shutting-down"
        instance.terminated_at = self._state.clock()
        instance.reason = reason
        self._changed(instance)
        self._schedule(self._shutdown_seconds, partial(self._enter, instance.id, "shutting-down", "terminated"))

    def _enter(self, instance_id: str, before: StateName, now: StateName) -> None:
        with self._lock:
            instance = self._state.instances[instance_id]
            if instance.state == before:
                instance.state = now
                self._changed(instance)
        self._publish()

    def _reclaim(self, instance_id: str) -> None:
        with self._lock:
            reason = ("Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination")
            self._shut_down(self._state.instances[instance_id], reason)
        self._publish()

    def _changed(self, instance: Instance) -> None:
        self._outbox.append((STATE_CHANGE, {"instance-id": instance.id, "state": instance.state}))

    def _publish(self) -> None:
        while self._outbox:
            try:
                event = self._outbox.popleft()
            except IndexError:  # another thread took the last one
                return
            if self._on_event is not None:
                self._on_event(*event)
