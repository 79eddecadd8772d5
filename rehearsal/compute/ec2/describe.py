"""The Describe operations over types, offerings, prices, images and instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from rehearsal.compute.ec2.errors import Ec2Error, NotSimulatedError
from rehearsal.compute.ec2.images import OWNER_ID
from rehearsal.compute.ec2.protocol import TAG_READERS, Reader, items, only, page, select, tag_list
from rehearsal.compute.ec2.state import KINDS, STATE_CODES, Instance, Interface, State, Volume

_LISTING = ("DryRun", "Filters", "MaxResults", "NextToken")


def _member(*path: str) -> Reader:
    """Reads a member of an instance type as a filter's values."""

    def read(item: Any) -> Sequence[str]:
        value: Any = item
        for name in path:
            value = value.get(name) if value else None
        if value is None:
            return []
        values = cast("list[Any]", value if isinstance(value, list) else [value])
        return [str(one).lower() if isinstance(one, bool) else str(one) for one in values]

    return read


_TYPE_READERS: Mapping[str, Reader] = {
    "instance-type": _member("InstanceType"),
    "supported-virtualization-type": _member("SupportedVirtualizationTypes"),
    "processor-info.supported-architecture": _member("ProcessorInfo", "SupportedArchitectures"),
    "supported-usage-class": _member("SupportedUsageClasses"),
    "supported-root-device-type": _member("SupportedRootDeviceTypes"),
    "bare-metal": _member("BareMetal"),
    "current-generation": _member("CurrentGeneration"),
    "hypervisor": _member("Hypervisor"),
    "instance-storage-supported": _member("InstanceStorageSupported"),
    "burstable-performance-supported": _member("BurstablePerformanceSupported"),
    "memory-info.size-in-mib": _member("MemoryInfo", "SizeInMiB"),
    "vcpu-info.default-vcpus": _member("VCpuInfo", "DefaultVCpus"),
    "network-info.efa-supported": _member("NetworkInfo", "EfaSupported"),
}
_OFFERING_READERS: Mapping[str, Reader] = {
    "instance-type": _member("InstanceType"),
    "location": _member("Location"),
}
_PRICE_READERS: Mapping[str, Reader] = {
    "instance-type": _member("InstanceType"),
    "availability-zone": _member("AvailabilityZone"),
    "product-description": _member("ProductDescription"),
}
_IMAGE_READERS: Mapping[str, Reader] = {
    **TAG_READERS,
    "image-id": lambda image: [image.id],
    "name": lambda image: [image.name],
    "architecture": lambda image: [image.architecture],
    "state": lambda _: ["available"],
    "owner-id": lambda _: [OWNER_ID],
    "owner-alias": lambda _: ["amazon"],
    "is-public": lambda _: ["true"],
    "image-type": lambda _: ["machine"],
    "root-device-type": lambda _: ["ebs"],
    "virtualization-type": lambda _: ["hvm"],
}
_INSTANCE_READERS: Mapping[str, Reader] = {
    **TAG_READERS,
    "instance-id": lambda instance: [instance.id],
    "instance-state-name": lambda instance: [instance.state],
    "instance-state-code": lambda instance: [str(STATE_CODES[instance.state])],
    "instance-type": lambda instance: [instance.instance_type],
    "instance-lifecycle": lambda instance: ["spot"] if instance.capacity_type == "spot" else [],
    "spot-instance-request-id": lambda instance: [instance.spot_request_id] if instance.spot_request_id else [],
    "image-id": lambda instance: [instance.image.id],
    "architecture": lambda instance: [instance.image.architecture],
    "availability-zone": lambda instance: [instance.subnet.zone],
    "subnet-id": lambda instance: [instance.subnet.id],
    "vpc-id": lambda instance: [instance.subnet.vpc_id],
    "private-ip-address": lambda instance: [instance.private_ip],
    "private-dns-name": lambda instance: [instance.private_dns_name],
    "reservation-id": lambda instance: [instance.reservation_id],
    "iam-instance-profile.arn": lambda instance: [instance.profile.arn] if instance.profile else [],
    "instance.group-id": lambda instance: [group.id for group in _groups(instance)],
}
_STATUS_READERS: Mapping[str, Reader] = {
    "availability-zone": lambda instance: [instance.subnet.zone],
    "instance-state-name": lambda instance: [instance.state],
    "instance-state-code": lambda instance: [str(STATE_CODES[instance.state])],
    "instance-status.status": lambda instance: [_health(instance)],
    "system-status.status": lambda instance: [_health(instance)],
    "event.code": lambda _: [],
}
_VOLUME_READERS: Mapping[str, Reader] = {
    "volume-id": _member("VolumeId"),
    "status": _member("State"),
    "volume-type": _member("VolumeType"),
    "availability-zone": _member("AvailabilityZone"),
    "attachment.instance-id": lambda volume: [volume["Attachments"][0]["InstanceId"]],
}
_TAG_ROW_READERS: Mapping[str, Reader] = {
    "resource-id": _member("ResourceId"),
    "resource-type": _member("ResourceType"),
    "key": _member("Key"),
    "value": _member("Value"),
}


