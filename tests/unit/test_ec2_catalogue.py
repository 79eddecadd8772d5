"""What EC2 sells: types, offerings, prices, images and the parameters that lead to them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rehearsal.compute.ec2 import PriceListError, get_products
from tests.unit.test_ec2_protocol import PRICES, REGION, START, World, error_of


def test_karpenters_listing_of_types_pages_through_the_region() -> None:
    client = World().client
    pages = list(
        client.get_paginator("describe_instance_types").paginate(
            Filters=[
                {"Name": "supported-virtualization-type", "Values": ["hvm"]},
                {"Name": "processor-info.supported-architecture", "Values": ["x86_64", "arm64"]},
            ],
            MaxResults=100,
        )
    )
    types: dict[str, Any] = {item.get("InstanceType", ""): item for page in pages for item in page["InstanceTypes"]}
    assert len(pages) == len(types) // 100 + 1 > 10
    assert types["g5.12xlarge"]["GpuInfo"]["Gpus"][0]["Count"] == 4
    assert types["g5.12xlarge"]["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 1
    assert "mac1.metal" in World().service.catalogue.types  # of another architecture
    assert "mac1.metal" not in types


def test_types_by_name_and_a_type_that_does_not_exist() -> None:
    client = World().client
    (found,) = client.describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"]
    assert found.get("VCpuInfo", {}).get("DefaultVCpus") == 192
    assert error_of(lambda: client.describe_instance_types(InstanceTypes=["p9.tiny"]))[0] == "InvalidInstanceType"
    metal = client.describe_instance_types(
        InstanceTypes=["m5.metal", "m5.large"], Filters=[{"Name": "bare-metal", "Values": ["true"]}]
    )
    assert [item.get("InstanceType") for item in metal["InstanceTypes"]] == ["m5.metal"]


def test_offerings_by_zone_and_region() -> None:
    client = World().client
    offered = [
        row
        for page in client.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", PaginationConfig={"PageSize": 1000}
        )
        for row in page["InstanceTypeOfferings"]
    ]
    assert {row.get("Location") for row in offered} == {f"{REGION}{letter}" for letter in "abcd"}
    assert len({(row.get("InstanceType"), row.get("Location")) for row in offered}) == len(offered) > 5000
    (row,) = client.describe_instance_type_offerings(Filters=[{"Name": "instance-type", "Values": ["g5.xlarge"]}])[
        "InstanceTypeOfferings"
    ]
    assert (row.get("Location"), row.get("LocationType")) == (REGION, "region")


def test_spot_prices_are_a_steady_share_of_the_on_demand_price() -> None:
    world = World()
    rows = world.client.describe_spot_price_history(
        ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"], StartTime=START, MaxResults=2000
    )["SpotPriceHistory"]
    seen = {(row.get("InstanceType"), row.get("AvailabilityZone")): float(row.get("SpotPrice", 0)) for row in rows}
    assert len(seen) == len(rows)
    assert {name for name, _ in seen} == set(PRICES)
    shares = [price / PRICES[str(name)] for (name, _), price in seen.items()]
    assert all(0.30 <= share <= 0.4501 for share in shares)
    assert len({seen["g5.xlarge", f"{REGION}{letter}"] for letter in "abc"}) == 3
    assert World().service.catalogue.spot_price("g5.xlarge", f"{REGION}a") == seen["g5.xlarge", f"{REGION}a"]
    assert all(row.get("Timestamp") == START for row in rows)


def test_spot_prices_of_one_type_in_one_zone() -> None:
    client = World().client
    rows = client.describe_spot_price_history(InstanceTypes=["g5.xlarge"], AvailabilityZone=f"{REGION}b", Filters=[])[
        "SpotPriceHistory"
    ]
    assert [row.get("AvailabilityZone") for row in rows] == [f"{REGION}b"]
    assert client.describe_spot_price_history(ProductDescriptions=["Windows"])["SpotPriceHistory"] == []


def test_images_by_name_owner_and_id() -> None:
    world = World()
    (image,) = world.client.describe_images(
        Owners=["amazon"],
        Filters=[
            {"Name": "name", "Values": ["amazon-eks-node-al2023-arm64-nvidia-1.36-*0714"]},
            {"Name": "state", "Values": ["available"]},
        ],
        IncludeDeprecated=True,
    )["Images"]
    assert image.get("Architecture") == "arm64"
    assert image.get("CreationDate") == "2026-07-14T00:00:00.000Z"
    (disk,) = image.get("BlockDeviceMappings", [])
    assert (disk.get("DeviceName"), disk.get("Ebs", {}).get("VolumeSize")) == ("/dev/xvda", 20)
    assert image.get("ImageId") in World().service.images
    assert world.client.describe_images(Owners=["self"])["Images"] == []
    assert error_of(lambda: world.client.describe_images(ImageIds=["ami-1"]))[0] == "InvalidAMIID.NotFound"


def test_ssm_parameters_lead_to_the_images_of_a_kubernetes_version() -> None:
    world = World()
    parameters = world.service.ssm_parameters(["1.33"])
    folder = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023"
    recommended = {name for name in parameters if name.endswith("/recommended/image_id")}
    assert recommended == {
        f"{folder}/{variant}/recommended/image_id"
        for variant in ("x86_64/standard", "x86_64/nvidia", "x86_64/neuron", "arm64/standard", "arm64/nvidia")
    }
    name = "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20260714"
    assert parameters[f"{folder}/x86_64/nvidia/recommended/image_id"] == world.image(name)
    assert parameters[f"{folder}/x86_64/nvidia/{name}/image_id"] == world.image(name)
    older = [name for name in parameters if name.startswith(f"{folder}/x86_64/nvidia/amazon") and "0714" not in name]
    assert len(older) == 2
    assert not {parameters[name] for name in older} & {parameters[name] for name in recommended}


def test_bottlerocket_has_parameters_of_its_own_and_a_small_root_volume() -> None:
    world = World()
    parameters = world.service.ssm_parameters(["1.33"])
    paths = {name: image for name, image in parameters.items() if name.startswith("/aws/service/bottlerocket/")}
    assert set(paths) == {
        f"/aws/service/bottlerocket/aws-k8s-1.33{flavour}/{architecture}/{release}/image_id"
        for flavour in ("", "-nvidia")
        for architecture in ("x86_64", "arm64")
        for release in ("1.54.0", "latest")
    }
    image = paths["/aws/service/bottlerocket/aws-k8s-1.33/arm64/1.54.0/image_id"]
    (described,) = world.client.describe_images(ImageIds=[image])["Images"]
    assert described["Name"].startswith("bottlerocket-aws-k8s-1.33-arm64-v1.54.0-")
    assert described["Architecture"] == "arm64"
    assert described["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 2


@pytest.mark.parametrize(
    "operation",
    [
        *("DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "DescribeImages"),
        *("DescribeInstances", "DescribeInstanceStatus", "DescribeLaunchTemplates", "DescribeTags"),
    ],
)
def test_a_dry_run_of_a_listing_tells_whether_it_is_allowed(operation: str) -> None:
    world = World()
    status, body = world.service.handle(operation, {"DryRun": ["true"]})
    assert (status, b"<Code>DryRunOperation</Code>" in body) == (412, True)
    world.identity.allows = lambda action, _resource, _context: action != f"ec2:{operation}"
    status, body = world.service.handle(operation, {"DryRun": ["true"]})
    assert (status, b"<Code>UnauthorizedOperation</Code>" in body) == (403, True)


def _karpenters_filters(region: str, tenancy: str, family: str) -> list[dict[str, str]]:
    wanted = {
        "regionCode": region,
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
    }
    return [{"Field": name, "Type": "TERM_MATCH", "Value": value} for name, value in wanted.items()]


def _on_demand(answer: Any) -> dict[str, float]:
    prices: dict[str, float] = {}
    for text in answer["PriceList"]:
        item = json.loads(text)
        for term in item["terms"]["OnDemand"].values():
            for rate in term["priceDimensions"].values():
                prices[item["product"]["attributes"]["instanceType"]] = float(rate["pricePerUnit"]["USD"])
    return prices


def test_the_price_list_answers_karpenters_two_questions() -> None:
    prices = {REGION: PRICES, "us-east-1": {"m5.large": 9.0}}
    request: dict[str, Any] = {"ServiceCode": "AmazonEC2", "MaxResults": 100}
    shared = get_products(request | {"Filters": _karpenters_filters(REGION, "Shared", "Compute Instance")}, prices)
    metal = get_products(
        request | {"Filters": _karpenters_filters(REGION, "Dedicated", "Compute Instance (bare metal)")}, prices
    )
    assert _on_demand(metal) == {"m5.metal": PRICES["m5.metal"]}
    assert _on_demand(shared) | _on_demand(metal) == PRICES


def test_the_price_list_is_paged_and_refuses_what_it_does_not_know() -> None:
    prices = {REGION: PRICES}
    first = get_products({"ServiceCode": "AmazonEC2", "MaxResults": 4}, prices)
    rest = get_products({"ServiceCode": "AmazonEC2", "NextToken": first["NextToken"]}, prices)
    assert (len(first["PriceList"]), "NextToken" in rest) == (4, False)
    assert _on_demand(first) | _on_demand(rest) == PRICES
    with pytest.raises(PriceListError, match="AmazonEC2 alone"):
        get_products({"ServiceCode": "AmazonRDS"}, prices)
    with pytest.raises(PriceListError, match="colour"):
        get_products(
            {"ServiceCode": "AmazonEC2", "Filters": [{"Field": "colour", "Type": "TERM_MATCH", "Value": "red"}]}, prices
        )
