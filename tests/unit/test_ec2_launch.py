"""Launch templates, fleets, instances: what is bought, where, and what becomes of it."""

from __future__ import annotations

import base64
import threading
from datetime import timedelta
from typing import Any

import pytest

from rehearsal.compute.ec2 import SPOT_INTERRUPTION, STATE_CHANGE, CapacityType, Ec2Service
from tests.unit.test_ec2_protocol import PRICES, REGION, START, FakeIdentity, FakeNetwork, World, error_of, tag_list

TAGS = {"karpenter.sh/nodepool": "gpu", "eks:eks-cluster-name": "lab"}


def pool(instance_type: str, letter: str = "a", **more: Any) -> dict[str, Any]:
    """An override as Karpenter sends it."""
    return {
        "InstanceType": instance_type,
        "SubnetId": f"subnet-{letter}",
        "AvailabilityZone": f"{REGION}{letter}",
        **more,
    }


def world_with_template(**data: Any) -> World:
    world = World()
    world.template(tags=TAGS, **data)
    return world


def describe(world: World, **request: Any) -> list[dict[str, Any]]:
    return [
        instance
        for reservation in world.client.describe_instances(**request)["Reservations"]
        for instance in reservation["Instances"]
    ]


def test_a_launch_template_is_found_by_name_id_and_tag_until_it_is_deleted() -> None:
    world = World()
    name = {"LaunchTemplateNames": ["karpenter/1"]}
    code, message, status = error_of(lambda: world.client.describe_launch_templates(**name))
    assert (code, status) == ("InvalidLaunchTemplateName.NotFoundException", 400)
    assert message == "At least one of the launch templates specified in the request does not exist."
    template_id = world.template(tags=TAGS)
    world.template("karpenter/2")
    by_tag = {"Filters": [{"Name": "tag:eks:eks-cluster-name", "Values": ["lab"]}], "MaxResults": 200}
    for request in (name, {"LaunchTemplateIds": [template_id]}, by_tag):
        (found,) = world.client.describe_launch_templates(**request)["LaunchTemplates"]
        assert (found["LaunchTemplateId"], found["LatestVersionNumber"]) == (template_id, 1)
        assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == TAGS
    world.client.delete_launch_template(LaunchTemplateId=template_id)
    assert world.client.describe_launch_templates(**by_tag)["LaunchTemplates"] == []
    assert error_of(lambda: world.client.delete_launch_template(LaunchTemplateId=template_id))[0] == (
        "InvalidLaunchTemplateId.NotFound"
    )


def test_launch_templates_are_paged() -> None:
    world = World()
    names = [f"karpenter/{number}" for number in range(7)]
    for name in names:
        world.template(name)
    pages = world.client.get_paginator("describe_launch_templates").paginate(PaginationConfig={"PageSize": 3})
    assert [[item["LaunchTemplateName"] for item in page["LaunchTemplates"]] for page in pages] == [
        names[:3],
        names[3:6],
        names[6:],
    ]


def test_a_launch_template_refuses_a_taken_name_and_too_much_user_data() -> None:
    world = world_with_template()
    assert error_of(world.template)[0] == "InvalidLaunchTemplateName.AlreadyExistsException"
    big = base64.b64encode(b"x" * 16385).decode()
    code, message, _ = error_of(lambda: world.template("karpenter/2", UserData=big))
    assert (code, message) == ("InvalidUserData.Malformed", "User data is limited to 16384 bytes")
    assert error_of(lambda: world.template("karpenter/2", UserData="no base64!"))[0] == "InvalidUserData.Malformed"


