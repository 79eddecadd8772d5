# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""EC2: what is bought comes from our service, VPC objects stay MiniStack's, each sees what it needs of the other."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ministack.core.responses import get_account_id, get_region, request_scope
from ministack.services import ec2, eventbridge, iam, ssm

from rehearsal.aws.emulator import authorisation
from rehearsal.aws.emulator import iam as service_roles
from rehearsal.aws.events import EventLog
from rehearsal.compute.ec2 import (
    CONTENT_TYPE,
    Context,
    Denial,
    Ec2Service,
    InstanceProfile,
    SecurityGroup,
    Subnet,
)

Params = Mapping[str, list[str]]

_SHARED = {"DescribeTags": "tagSet", "DescribeVolumes": "volumeSet"}
"""Listings of kinds that both of us hold, and the element that lists them."""


class MiniStackNetwork:
    """MiniStack's subnets and security groups, as the EC2 service asks for them."""

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet of that id, or None."""
        record: dict[str, Any] | None = ec2._subnets.get(subnet_id)
        if record is None:
            return None
        default = [
            group["GroupId"]
            for group in ec2._security_groups.values()
            if group["VpcId"] == record["VpcId"] and group["GroupName"] == "default"
        ]
        return Subnet(
            id=subnet_id,
            vpc_id=record["VpcId"],
            zone=record["AvailabilityZone"],
            zone_id=record["AvailabilityZoneId"],
            cidr=record["CidrBlock"],
            available_ip_count=_addresses(record),
            tags=_tags(subnet_id),
            default_security_group=default[0] if default else None,
        )

    def security_groups(self, ids: Sequence[str]) -> Sequence[SecurityGroup]:
        """Those of the asked groups that exist."""
        found = [ec2._security_groups[group] for group in ids if group in ec2._security_groups]
        return [
            SecurityGroup(
                id=group["GroupId"], name=group["GroupName"], vpc_id=group["VpcId"], tags=_tags(group["GroupId"])
            )
            for group in found
        ]


class MiniStackIdentity:
    """MiniStack's instance profiles and its evaluator, for the caller of the request that is being served."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def instance_profile(self, name_or_arn: str) -> InstanceProfile | None:
        """The instance profile of that name or ARN, or None."""
        record: dict[str, Any] | None = iam._instance_profiles.get(name_or_arn.rpartition("/")[2])
        if record is None:
            return None
        roles: list[str] = [iam._roles[name]["Arn"] for name in record["Roles"] if name in iam._roles]
        return InstanceProfile(
            name=record["InstanceProfileName"],
            arn=record["Arn"],
            role_arn=roles[0] if roles else None,
            id=record["InstanceProfileId"],
        )

    def service_linked_role(self, service: str) -> bool:
        """Whether the account has a service's linked role, or the caller may have it made."""
        return service_roles.ensure_service_linked_role(service)

    def authorise(self, action: str, resource: str, context: Context) -> Denial | None:
        """Whether the caller may; a no is written to the run's events."""
        denial = authorisation.authorise(action, resource, context)
        if denial is not None:
            authorisation.report_denial(self._log, denial.principal_arn, action, resource, explicit=denial.explicit)
        return denial


