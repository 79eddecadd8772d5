"""One launch: from what was asked, through what may be done, to instances. RunInstances and fleets share it.

Which resources RunInstances is authorised on is the Service Authorization Reference's list, and for spot also the
``spot-instances-request`` ("Spot Instance requests: grant permission to tag", EC2 user guide).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.compute.ec2.catalogue import CapacityType
from rehearsal.compute.ec2.errors import Ec2Error, NotSimulatedError
from rehearsal.compute.ec2.images import ROOT_DEVICE, Image
from rehearsal.compute.ec2.ports import InstanceProfile, SecurityGroup, Subnet
from rehearsal.compute.ec2.protocol import items, section
from rehearsal.compute.ec2.state import Instance, Interface, LaunchTemplate, State, Volume, new_id
from rehearsal.compute.ec2.templates import check_user_data, tags_for

CREATED = ("instance", "volume", "network-interface", "spot-instances-request")
"""Resource types that a launch creates and that its ``TagSpecifications`` may tag."""

# What a launch reads of a request or a launch template's data, or may leave aside because it changes nothing that the
# rehearsal shows. Whatever else they hold is refused.
_KNOWN = frozenset(
    {
        *("ImageId", "InstanceType", "SubnetId", "SecurityGroupIds", "NetworkInterfaces", "IamInstanceProfile"),
        *("UserData", "KeyName", "BlockDeviceMappings", "TagSpecifications", "MetadataOptions", "Placement"),
        *("InstanceMarketOptions", "CapacityReservationSpecification", "Monitoring", "EbsOptimized", "EnclaveOptions"),
        *("CpuOptions", "CreditSpecification", "MaintenanceOptions", "PrivateDnsNameOptions"),
        *("DisableApiTermination", "DisableApiStop", "InstanceInitiatedShutdownBehavior"),
    }
)
_KNOWN_INTERFACE = frozenset(
    {
        *("DeviceIndex", "NetworkCardIndex", "InterfaceType", "SubnetId", "Groups", "AssociatePublicIpAddress"),
        *("DeleteOnTermination", "Description", "Ipv4PrefixCount", "SecondaryPrivateIpAddressCount"),
        "ConnectionTrackingSpecification",
    }
)
_KNOWN_PLACEMENT = frozenset({"Tenancy", "AvailabilityZone"})


@dataclass(frozen=True)
class WantedInterface:
    """A network interface to be: where, and with which groups."""

    device_index: int
    card_index: int
    kind: str
    subnet: Subnet
    groups: tuple[SecurityGroup, ...]

    @property
    def has_address(self) -> bool:
        """Whether it takes an address of its subnet; an ``efa-only`` interface has none."""
        return self.kind != "efa-only"


@dataclass(frozen=True)
class WantedVolume:
    """A volume to be: GiB, and the snapshot if the request names one."""

    device: str
    size: int
    kind: str
    snapshot: str | None


@dataclass(frozen=True)
class Launch:
    """A launch whose every part exists; nothing is bought yet."""

    instance_type: str
    capacity_type: CapacityType
    image: Image
    subnet: Subnet
    interfaces: tuple[WantedInterface, ...]
    volumes: tuple[WantedVolume, ...]
    profile: InstanceProfile | None
    price: float
    tags: Mapping[str, Mapping[str, str]]
    spec: Mapping[str, Any]
    template: tuple[LaunchTemplate, int] | None


def merge(template: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """A request over a launch template: its parameters win, interfaces and tags are joined by index and by type."""
    spec = {**template, **request}
    interfaces: dict[tuple[int, int], dict[str, Any]] = {}
    for part in (template, request):
        for interface in items(part, "NetworkInterfaces"):
            index = (interface.get("NetworkCardIndex") or 0, interface.get("DeviceIndex") or 0)
            interfaces[index] = {**interfaces.get(index, {}), **interface}
    spec["NetworkInterfaces"] = [interfaces[index] for index in sorted(interfaces)]
    specifications = [*items(template, "TagSpecifications"), *items(request, "TagSpecifications")]
    spec["TagSpecifications"] = specifications
    return spec


class Launcher:
    """Resolves, authorises and carries out launches over a state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def resolve(
        self,
        operation: str,
        spec: Mapping[str, Any],
        template: tuple[LaunchTemplate, int] | None,
        fleet: str | None = None,
    ) -> Launch:
        """Find everything that a launch names.

        Args:
            operation: for messages.
            spec: launch parameters, template and request merged.
            template: where the template's part came from.
            fleet: capacity type that a fleet decides; else the market options do.

        Raises:
            Ec2Error: a part is missing, does not exist or does not go with another.
        """
        _refuse_unknown(operation, spec)
        check_user_data(spec)
        image = self._image(spec.get("ImageId"))
        capacity = _capacity_type(operation, spec, fleet)
        interfaces = self._interfaces(operation, spec)
        subnet = interfaces[0].subnet
        instance_type = spec.get("InstanceType") or ""
        price = self._price(instance_type, subnet.zone, capacity)
        architectures = self._state.catalogue.architectures(instance_type)
        if image.architecture not in architectures:
            raise Ec2Error(
                "InvalidParameterValue",
                f"The architecture '{','.join(architectures)}' of the specified instance type does not match the "
                f"architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI that "
                "have matching architectures, and try again.",
            )
        return Launch(
            instance_type=instance_type,
            capacity_type=capacity,
            image=image,
            subnet=subnet,
            interfaces=interfaces,
            volumes=_volumes(spec, image),
            profile=self._profile(spec.get("IamInstanceProfile")),
            price=price,
            tags={kind: tags_for(spec, kind) for kind in CREATED},
            spec=spec,
            template=template,
        )

    def authorise(self, launch: Launch) -> None:
        """Ask for each resource of a launch.

        Raises:
            UnauthorizedError: for the first that the caller may not use or create.
        """
        gate, action = self._state.gate, "ec2:RunInstances"
        zone, subnet = launch.subnet.zone, launch.subnet
        metadata = section(launch.spec, "MetadataOptions")
        used = None
        if launch.template:
            template, _ = launch.template
            used = gate.arn("launch-template", template.id)
            gate.ask(action, used, held=template.tags, LaunchTemplate=used)
        gate.ask(
            action,
            gate.arn("image", launch.image.id),
            held=launch.image.tags,
            ImageID=launch.image.id,
            Owner="amazon",
            Public="true",
            LaunchTemplate=used,
        )
        for interface in launch.interfaces:
            gate.ask(
                action,
                gate.arn("subnet", interface.subnet.id),
                held=interface.subnet.tags,
                SubnetID=interface.subnet.id,
                AvailabilityZone=zone,
                Vpc=gate.arn("vpc", subnet.vpc_id),
                LaunchTemplate=used,
            )
            for group in interface.groups:
                gate.ask(
                    action,
                    gate.arn("security-group", group.id),
                    held=group.tags,
                    SecurityGroupID=group.id,
                    Vpc=gate.arn("vpc", group.vpc_id),
                    LaunchTemplate=used,
                )
        gate.ask(
            action,
            gate.arn("instance"),
            requested=launch.tags["instance"],
            InstanceType=launch.instance_type,
            AvailabilityZone=zone,
            InstanceProfile=launch.profile.arn if launch.profile else None,
            InstanceMarketType=launch.capacity_type,
            Tenancy="default",
            RootDeviceType="ebs",
            MetadataHttpTokens=metadata.get("HttpTokens"),
            MetadataHttpEndpoint=metadata.get("HttpEndpoint"),
            LaunchTemplate=used,
        )
        for volume in launch.volumes:
            gate.ask(
                action,
                gate.arn("volume"),
                requested=launch.tags["volume"],
                AvailabilityZone=zone,
                VolumeSize=str(volume.size),
                VolumeType=volume.kind,
                LaunchTemplate=used,
            )
            if volume.snapshot is not None:
                gate.ask(action, gate.arn("snapshot", volume.snapshot), SnapshotID=volume.snapshot, LaunchTemplate=used)
        gate.ask(
            action,
            gate.arn("network-interface"),
            requested=launch.tags["network-interface"],
            AvailabilityZone=zone,
            Subnet=gate.arn("subnet", subnet.id),
            Vpc=gate.arn("vpc", subnet.vpc_id),
            LaunchTemplate=used,
        )
        if key := launch.spec.get("KeyName"):
            gate.ask(action, gate.arn("key-pair", key), KeyPairName=key, LaunchTemplate=used)
        created = CREATED if launch.capacity_type == "spot" else CREATED[:-1]
        if launch.capacity_type == "spot":
            gate.ask(
                action,
                gate.arn("spot-instances-request"),
                requested=launch.tags["spot-instances-request"],
                LaunchTemplate=used,
            )
            gate.need_spot_role()
        for kind in created:
            gate.create_tags(kind, launch.tags[kind], "RunInstances")
        if launch.profile and launch.profile.role_arn:
            gate.pass_role(launch.profile.role_arn)

    def carry_out(
        self, launch: Launch, count: int, *, at_least: int = 1, fleet_id: str | None = None
    ) -> list[Instance]:
        """Buy up to ``count`` instances, all pending; as many as there are addresses for.

        Raises:
            Ec2Error: no capacity, or fewer than ``at_least`` fit.
        """
        state = self._state
        if not state.catalogue.has_capacity(launch.instance_type, launch.subnet.zone, launch.capacity_type):
            raise Ec2Error("InsufficientInstanceCapacity", self._no_capacity(launch), 500)
        wanted = Counter(interface.subnet for interface in launch.interfaces if interface.has_address)
        free = {subnet.id: state.free_addresses(subnet, count * each) for subnet, each in wanted.items()}
        fitting = min(len(free[subnet.id]) // each for subnet, each in wanted.items())
        if fitting < at_least:
            raise Ec2Error(
                "InsufficientFreeAddressesInSubnet",
                f"There are not enough free addresses in subnet '{launch.subnet.id}' to satisfy the requested number "
                "of instances.",
            )
        reservation = new_id("r")
        return [self._instance(launch, reservation, fleet_id, free) for _ in range(fitting)]

    def _instance(
        self, launch: Launch, reservation: str, fleet_id: str | None, free: Mapping[str, list[str]]
    ) -> Instance:
        state = self._state
        interfaces = tuple(
            Interface(
                id=new_id("eni"),
                device_index=wanted.device_index,
                card_index=wanted.card_index,
                kind=wanted.kind,
                subnet=wanted.subnet,
                groups=wanted.groups,
                address=free[wanted.subnet.id].pop(0) if wanted.has_address else None,
            )
            for wanted in launch.interfaces
        )
        volumes = tuple(Volume(new_id("vol"), wanted.device, wanted.size, wanted.kind) for wanted in launch.volumes)
        tags = dict(launch.tags["instance"])
        template = None
        # EC2 itself adds these ("Tag your Amazon EC2 resources", EC2 user guide).
        if fleet_id:
            tags["aws:ec2:fleet-id"] = fleet_id
        if launch.template:
            used, version = launch.template
            template = (used.id, used.name, version)
            tags |= {"aws:ec2launchtemplate:id": used.id, "aws:ec2launchtemplate:version": str(version)}
        instance = Instance(
            id=new_id("i"),
            instance_type=launch.instance_type,
            capacity_type=launch.capacity_type,
            state="pending",
            image=launch.image,
            subnet=launch.subnet,
            interfaces=interfaces,
            volumes=volumes,
            profile=launch.profile,
            user_data=launch.spec.get("UserData"),
            tags=tags,
            price_per_hour=launch.price,
            launched_at=state.clock(),
            reservation_id=reservation,
            template=template,
            fleet_id=fleet_id,
            spot_request_id=new_id("sir") if launch.capacity_type == "spot" else None,
            metadata_options=section(launch.spec, "MetadataOptions"),
            key_name=launch.spec.get("KeyName"),
        )
        state.instances[instance.id] = instance
        state.tags[instance.id] = instance.tags
        for volume in volumes:
            state.tags[volume.id] = dict(launch.tags["volume"])
        for interface in interfaces:
            state.tags[interface.id] = dict(launch.tags["network-interface"])
        if instance.spot_request_id:
            state.tags[instance.spot_request_id] = dict(launch.tags["spot-instances-request"])
        return instance

    def _image(self, image_id: str | None) -> Image:
        if not image_id:
            raise Ec2Error("MissingParameter", "The request must contain the parameter ImageId")
        if image_id.startswith("resolve:ssm:"):
            raise NotSimulatedError("RunInstances", "an ImageId that an SSM parameter resolves")
        if not image_id.startswith("ami-"):
            raise Ec2Error("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
        if image_id not in self._state.images:
            raise Ec2Error("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        return self._state.images[image_id]

    def _price(self, instance_type: str, zone: str, capacity: CapacityType) -> float:
        catalogue = self._state.catalogue
        if instance_type not in catalogue.types:
            raise Ec2Error("InvalidParameterValue", f"Invalid value '{instance_type}' for InstanceType.")
        if zone not in catalogue.zones(instance_type):
            raise Ec2Error(
                "Unsupported",
                f"Your requested instance type ({instance_type}) is not supported in your requested Availability Zone "
                f"({zone}). Please retry your request by not specifying an Availability Zone or choosing "
                f"{', '.join(catalogue.zones(instance_type))}.",
            )
        if not catalogue.sells(instance_type, capacity):
            raise Ec2Error("Unsupported", f"The instance type {instance_type} is not sold as {capacity}.")
        price = catalogue.price(instance_type, zone, capacity)
        if price is None:
            raise Ec2Error(
                "Unsupported",
                f"The rehearsal has no {capacity} price for {instance_type} in {zone}, so it cannot be bought.",
            )
        return price

    def _no_capacity(self, launch: Launch) -> str:
        if launch.capacity_type == "spot":
            return "There is no Spot capacity available that matches your request."
        name, zone, catalogue = launch.instance_type, launch.subnet.zone, self._state.catalogue
        others = [
            other
            for other in catalogue.zones(name)
            if other != zone and catalogue.has_capacity(name, other, "on-demand")
        ]
        elsewhere = f" or choosing {', '.join(others)}" if others else ""
        return (
            f"We currently do not have sufficient {name} capacity in the Availability Zone you requested ({zone}). Our "
            f"system will be working on provisioning additional capacity. You can currently get {name} capacity by not "
            f"specifying an Availability Zone in your request{elsewhere}."
        )

    def _profile(self, wanted: Mapping[str, str] | None) -> InstanceProfile | None:
        if not wanted:
            return None
        name = wanted.get("Arn") or wanted.get("Name") or ""
        profile = self._state.gate.identity.instance_profile(name)
        if profile is None:
            member = "arn" if wanted.get("Arn") else "name"
            raise Ec2Error(
                "InvalidParameterValue",
                f"Value ({name}) for parameter iamInstanceProfile.{member} is invalid. "
                f"Invalid IAM Instance Profile {'ARN' if member == 'arn' else 'name'}",
            )
        if profile.role_arn is None:
            raise Ec2Error("InvalidParameterValue", f'IAM Instance Profile "{profile.arn}" has no associated IAM Roles')
        return profile

    def _interfaces(self, operation: str, spec: Mapping[str, Any]) -> tuple[WantedInterface, ...]:
        # Where the request names a subnet or groups of its own, they are the first interface's.
        wanted: list[Mapping[str, Any]] = spec.get("NetworkInterfaces") or [{}]
        found: list[WantedInterface] = []
        for interface in wanted:
            for name in interface:
                if name not in _KNOWN_INTERFACE:
                    raise NotSimulatedError(operation, f"NetworkInterfaces[].{name}")
            subnet_id = spec.get("SubnetId") or interface.get("SubnetId")
            if not subnet_id:
                raise NotSimulatedError(operation, "a launch without a subnet (there is no default VPC)")
            subnet = self._state.network.subnet(subnet_id)
            if subnet is None:
                raise Ec2Error("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")
            found.append(
                WantedInterface(
                    device_index=interface.get("DeviceIndex") or 0,
                    card_index=interface.get("NetworkCardIndex") or 0,
                    kind=interface.get("InterfaceType") or "interface",
                    subnet=subnet,
                    groups=self._groups(interface.get("Groups") or items(spec, "SecurityGroupIds"), subnet),
                )
            )
        if not found[0].has_address:
            raise Ec2Error("InvalidParameterValue", "The primary network interface cannot be of type efa-only.")
        return tuple(found)

    def _groups(self, ids: Sequence[str], subnet: Subnet) -> tuple[SecurityGroup, ...]:
        if not ids and subnet.default_security_group:
            ids = [subnet.default_security_group]
        groups = {group.id: group for group in self._state.network.security_groups(ids)}
        for group_id in ids:
            if group_id not in groups:
                raise Ec2Error("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
            if groups[group_id].vpc_id != subnet.vpc_id:
                raise Ec2Error(
                    "InvalidParameter",
                    f"Security group {group_id} and subnet {subnet.id} belong to different networks.",
                )
        return tuple(groups[group_id] for group_id in ids)


def _refuse_unknown(operation: str, spec: Mapping[str, Any]) -> None:
    for name in spec:
        if name not in _KNOWN:
            raise NotSimulatedError(operation, f"the launch parameter {name}")
    placement = section(spec, "Placement")
    for name in placement:
        if name not in _KNOWN_PLACEMENT:
            raise NotSimulatedError(operation, f"Placement.{name}")
    if placement.get("Tenancy") not in (None, "default"):
        raise NotSimulatedError(operation, f"the tenancy {placement['Tenancy']}")
    reservation = section(spec, "CapacityReservationSpecification")
    if reservation.get("CapacityReservationTarget") or reservation.get("CapacityReservationPreference") not in (
        None,
        "none",
        "open",
    ):
        raise NotSimulatedError(operation, "a capacity reservation")


def _capacity_type(operation: str, spec: Mapping[str, Any], fleet: str | None) -> CapacityType:
    market = section(spec, "InstanceMarketOptions").get("MarketType")
    if market not in (None, "spot"):
        raise NotSimulatedError(operation, f"the market type {market}")
    if (fleet or market) == "spot":
        return "spot"
    return "on-demand"


def _volumes(spec: Mapping[str, Any], image: Image) -> tuple[WantedVolume, ...]:
    volumes = {ROOT_DEVICE: WantedVolume(ROOT_DEVICE, image.root_gib, "gp3", None)}
    for mapping in items(spec, "BlockDeviceMappings"):
        device, ebs = mapping.get("DeviceName") or "", mapping.get("Ebs")
        if ebs is None:
            continue
        size = ebs.get("VolumeSize") or (image.root_gib if device == ROOT_DEVICE else None)
        if size is None:
            raise Ec2Error("MissingParameter", f"The request must contain the size of the volume {device}")
        if device == ROOT_DEVICE and size < image.root_gib:
            raise Ec2Error(
                "InvalidBlockDeviceMapping",
                f"Volume of size {size}GB is smaller than snapshot '{image.snapshot_id}', expect size>= "
                f"{image.root_gib}GB",
            )
        volumes[device] = WantedVolume(device, size, ebs.get("VolumeType") or "gp3", ebs.get("SnapshotId"))
    return tuple(volumes.values())