def test_versions_of_a_launch_template() -> None:
    world = world_with_template()
    name = {"LaunchTemplateName": "karpenter/1"}
    data = {"InstanceType": "m5.large"}
    world.client.create_launch_template_version(**name, SourceVersion="1", LaunchTemplateData=data)
    newest, first = world.client.describe_launch_template_versions(**name)["LaunchTemplateVersions"]
    assert (newest["VersionNumber"], first["VersionNumber"], first["DefaultVersion"]) == (2, 1, True)
    assert newest["LaunchTemplateData"]["InstanceType"] == "m5.large"
    assert newest["LaunchTemplateData"]["UserData"] == first["LaunchTemplateData"]["UserData"]
    code, _, _ = error_of(lambda: world.client.describe_launch_template_versions(**name, Versions=["7"]))
    assert code == "InvalidLaunchTemplateId.VersionNotFound"


def test_a_fleet_answers_with_everything_that_karpenter_reads() -> None:
    world = world_with_template()
    image = world.image()
    answer = world.fleet(
        pool("g5.12xlarge", "b", ImageId=image, Priority=5.672),
        total=2,
        more={
            "SpotOptions": {"AllocationStrategy": "price-capacity-optimized"},
            "TagSpecifications": [
                {"ResourceType": kind, "Tags": tag_list(TAGS)} for kind in ("instance", "volume", "fleet")
            ],
        },
    )
    (bought,) = answer["Instances"]
    assert (answer["Errors"], bought["Lifecycle"], bought["InstanceType"]) == ([], "spot", "g5.12xlarge")
    assert bought["LaunchTemplateAndOverrides"]["Overrides"] == {
        "InstanceType": "g5.12xlarge",
        "SubnetId": "subnet-b",
        "AvailabilityZone": f"{REGION}b",
        "ImageId": image,
        "Priority": 5.672,
    }
    assert bought["LaunchTemplateAndOverrides"]["LaunchTemplateSpecification"]["Version"] == "1"
    instances = describe(world, InstanceIds=bought["InstanceIds"])
    assert len({instance["PrivateDnsName"] for instance in instances}) == 2
    instance = instances[0]
    assert instance["State"] == {"Name": "pending", "Code": 0}
    assert instance["Placement"]["AvailabilityZone"] == f"{REGION}b"
    assert instance["Placement"]["AvailabilityZoneId"] == "usw2-az2"
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")
    assert instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/lab")
    assert instance["SecurityGroups"] == [{"GroupId": "sg-1", "GroupName": "nodes"}]
    assert instance["PrivateDnsName"] == f"ip-10-0-2-254.{REGION}.compute.internal"
    assert instance["LaunchTime"] == START
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags.items() >= TAGS.items()
    assert tags["aws:ec2:fleet-id"] == answer["FleetId"]
    assert world.tags_of(instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]) == TAGS
    assert world.service.addresses_in_use("subnet-b") == 2


@pytest.mark.parametrize(
    ("capacity", "strategy", "chosen"),
    [
        ("on-demand", "lowest-price", "m5.large"),
        ("on-demand", "prioritized", "m5.xlarge"),
        ("spot", "lowest-price", "m5.large"),
        ("spot", "price-capacity-optimized", "m5.large"),
        ("spot", "capacity-optimized", "g5.xlarge"),
        ("spot", "capacity-optimized-prioritized", "m5.xlarge"),
    ],
)
def test_allocation_strategies(capacity: CapacityType, strategy: str, chosen: str) -> None:
    world = world_with_template()
    options = "SpotOptions" if capacity == "spot" else "OnDemandOptions"
    answer = world.fleet(
        pool("g5.xlarge", Priority=3.0),
        pool("m5.large", Priority=2.0),
        pool("m5.xlarge", Priority=1.0),
        capacity=capacity,
        more={options: {"AllocationStrategy": strategy}},
    )
    (bought,) = answer["Instances"]
    assert (bought["InstanceType"], bought["Lifecycle"]) == (chosen, capacity)
    (instance,) = world.service.instances()
    assert instance.capacity_type == capacity
    assert instance.price_per_hour == world.service.catalogue.price(chosen, f"{REGION}a", capacity)


