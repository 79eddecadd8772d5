"""What the service remembers: launch templates, instances, tags; and the one gate that every authorisation passes."""

from __future__ import annotations

import copy
import ipaddress
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rehearsal.compute.ec2.catalogue import CapacityType, Catalogue
from rehearsal.compute.ec2.errors import Ec2Error, UnauthorizedError
from rehearsal.compute.ec2.images import Image
from rehearsal.compute.ec2.ports import Identity, InstanceProfile, Network, SecurityGroup, Subnet

StateName = Literal["pending", "running", "shutting-down", "terminated"]

STATE_CODES: Mapping[StateName, int] = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
"""EC2's codes of the instance states (API reference, InstanceState)."""

KINDS: Mapping[str, str] = {
    "i": "instance",
    "lt": "launch-template",
    "vol": "volume",
    "eni": "network-interface",
    "sir": "spot-instances-request",
    "fleet": "fleet",
}
"""Prefix of a resource's id to its type, as tag specifications and ARNs name it."""


def new_id(prefix: str) -> str:
    """A resource id of EC2's long form, for example ``i-0`` and sixteen more hexadecimal digits."""
    return f"{prefix}-0{secrets.token_hex(8)}"


def partition(region: str) -> str:
    """The ARN partition of a region."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


@dataclass(frozen=True)
class Interface:
    """A network interface of an instance; ``address`` is ``None`` for ``efa-only``, which has no IP."""

    id: str
    device_index: int
    card_index: int
    kind: str
    subnet: Subnet
    groups: tuple[SecurityGroup, ...]
    address: str | None


@dataclass(frozen=True)
class Volume:
    """An EBS volume of an instance; ``size`` in GiB."""

    id: str
    device: str
    size: int
    kind: str


@dataclass
class Instance:
    """An instance, as census, bill and node simulator read it.

    Args:
        id: for example ``i-0123456789abcdef0``.
        instance_type: for example ``g5.12xlarge``.
        capacity_type: ``spot`` or ``on-demand``.
        state: EC2's state.
        image: what it boots from.
        subnet: where its first interface lies; the zone is the subnet's.
        interfaces: by device index.
        volumes: by device name.
        profile: its instance profile, whose role is the node's identity.
        user_data: base64, as it was given.
        tags: live; CreateTags changes them.
        price_per_hour: USD, fixed at launch.
        launched_at: when it became pending.
        terminated_at: when it stopped costing, which is when it began to shut down; ``None`` while it costs.
        reservation_id: groups the instances of one request.
        template: id, name and version of the launch template, when one was used.
        fleet_id: the fleet that bought it.
        spot_request_id: its spot request.
        metadata_options: of the instance metadata service, as requested.
        key_name: its SSH key.
        reason: code and message of why it was terminated.
    """

    id: str
    instance_type: str
    capacity_type: CapacityType
    state: StateName
    image: Image
    subnet: Subnet
    interfaces: tuple[Interface, ...]
    volumes: tuple[Volume, ...]
    profile: InstanceProfile | None
    user_data: str | None
    tags: dict[str, str]
    price_per_hour: float
    launched_at: datetime
    reservation_id: str
    terminated_at: datetime | None = None
    template: tuple[str, str, int] | None = None
    fleet_id: str | None = None
    spot_request_id: str | None = None
    metadata_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    key_name: str | None = None
    reason: tuple[str, str] | None = None

    @property
    def zone(self) -> str:
        """Name of its availability zone."""
        return self.subnet.zone

    @property
    def private_ip(self) -> str:
        """Address of its first interface."""
        return next(interface.address for interface in self.interfaces if interface.address)

    @property
    def private_dns_name(self) -> str:
        """Its IP-based host name, which is what EKS names its node after."""
        region = self.zone.rstrip("abcdefghijklmnopqrstuvwxyz")
        domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
        return f"ip-{self.private_ip.replace('.', '-')}.{domain}"

    def cost(self, now: datetime) -> float:
        """What it has cost by ``now``, USD; to the second, and at least the first minute, as AWS bills Linux."""
        seconds = ((self.terminated_at or now) - self.launched_at).total_seconds()
        return max(seconds, 60.0) / 3600 * self.price_per_hour


@dataclass
class LaunchTemplate:
    """A launch template and its versions; each version's data is the request's ``LaunchTemplateData``."""

    id: str
    name: str
    created_at: datetime
    created_by: str
    tags: dict[str, str]
    versions: dict[int, dict[str, Any]]
    descriptions: dict[int, str | None]
    default_version: int = 1

    @property
    def latest_version(self) -> int:
        """The highest version number."""
        return max(self.versions)

    def version(self, wanted: str | None) -> int:
        """The number that ``$Latest``, ``$Default``, a number or nothing (``$Default``) means.

        Raises:
            Ec2Error: there is no such version.
        """
        if wanted in (None, "", "$Default"):
            return self.default_version
        if wanted == "$Latest":
            return self.latest_version
        if not str(wanted).isdigit() or int(str(wanted)) not in self.versions:
            raise Ec2Error(
                "InvalidLaunchTemplateId.VersionNotFound",
                f"Could not find the specified version {wanted} for the launch template with ID {self.id}.",
            )
        return int(str(wanted))


class Gate:
    """Asks IAM, once per resource that a request touches; an answer is remembered for the length of the request.

    Which resource types and condition keys belong to an action is AWS's Service Authorization Reference ("Actions,
    resources, and condition keys for Amazon EC2").

    Args:
        identity: IAM, for the caller of the current request.
        account_id: owns the resources.
        region: their region.
    """

    def __init__(self, identity: Identity, account_id: str, region: str) -> None:
        self.identity = identity
        self._account_id = account_id
        self._region = region
        self._asked: set[str] = set()

    def begin(self) -> None:
        """Forget what was asked: another request, perhaps another caller."""
        self._asked.clear()

    def arn(self, kind: str, resource_id: str = "*") -> str:
        """ARN of an EC2 resource; images and snapshots have no account in theirs."""
        account = "" if kind in ("image", "snapshot") else self._account_id
        return f"arn:{partition(self._region)}:ec2:{self._region}:{account}:{kind}/{resource_id}"

    def ask(
        self,
        action: str,
        arn: str,
        *,
        requested: Mapping[str, str] | None = None,
        held: Mapping[str, str] | None = None,
        **keys: str | None,
    ) -> None:
        """Let the request go on, or stop it.

        Args:
            action: for example ``ec2:RunInstances``.
            arn: the resource; ``*`` where the action has none.
            requested: tags that the request sets: ``aws:RequestTag/...`` and ``aws:TagKeys``.
            held: tags that the resource has: ``aws:ResourceTag/...`` and ``ec2:ResourceTag/...``.
            **keys: further keys of EC2's own, without the ``ec2:``; ``None`` leaves one out.

        Raises:
            UnauthorizedError: the caller may not.
        """
        context: dict[str, str | list[str]] = {f"ec2:{key}": value for key, value in keys.items() if value is not None}
        for key, value in (requested or {}).items():
            context[f"aws:RequestTag/{key}"] = value
        if requested:
            context["aws:TagKeys"] = list(requested)
        for key, value in (held or {}).items():
            context[f"aws:ResourceTag/{key}"] = context[f"ec2:ResourceTag/{key}"] = value
        self._ask(action, arn, context)

    def pass_role(self, role_arn: str) -> None:
        """Ask whether the caller may pass a role to EC2.

        Raises:
            UnauthorizedError: the caller may not.
        """
        self._ask("iam:PassRole", role_arn, {"iam:PassedToService": "ec2.amazonaws.com"})

    def need_spot_role(self) -> None:
        """See that the account has the service-linked role with which EC2 buys spot instances.

        EC2 user guide, "Service-linked role for EC2 Spot Instance requests".

        Raises:
            Ec2Error: it has not, and the caller may not have it made.
        """
        if not self.identity.service_linked_role("spot.amazonaws.com"):
            raise Ec2Error(
                "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
                "The provided credentials do not have permission to create the service-linked role for EC2 Spot "
                "Instances.",
                403,
            )

    def create_tags(self, kind: str, tags: Mapping[str, str], creating: str) -> None:
        """Ask whether the caller may tag what its request creates; no tags, no question.

        Args:
            kind: resource type, for example ``volume``.
            tags: to be set.
            creating: the action that creates it, without ``ec2:`` (condition key ``ec2:CreateAction``).

        Raises:
            UnauthorizedError: the caller may not.
        """
        if tags:
            self.ask("ec2:CreateTags", self.arn(kind), requested=tags, CreateAction=creating)

    def _ask(self, action: str, arn: str, context: Mapping[str, str | list[str]]) -> None:
        question = repr((action, arn, sorted(context.items())))
        if question in self._asked:
            return
        denial = self.identity.authorise(action, arn, context)
        if denial is not None:
            raise UnauthorizedError(denial)
        self._asked.add(question)


@dataclass
class State:
    """Everything of one account and region. Whoever reads or changes it holds the service's lock."""

    account_id: str
    region: str
    network: Network
    catalogue: Catalogue
    images: Mapping[str, Image]
    gate: Gate
    clock: Callable[[], datetime]
    templates: dict[str, LaunchTemplate] = field(default_factory=dict[str, LaunchTemplate])
    instances: dict[str, Instance] = field(default_factory=dict[str, Instance])
    tags: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """Tags of every resource of ours by its id; an instance's and a template's are the same objects as theirs."""

    def template(self, spec: Mapping[str, Any]) -> LaunchTemplate:
        """The launch template that a specification names by id or name.

        Raises:
            Ec2Error: there is none.
        """
        wanted_id, name = spec.get("LaunchTemplateId"), spec.get("LaunchTemplateName")
        if wanted_id:
            if wanted_id in self.templates:
                return self.templates[wanted_id]
            raise Ec2Error(
                "InvalidLaunchTemplateId.NotFound",
                f"The specified launch template, with template ID {wanted_id}, does not exist.",
            )
        if not name:
            raise Ec2Error("MissingParameter", "The request must name a launch template by its ID or its name.")
        for template in self.templates.values():
            if template.name == name:
                return template
        raise Ec2Error(
            "InvalidLaunchTemplateName.NotFoundException",
            "At least one of the launch templates specified in the request does not exist.",
        )

    def addresses(self, subnet_id: str) -> set[str]:
        """Addresses of a subnet that instances of ours hold."""
        return {
            interface.address
            for instance in self.instances.values()
            if instance.state != "terminated"
            for interface in instance.interfaces
            if interface.address and interface.subnet.id == subnet_id
        }

    def free_addresses(self, subnet: Subnet, count: int) -> list[str]:
        """Up to ``count`` free addresses of a subnet.

        Taken from its end downwards, since the VPC emulation gives its own interfaces the first ones.
        """
        used = self.addresses(subnet.id)
        range_ = ipaddress.ip_network(subnet.cidr)
        wanted = max(0, min(count, subnet.available_ip_count - len(used)))
        free: list[str] = []
        # The last address is the broadcast address; the first four are AWS's.
        for offset in range(range_.num_addresses - 2, 3, -1):
            if len(free) == wanted:
                break
            address = str(range_[offset])
            if address not in used:
                free.append(address)
        return free

    def snapshot(self) -> list[Instance]:
        """Copies of all instances, in order of launch, that later changes do not reach."""
        return [copy.copy(instance) for instance in self.instances.values()]

    def find_instances(self, ids: Sequence[str]) -> list[Instance]:
        """The instances of those ids.

        Raises:
            Ec2Error: an id is malformed or unknown.
        """
        for instance_id in ids:
            if not instance_id.startswith("i-"):
                raise Ec2Error("InvalidInstanceID.Malformed", f'Invalid id: "{instance_id}"')
        missing = [instance_id for instance_id in ids if instance_id not in self.instances]
        if len(missing) == 1:
            raise Ec2Error("InvalidInstanceID.NotFound", f"The instance ID '{missing[0]}' does not exist")
        if missing:
            raise Ec2Error("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(missing)}' do not exist")
        return [self.instances[instance_id] for instance_id in dict.fromkeys(ids)]