def install(make: Callable[..., Ec2Service], log: EventLog, account: str, region: str, version: str) -> None:
    """Put our service in the place of MiniStack's actions.

    Args:
        make: builds the service of one account and region from the keyword arguments ``account_id``, ``region``,
            ``network``, ``identity`` and ``on_event``.
        log: the run's events.
        account: whose service is made at once.
        region: likewise; its public image parameters are what SSM serves.
        version: Kubernetes minor version of those images.
    """
    services = Services(make, log)
    first = services.get(account, region)
    actions: dict[str, Any] = ec2._ACTION_MAP
    for operation in first.operations:
        actions[operation] = services.action(operation)
    ssm._PUBLIC_AMI_PARAMETERS.update(first.ssm_parameters([version]))
    fields = ec2._subnet_fields_xml

    def with_free_addresses(subnet: dict[str, Any], tag: str = "item") -> str:
        # MiniStack says 251 of every subnet. Karpenter takes the subnet with the most.
        taken = services.get(get_account_id(), get_region()).addresses_in_use(subnet["SubnetId"])
        return fields({**subnet, "AvailableIpAddressCount": _addresses(subnet) - taken}, tag)

    ec2._subnet_fields_xml = with_free_addresses
    matches = ec2._resource_matches_tag_filters

    def matches_group_id(resource_id: str, filters: dict[str, list[str]]) -> bool:
        # MiniStack does not know the filter group-id, with which Karpenter selects security groups by id.
        if resource_id.startswith("sg-") and resource_id not in filters.get("group-id", [resource_id]):
            return False
        return matches(resource_id, filters)

    ec2._resource_matches_tag_filters = matches_group_id


class Services:
    """The EC2 services of the run, one for each account and region that was asked for."""

    def __init__(self, make: Callable[..., Ec2Service], log: EventLog) -> None:
        self._make = make
        self._log = log
        self._services: dict[tuple[str, str], Ec2Service] = {}

    def get(self, account: str, region: str) -> Ec2Service:
        """The service of one account and region, made when it is first asked for."""
        if (account, region) not in self._services:
            self._services[account, region] = self._make(
                account_id=account,
                region=region,
                network=MiniStackNetwork(),
                identity=MiniStackIdentity(self._log),
                on_event=lambda detail_type, detail: self._publish(account, region, detail_type, detail),
            )
        return self._services[account, region]

    def action(self, operation: str) -> Callable[[dict[str, list[str]]], tuple[int, dict[str, str], bytes]]:
        """The handler of one operation, in MiniStack's form."""
        theirs = ec2._ACTION_MAP.get(operation)

        def handle(params: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
            service = self.get(get_account_id(), get_region())
            named = _ids(params)
            if theirs is not None and named and not any(map(service.owns, named)):
                return theirs(params)
            status, body = service.handle(operation, params)
            if theirs is not None and operation in _SHARED and not named and status == 200:
                body = _merged(_SHARED[operation], body, theirs(params)[2])
            return status, {"Content-Type": CONTENT_TYPE}, body

        return handle

    def _publish(self, account: str, region: str, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Publish on the account's default event bus, as EC2 does."""
        self._log.write("ec2-event", f"{detail_type}: {json.dumps(detail)}", **detail)
        with request_scope(account, region):
            entry = {
                "Source": "aws.ec2",
                "DetailType": detail_type,
                "Detail": json.dumps(detail),
                "Resources": [f"arn:aws:ec2:{region}:{account}:instance/{detail.get('instance-id', '')}"],
            }
            eventbridge._put_events({"Entries": [entry]}, allow_aws_source=True)


def _addresses(subnet: dict[str, Any]) -> int:
    """Addresses of a subnet: AWS keeps five of each (Amazon VPC user guide, "Subnet CIDR blocks")."""
    return ipaddress.ip_network(subnet["CidrBlock"]).num_addresses - 5


def _ids(params: Params) -> list[str]:
    """Ids of the resources that a request names, of those kinds that both of us hold."""
    return [values[0] for name, values in params.items() if name.startswith(("ResourceId.", "VolumeId."))]


def _merged(element: str, ours: bytes, theirs: bytes) -> bytes:
    """Our answer with the items of theirs added to its list."""
    items = re.search(f"<{element}>(.*)</{element}>".encode(), theirs, re.DOTALL)
    if items is None:
        return ours
    head, closing, tail = ours.partition(f"</{element}>".encode())
    if closing:
        return head + items[1] + closing + tail
    return ours.replace(f"<{element}/>".encode(), f"<{element}>".encode() + items[1] + f"</{element}>".encode(), 1)


def _tags(resource_id: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in ec2._tags.get(resource_id, [])}