def test_a_pool_without_capacity_is_an_error_and_the_next_one_is_taken() -> None:
    world = world_with_template()
    world.service.set_capacity("g5.xlarge", f"{REGION}a", "on-demand", available=False)
    overrides = [pool("g5.xlarge", "a"), pool("g5.12xlarge", "b")]
    answer = world.fleet(*overrides, capacity="on-demand")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InsufficientInstanceCapacity"
    assert f"sufficient g5.xlarge capacity in the Availability Zone you requested ({REGION}a)" in error["ErrorMessage"]
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == f"{REGION}a"
    assert [bought["InstanceType"] for bought in answer["Instances"]] == ["g5.12xlarge"]
    world.service.set_capacity("g5.12xlarge", f"{REGION}b", "on-demand", available=False)
    answer = world.fleet(*overrides, capacity="on-demand")
    assert (answer["Instances"], len(answer["Errors"])) == ([], 2)
    world.service.set_capacity("g5.xlarge", f"{REGION}a", "on-demand", available=True)
    assert world.fleet(*overrides, capacity="on-demand")["Errors"] == []


def test_a_subnet_that_is_nearly_full_takes_what_fits() -> None:
    world = world_with_template()
    overrides = [{"InstanceType": "m5.large", "SubnetId": "subnet-full"}, pool("m5.xlarge", "a")]
    answer = world.fleet(*overrides, total=3, capacity="on-demand")
    assert [(bought["InstanceType"], len(bought["InstanceIds"])) for bought in answer["Instances"]] == [
        ("m5.large", 1),
        ("m5.xlarge", 2),
    ]
    (error,) = world.fleet(overrides[0], capacity="on-demand")["Errors"]
    assert error["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
    assert error["LaunchTemplateAndOverrides"]["Overrides"]["SubnetId"] == "subnet-full"


@pytest.mark.parametrize(
    ("data", "override", "code", "message"),
    [
        ({}, pool("c5.large"), "Unsupported", "no on-demand price for c5.large"),
        ({}, pool("m6g.large"), "InvalidParameterValue", "The architecture 'arm64'"),
        ({}, pool("x9.large"), "InvalidParameterValue", "Invalid value 'x9.large'"),
        ({}, pool("m5.large", "z"), "InvalidSubnetID.NotFound", "subnet-z"),
        ({}, pool("m5.large", ImageId="ami-1"), "InvalidAMIID.NotFound", "ami-1"),
        ({}, pool("m5.large") | {"AvailabilityZone": f"{REGION}b"}, "InvalidFleetConfiguration", f"not in {REGION}b"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-9"]}]}, None, "InvalidGroup.NotFound", "sg-9"),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-other"]}]},
            *(None, "InvalidParameter", "belong to different networks"),
        ),
        ({"IamInstanceProfile": {"Name": "no"}}, None, "InvalidParameterValue", "Invalid IAM Instance Profile name"),
        ({"IamInstanceProfile": {"Name": "empty"}}, None, "InvalidParameterValue", "has no associated IAM Roles"),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}]},
            *(None, "InvalidBlockDeviceMapping", "expect size>= 20GB"),
        ),
        ({"Placement": {"Tenancy": "dedicated"}}, None, "UnsupportedOperation", "the tenancy dedicated"),
        ({"RamDiskId": "ari-1"}, None, "UnsupportedOperation", "the launch parameter RamDiskId"),
    ],
)
def test_what_cannot_be_launched_is_an_error_of_its_override(
    data: dict[str, Any], override: dict[str, Any] | None, code: str, message: str
) -> None:
    world = world_with_template(**data)
    answer = world.fleet(override or pool("m5.large"), capacity="on-demand")
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == code
    assert message in error["ErrorMessage"]
    assert world.service.instances() == []


def test_a_type_that_the_zone_does_not_offer() -> None:
    world = world_with_template()
    catalogue = world.service.catalogue
    letter = next(letter for letter in "abc" if f"{REGION}{letter}" not in catalogue.zones("p6-b200.48xlarge"))
    (error,) = world.fleet(pool("p6-b200.48xlarge", letter), capacity="on-demand")["Errors"]
    assert error["ErrorCode"] == "InvalidFleetConfiguration"
    assert "is not supported in your requested Availability Zone" in error["ErrorMessage"]