class Describe:
    """The read-only operations over a state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._started_at = state.clock()

    def operations(self) -> dict[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]]:
        """Name of each operation to what answers it."""
        return {
            "DescribeInstanceTypes": self._types,
            "DescribeInstanceTypeOfferings": self._offerings,
            "DescribeSpotPriceHistory": self._spot_prices,
            "DescribeImages": self._images,
            "DescribeInstances": self._instances,
            "DescribeInstanceStatus": self._statuses,
            "DescribeInstanceAttribute": self._attribute,
            "DescribeTags": self._tags,
            "DescribeVolumes": self._volumes,
        }

    def _types(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeInstanceTypes"
        only(operation, request, *_LISTING, "InstanceTypes")
        types = self._state.catalogue.types
        wanted: list[str] = request.get("InstanceTypes") or list(types)
        unknown = [name for name in wanted if name not in types]
        if unknown:
            raise Ec2Error(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            )
        filters = items(request, "Filters")
        found = select(operation, [types[name] for name in wanted], filters, _TYPE_READERS)
        shown, token = page(request, found, 100)
        return {"InstanceTypes": shown, "NextToken": token}

    def _offerings(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeInstanceTypeOfferings"
        only(operation, request, *_LISTING, "LocationType")
        location = request.get("LocationType") or "region"
        if location not in ("region", "availability-zone", "availability-zone-id"):
            raise NotSimulatedError(operation, f"the location type {location}")
        filters = items(request, "Filters")
        rows = self._state.catalogue.offerings(location)
        shown, token = page(request, select(operation, rows, filters, _OFFERING_READERS))
        return {
            "InstanceTypeOfferings": [{**row, "LocationType": location} for row in shown],
            "NextToken": token,
        }

    def _spot_prices(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        # Prices never change here, so that the history of each pool is its current price, whatever the times asked for.
        operation = "DescribeSpotPriceHistory"
        only(
            operation,
            request,
            *(*_LISTING, "StartTime", "EndTime", "InstanceTypes", "ProductDescriptions", "AvailabilityZone"),
        )
        products = request.get("ProductDescriptions") or ["Linux/UNIX"]
        if not any(product.startswith("Linux/UNIX") for product in products):
            return {"SpotPriceHistory": []}
        catalogue = self._state.catalogue
        rows: list[dict[str, Any]] = []
        for name in request.get("InstanceTypes") or catalogue.types:
            for zone in catalogue.zones(name):
                price = catalogue.spot_price(name, zone)
                if price is None or request.get("AvailabilityZone") not in (None, zone):
                    continue
                rows.append(
                    {
                        "InstanceType": name,
                        "AvailabilityZone": zone,
                        "ProductDescription": "Linux/UNIX",
                        "SpotPrice": f"{price:.6f}",
                        "Timestamp": self._started_at,
                    }
                )
        filters = items(request, "Filters")
        shown, token = page(request, select(operation, rows, filters, _PRICE_READERS))
        return {"SpotPriceHistory": shown, "NextToken": token}

    def _images(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeImages"
        only(operation, request, *_LISTING, "ImageIds", "Owners", "IncludeDeprecated", "IncludeDisabled")
        images = self._state.images
        wanted: list[str] = request.get("ImageIds") or list(images)
        missing = [image_id for image_id in wanted if image_id not in images]
        if missing:
            raise Ec2Error("InvalidAMIID.NotFound", f"The image id '[{', '.join(missing)}]' does not exist")
        owners: list[str] = request.get("Owners") or ["amazon"]
        filters = items(request, "Filters")
        owned = [images[image_id] for image_id in wanted if {"amazon", OWNER_ID} & set(owners)]
        found = select(operation, owned, filters, _IMAGE_READERS)
        shown, token = page(request, found)
        return {"Images": [image.describe() for image in shown], "NextToken": token}

    def _instances(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeInstances"
        only(operation, request, *_LISTING, "InstanceIds")
        shown, token = page(request, self._found(operation, request, _INSTANCE_READERS))
        reservations: dict[str, list[Instance]] = {}
        for instance in shown:
            reservations.setdefault(instance.reservation_id, []).append(instance)
        return {
            "Reservations": [
                {
                    "ReservationId": reservation,
                    "OwnerId": self._state.account_id,
                    "Instances": [self.instance(instance) for instance in instances],
                }
                for reservation, instances in reservations.items()
            ],
            "NextToken": token,
        }

    def _statuses(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeInstanceStatus"
        only(operation, request, *_LISTING, "InstanceIds", "IncludeAllInstances")
        found = self._found(operation, request, _STATUS_READERS)
        if not request.get("IncludeAllInstances"):
            found = [instance for instance in found if instance.state == "running"]
        shown, token = page(request, found)
        return {
            "InstanceStatuses": [
                {
                    "InstanceId": instance.id,
                    "AvailabilityZone": instance.subnet.zone,
                    "AvailabilityZoneId": instance.subnet.zone_id,
                    "InstanceState": _state(instance),
                    "InstanceStatus": _status(instance),
                    "SystemStatus": _status(instance),
                }
                for instance in shown
            ],
            "NextToken": token,
        }

    def _attribute(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeInstanceAttribute"
        only(operation, request, "DryRun", "InstanceId", "Attribute")
        instance = self._state.find_instances([request.get("InstanceId") or ""])[0]
        gate = self._state.gate
        gate.ask(f"ec2:{operation}", gate.arn("instance", instance.id), held=instance.tags)
        if request.get("Attribute") == "userData":
            return {"InstanceId": instance.id, "UserData": {"Value": instance.user_data}}
        if request.get("Attribute") == "instanceType":
            return {"InstanceId": instance.id, "InstanceType": {"Value": instance.instance_type}}
        raise NotSimulatedError(operation, f"the attribute {request.get('Attribute')}")

    def _tags(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        only("DescribeTags", request, *_LISTING)
        rows = [
            {"ResourceId": resource, "ResourceType": KINDS[resource.split("-")[0]], "Key": key, "Value": value}
            for resource, tags in self._state.tags.items()
            for key, value in tags.items()
        ]
        filters = items(request, "Filters")
        shown, token = page(request, select("DescribeTags", rows, filters, _TAG_ROW_READERS))
        return {"Tags": shown, "NextToken": token}

    def _volumes(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        operation = "DescribeVolumes"
        only(operation, request, *_LISTING, "VolumeIds")
        volumes = [
            _volume(instance, volume, self._state.tags.get(volume.id, {}))
            for instance in self._state.instances.values()
            if instance.state != "terminated"
            for volume in instance.volumes
        ]
        wanted: list[str] = request.get("VolumeIds") or []
        unknown = sorted(set(wanted) - {volume["VolumeId"] for volume in volumes})
        if unknown:
            raise Ec2Error("InvalidVolume.NotFound", f"The volume '{unknown[0]}' does not exist.")
        chosen = [volume for volume in volumes if not wanted or volume["VolumeId"] in wanted]
        shown, token = page(request, select(operation, chosen, items(request, "Filters"), _VOLUME_READERS))
        return {"Volumes": shown, "NextToken": token}

    def _found(self, operation: str, request: Mapping[str, Any], readers: Mapping[str, Reader]) -> list[Instance]:
        ids = request.get("InstanceIds")
        candidates = self._state.find_instances(ids) if ids else list(self._state.instances.values())
        filters = items(request, "Filters")
        return select(operation, candidates, filters, readers)

    @staticmethod
    def instance(instance: Instance) -> dict[str, Any]:
        """An instance as RunInstances and DescribeInstances answer it."""
        answer: dict[str, Any] = {
            "InstanceId": instance.id,
            "ImageId": instance.image.id,
            "InstanceType": instance.instance_type,
            "Architecture": instance.image.architecture,
            "State": _state(instance),
            "LaunchTime": instance.launched_at,
            "AmiLaunchIndex": 0,
            "KeyName": instance.key_name,
            "Monitoring": {"State": "disabled"},
            "Placement": {
                "AvailabilityZone": instance.subnet.zone,
                "AvailabilityZoneId": instance.subnet.zone_id,
                "Tenancy": "default",
                "GroupName": "",
            },
            "InstanceLifecycle": "spot" if instance.capacity_type == "spot" else None,
            "SpotInstanceRequestId": instance.spot_request_id,
            "CapacityReservationSpecification": {"CapacityReservationPreference": "open"},
            "Tags": tag_list(instance.tags),
            "Hypervisor": "xen",
            "VirtualizationType": "hvm",
            "EnaSupport": True,
            "EbsOptimized": False,
            "RootDeviceType": "ebs",
            "RootDeviceName": "/dev/xvda",
            "PlatformDetails": "Linux/UNIX",
            "UsageOperation": "RunInstances",
            "UsageOperationUpdateTime": instance.launched_at,
            "BootMode": "uefi-preferred",
            "MetadataOptions": {"State": "applied", "HttpEndpoint": "enabled", **instance.metadata_options},
        }
        if instance.profile:
            answer["IamInstanceProfile"] = {"Arn": instance.profile.arn, "Id": instance.profile.id}
        if instance.reason:
            answer["StateReason"] = {"Code": instance.reason[0], "Message": instance.reason[1]}
            answer["StateTransitionReason"] = instance.reason[1]
        if instance.state == "terminated":  # EC2 forgets where it was
            return answer
        first = instance.interfaces[0]
        return answer | {
            "SubnetId": instance.subnet.id,
            "VpcId": instance.subnet.vpc_id,
            "PrivateIpAddress": instance.private_ip,
            "PrivateDnsName": instance.private_dns_name,
            "SourceDestCheck": True,
            "SecurityGroups": [{"GroupId": group.id, "GroupName": group.name} for group in first.groups],
            "NetworkInterfaces": [_interface(instance, interface) for interface in instance.interfaces],
            "BlockDeviceMappings": [
                {
                    "DeviceName": volume.device,
                    "Ebs": {
                        "VolumeId": volume.id,
                        "Status": "attached",
                        "DeleteOnTermination": True,
                        "AttachTime": instance.launched_at,
                    },
                }
                for volume in instance.volumes
            ],
        }


def _interface(instance: Instance, interface: Interface) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "NetworkInterfaceId": interface.id,
        "InterfaceType": interface.kind,
        "Status": "in-use",
        "SubnetId": interface.subnet.id,
        "VpcId": interface.subnet.vpc_id,
        "Groups": [{"GroupId": group.id, "GroupName": group.name} for group in interface.groups],
        "Attachment": {
            "AttachmentId": interface.id.replace("eni-", "eni-attach-"),
            "AttachTime": instance.launched_at,
            "DeleteOnTermination": True,
            "DeviceIndex": interface.device_index,
            "NetworkCardIndex": interface.card_index,
            "Status": "attached",
        },
    }
    if interface.address:
        answer["PrivateIpAddress"] = interface.address
        answer["PrivateIpAddresses"] = [{"Primary": True, "PrivateIpAddress": interface.address}]
    return answer


def _groups(instance: Instance) -> Sequence[Any]:
    return [group for interface in instance.interfaces for group in interface.groups]


def _state(instance: Instance) -> dict[str, Any]:
    return {"Name": instance.state, "Code": STATE_CODES[instance.state]}


def _health(instance: Instance) -> str:
    return {"running": "ok", "pending": "initializing"}.get(instance.state, "not-applicable")


def _status(instance: Instance) -> dict[str, Any]:
    return {"Status": _health(instance), "Details": [{"Name": "reachability", "Status": "passed"}]}


def _volume(instance: Instance, volume: Volume, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "VolumeId": volume.id,
        "Size": volume.size,
        "VolumeType": volume.kind,
        "State": "in-use",
        "AvailabilityZone": instance.subnet.zone,
        "CreateTime": instance.launched_at,
        "Tags": tag_list(tags),
        "Attachments": [
            {
                "VolumeId": volume.id,
                "InstanceId": instance.id,
                "Device": volume.device,
                "State": "attached",
                "AttachTime": instance.launched_at,
                "DeleteOnTermination": True,
            }
        ],
    }