def test_a_fleet_needs_its_launch_template_and_a_simulated_shape() -> None:
    world = World()
    assert error_of(lambda: world.fleet(pool("m5.large")))[0] == "InvalidLaunchTemplateName.NotFoundException"
    world.template()
    for more, missing in (
        ({"Type": "maintain"}, "the type maintain"),
        ({"SpotOptions": {"AllocationStrategy": "diversified"}}, "the allocation strategy diversified"),
        ({"SpotOptions": {"MaxTotalPrice": "1"}}, "the parameter MaxTotalPrice"),
        ({"Context": "x"}, "the parameter Context"),
    ):
        code, message, _ = error_of(lambda more=more: world.fleet(pool("m5.large"), more=more))
        assert (code, missing in message) == ("UnsupportedOperation", True), message
    assert world.service.instances() == []


def test_run_instances_directly_and_from_a_template() -> None:
    world = world_with_template()
    direct = world.client.run_instances(
        ImageId=world.image(),
        InstanceType="m5.large",
        SubnetId="subnet-c",
        SecurityGroupIds=["sg-1"],
        MinCount=2,
        MaxCount=2,
        UserData="#!/bin/sh",
        InstanceMarketOptions={"MarketType": "spot"},
        TagSpecifications=[{"ResourceType": "instance", "Tags": tag_list({"team": "ml"})}],
    )
    assert [instance["InstanceLifecycle"] for instance in direct["Instances"]] == ["spot", "spot"]
    templated = world.client.run_instances(
        LaunchTemplate={"LaunchTemplateName": "karpenter/1"},
        InstanceType="m5.large",
        MinCount=1,
        MaxCount=1,
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": "subnet-a"}],
    )
    (instance,) = templated["Instances"]
    assert (instance["SubnetId"], instance["SecurityGroups"][0]["GroupId"]) == ("subnet-a", "sg-1")
    assert "InstanceLifecycle" not in instance
    attribute = world.client.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    assert base64.b64decode(attribute["UserData"]["Value"]) == b"hello"
    code, _, _ = error_of(
        lambda: world.client.run_instances(
            ImageId=world.image(), InstanceType="m5.large", SubnetId="subnet-full", MinCount=2, MaxCount=2
        )
    )
    assert code == "InsufficientFreeAddressesInSubnet"


def test_efa_interfaces_are_shown_and_efa_only_ones_have_no_address() -> None:
    interfaces = [
        {"DeviceIndex": int(card > 0), "NetworkCardIndex": card, "InterfaceType": kind, "Groups": ["sg-1"]}
        for card, kind in enumerate(("efa", "efa-only", "efa-only"))
    ]
    world = world_with_template(NetworkInterfaces=interfaces)
    world.fleet(pool("p5.48xlarge"))
    (instance,) = describe(world)
    shown = instance["NetworkInterfaces"]
    assert [interface["InterfaceType"] for interface in shown] == ["efa", "efa-only", "efa-only"]
    assert ["PrivateIpAddress" in interface for interface in shown] == [True, False, False]
    assert world.service.addresses_in_use("subnet-a") == 1


def test_each_interface_with_an_address_takes_one_of_its_own() -> None:
    interfaces = [
        {"DeviceIndex": int(card > 0), "NetworkCardIndex": card, "InterfaceType": "efa", "Groups": ["sg-1"]}
        for card in range(3)
    ]
    world = world_with_template(NetworkInterfaces=interfaces)
    for _ in range(2):
        world.fleet(pool("p5.48xlarge"))
    addresses = [
        interface["PrivateIpAddress"] for instance in describe(world) for interface in instance["NetworkInterfaces"]
    ]
    assert len(set(addresses)) == 6 == world.service.addresses_in_use("subnet-a")
    (error,) = world.fleet({"InstanceType": "p5.48xlarge", "SubnetId": "subnet-full"})["Errors"]
    assert error["ErrorCode"] == "InsufficientFreeAddressesInSubnet"


def test_instances_live_and_die_and_stop_costing() -> None:
    world = world_with_template()
    (bought,) = world.fleet(pool("g5.xlarge"), capacity="on-demand")["Instances"]
    (instance_id,) = bought["InstanceIds"]
    world.pass_time(1)
    assert describe(world)[0]["State"]["Name"] == "running"
    world.pass_time(3600)
    (change,) = world.client.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    world.pass_time(1)
    (instance,) = describe(world)
    assert instance["State"] == {"Name": "terminated", "Code": 48}
    assert "SubnetId" not in instance
    assert instance["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert world.service.addresses_in_use("subnet-a") == 0
    (record,) = world.service.instances()
    assert record.terminated_at == START + timedelta(seconds=3601)
    assert record.cost(world.now + timedelta(days=1)) == pytest.approx(3601 / 3600 * PRICES["g5.xlarge"])
    assert [detail["state"] for name, detail in world.events if name == STATE_CHANGE] == [
        *("pending", "running", "shutting-down", "terminated")
    ]
    assert {detail["instance-id"] for _, detail in world.events} == {instance_id}
    again = world.client.terminate_instances(InstanceIds=[instance_id])["TerminatingInstances"][0]
    assert again["CurrentState"]["Name"] == "terminated"


def test_the_volumes_of_an_instance_are_listed_while_it_lives() -> None:
    world = world_with_template(
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3"}}]
    )
    (bought,) = world.fleet(pool("g5.xlarge"), capacity="on-demand")["Instances"]
    (instance_id,) = bought["InstanceIds"]
    (volume,) = world.client.describe_volumes()["Volumes"]
    assert (volume["Size"], volume["VolumeType"]) == (100, "gp3")
    assert volume["Attachments"][0]["InstanceId"] == instance_id
    named = world.client.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    assert [one["VolumeId"] for one in named] == [volume["VolumeId"]]
    code, _, _ = error_of(lambda: world.client.describe_volumes(VolumeIds=["vol-0123456789abcdef0"]))
    assert code == "InvalidVolume.NotFound"
    world.client.terminate_instances(InstanceIds=[instance_id])
    world.pass_time(1)
    assert world.client.describe_volumes()["Volumes"] == []


def test_an_instance_that_is_terminated_while_pending_never_runs() -> None:
    world = world_with_template()
    world.fleet(pool("g5.xlarge"))
    world.client.terminate_instances(InstanceIds=[world.service.instances()[0].id])
    world.pass_time()
    assert [detail["state"] for _, detail in world.events] == ["pending", "shutting-down", "terminated"]


def test_on_its_own_clock_an_instance_starts_to_run_by_itself() -> None:
    running = threading.Event()
    service = Ec2Service(
        account_id="111122223333",
        region=REGION,
        network=FakeNetwork(),
        identity=FakeIdentity(),
        prices=PRICES,
        on_event=lambda _name, detail: running.set() if detail["state"] == "running" else None,
        boot_seconds=0.01,
    )
    image = next(image.id for image in service.images.values() if image.architecture == "x86_64")
    request = {"ImageId": image, "InstanceType": "m5.large", "SubnetId": "subnet-a", "MinCount": "1", "MaxCount": "1"}
    status, _ = service.handle("RunInstances", {name: [value] for name, value in request.items()})
    assert status == 200
    assert running.wait(timeout=10)
    assert service.instances()[0].state == "running"


def test_an_unknown_instance_terminates_nothing() -> None:
    world = world_with_template()
    world.fleet(pool("g5.xlarge"))
    known = world.service.instances()[0].id
    request = {"InstanceIds": [known, "i-0123456789abcdef0"]}
    code, message, _ = error_of(lambda: world.client.terminate_instances(**request))
    assert (code, message) == (
        "InvalidInstanceID.NotFound",
        "The instance ID 'i-0123456789abcdef0' does not exist",
    )
    assert world.service.instances()[0].state == "pending"
    assert error_of(lambda: world.client.describe_instances(**request))[0] == "InvalidInstanceID.NotFound"
    assert error_of(lambda: world.client.describe_instances(InstanceIds=["x"]))[0] == "InvalidInstanceID.Malformed"


def test_a_spot_instance_is_reclaimed_after_its_notice() -> None:
    world = world_with_template()
    world.fleet(pool("g5.xlarge"))
    instance_id = world.service.instances()[0].id
    world.pass_time()
    world.service.interrupt(instance_id)
    assert world.events[-1] == (SPOT_INTERRUPTION, {"instance-id": instance_id, "instance-action": "terminate"})
    assert [seconds for seconds, _ in world.due] == [120.0]
    world.pass_time(120)
    (instance,) = describe(world)
    assert (instance["State"]["Name"], instance["StateReason"]["Code"]) == (
        "shutting-down",
        "Server.SpotInstanceTermination",
    )
    with pytest.raises(ValueError, match="not a living spot instance"):
        world.service.interrupt(instance_id)


def test_karpenters_listing_of_its_instances() -> None:
    world = world_with_template()
    mine = [{"ResourceType": "instance", "Tags": tag_list(TAGS)}]
    (bought,) = world.fleet(pool("m5.large"), total=3, more={"TagSpecifications": mine})["Instances"]
    world.fleet(pool("m5.large"))
    world.client.terminate_instances(InstanceIds=bought["InstanceIds"][:1])
    world.pass_time()
    filters = [
        {"Name": "tag-key", "Values": ["karpenter.sh/nodepool"]},
        {"Name": "tag:eks:eks-cluster-name", "Values": ["lab"]},
        {"Name": "instance-state-name", "Values": ["pending", "running", "shutting-down"]},
    ]
    pages = world.client.get_paginator("describe_instances").paginate(Filters=filters, PaginationConfig={"PageSize": 1})
    found = [
        instance["InstanceId"]
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    assert found == bought["InstanceIds"][1:]


def test_statuses_are_those_of_running_instances_unless_asked() -> None:
    world = world_with_template()
    world.fleet(pool("m5.large"))
    client = world.client
    assert client.describe_instance_status()["InstanceStatuses"] == []
    (status,) = client.describe_instance_status(IncludeAllInstances=True)["InstanceStatuses"]
    assert status["InstanceStatus"]["Status"] == "initializing"
    world.pass_time()
    (status,) = client.describe_instance_status()["InstanceStatuses"]
    assert (status["InstanceStatus"]["Status"], status["SystemStatus"]["Status"]) == ("ok", "ok")
    for name, value in (("instance-status.status", "impaired"), ("event.code", "instance-stop")):
        filters = [{"Name": name, "Values": [value]}]
        assert client.describe_instance_status(Filters=filters)["InstanceStatuses"] == []


def test_tags_of_an_instance_change_after_its_launch() -> None:
    world = world_with_template()
    world.fleet(pool("m5.large"))
    instance_id = world.service.instances()[0].id
    world.client.create_tags(Resources=[instance_id], Tags=tag_list({"Name": "gpu-1", "team": "ml"}))
    world.client.delete_tags(Resources=[instance_id], Tags=[{"Key": "team", "Value": "other"}, {"Key": "Name"}])
    tags = world.tags_of(instance_id)
    assert ("Name" in tags, tags["team"]) == (False, "ml")
    row = {"ResourceId": instance_id, "ResourceType": "instance", "Key": "team", "Value": "ml"}
    filters = [{"Name": "key", "Values": ["team"]}]
    assert world.client.describe_tags(Filters=filters)["Tags"] == [row]
    assert world.service.owns(instance_id)
    assert not world.service.owns("vpc-1")
    assert error_of(lambda: world.client.create_tags(Resources=["i-0"], Tags=tag_list(TAGS)))[0] == (
        "InvalidInstanceID.NotFound"
    )
