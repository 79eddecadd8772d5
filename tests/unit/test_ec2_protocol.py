"""EC2's query protocol, spoken by real botocore clients; and the little world that all EC2 tests share."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, cast
from urllib.parse import parse_qs

import pytest
from boto3.session import Session
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError

from rehearsal.compute.ec2 import Context, Denial, Ec2Service, InstanceProfile, SecurityGroup, Subnet

REGION = "us-west-2"
ACCOUNT = "111122223333"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/karpenter"
NODE_ROLE = f"arn:aws:iam::{ACCOUNT}:role/KarpenterNodeRole-lab"
START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PRICES = {
    "m5.large": 0.096,
    "m5.xlarge": 0.192,
    "m6g.large": 0.077,
    "g5.xlarge": 1.006,
    "g5.12xlarge": 5.672,
    "p5.48xlarge": 55.04,
    "m5.metal": 4.608,
}

SUBNETS = {
    f"subnet-{letter}": Subnet(f"subnet-{letter}", "vpc-1", f"{REGION}{letter}", f"usw2-az{n}", f"10.0.{n}.0/24", 251)
    for n, letter in enumerate("abc", 1)
}
SUBNETS["subnet-full"] = replace(SUBNETS["subnet-a"], id="subnet-full", available_ip_count=1)
GROUPS = {
    "sg-1": SecurityGroup("sg-1", "nodes", "vpc-1"),
    "sg-other": SecurityGroup("sg-other", "elsewhere", "vpc-2"),
}
PROFILES = {
    "lab": InstanceProfile("lab", f"arn:aws:iam::{ACCOUNT}:instance-profile/lab", NODE_ROLE),
    "empty": InstanceProfile("empty", f"arn:aws:iam::{ACCOUNT}:instance-profile/empty", None),
}


class FakeNetwork:
    """One VPC with three zones, and a security group of another."""

    def subnet(self, subnet_id: str) -> Subnet | None:
        """A subnet of :data:`SUBNETS`."""
        return SUBNETS.get(subnet_id)

    def security_groups(self, ids: Sequence[str]) -> Sequence[SecurityGroup]:
        """Groups of :data:`GROUPS`."""
        return [GROUPS[group_id] for group_id in ids if group_id in GROUPS]


Question = tuple[str, str, Context]


@dataclass
class FakeIdentity:
    """Allows what ``allows`` says and remembers every question."""

    allows: Callable[[str, str, Context], bool] = lambda _action, _resource, _context: True
    spot_role: bool = True
    questions: list[Question] = field(default_factory=list[Question])

    def instance_profile(self, name_or_arn: str) -> InstanceProfile | None:
        """A profile of :data:`PROFILES`."""
        return PROFILES.get(name_or_arn.rsplit("/", 1)[-1])

    def service_linked_role(self, service: str) -> bool:
        """Whether the role is there, by ``spot_role``."""
        assert service == "spot.amazonaws.com"
        return self.spot_role

    def authorise(self, action: str, resource: str, context: Context) -> Denial | None:
        """Remember the question and answer it."""
        self.questions.append((action, resource, context))
        return None if self.allows(action, resource, context) else Denial(ROLE, action, resource, context=context)

    def asked(self, action: str) -> dict[str, Context]:
        """Resource type (or whole ARN outside EC2) to the last context that the action was asked with."""
        return {
            resource.split(":")[5].split("/")[0] if ":ec2:" in resource else resource: context
            for asked, resource, context in self.questions
            if asked == action
        }


@cache
def _client() -> tuple[Any, list[World]]:
    # Making a client takes a tenth of a second, so all worlds share one. It is untyped: the requests are as open as the
    # service's own side of them, and some are wrong on purpose.
    session = cast("Any", Session(aws_access_key_id=ACCOUNT, aws_secret_access_key="test", region_name=REGION))
    client = session.client("ec2", config=Config(retries={"max_attempts": 0, "mode": "standard"}))
    receiver: list[World] = []

    def send(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        text = request.body.decode() if isinstance(request.body, bytes) else str(request.body)
        params = parse_qs(text, keep_blank_values=True)
        status, body = receiver[0].service.handle(params["Action"][0], params)
        response = AWSResponse(request.url, status, cast("Any", {"content-type": "text/xml"}), cast("Any", None))
        cast("Any", response)._content = body
        return response

    client.meta.events.register("before-send.ec2.*", send)
    return client, receiver


class World:
    """A service, a botocore client that is wired to it, and time that stands still until it is moved."""

    def __init__(self, region: str = REGION) -> None:
        self.now = START
        self.identity = FakeIdentity()
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.service = Ec2Service(
            account_id=ACCOUNT,
            region=region,
            network=FakeNetwork(),
            identity=self.identity,
            prices=PRICES,
            on_event=lambda detail_type, detail: self.events.append((detail_type, detail)),
            clock=lambda: self.now,
            schedule=lambda seconds, call: self.due.append((seconds, call)),
        )

    @property
    def client(self) -> Any:
        """A real botocore client; it speaks to the world whose client was asked for last."""
        client, receiver = _client()
        receiver[:] = [self]
        return client

    def pass_time(self, seconds: float = 1.0) -> None:
        """Move the clock, then let everything that was scheduled until now happen."""
        self.now += timedelta(seconds=seconds)
        due, self.due = self.due, []
        for _, call in due:
            call()

    def tags_of(self, resource_id: str) -> dict[str, str]:
        """Tags of a resource, as EC2 lists them."""
        filters = [{"Name": "resource-id", "Values": [resource_id]}]
        return {tag["Key"]: tag["Value"] for tag in self.client.describe_tags(Filters=filters)["Tags"]}

    def image(self, name: str = "amazon-eks-node-al2023-x86_64-nvidia-1.33-v20260714") -> str:
        """Id of the image of that name."""
        return next(image.id for image in self.service.images.values() if image.name == name)

    def template(self, name: str = "karpenter/1", tags: Mapping[str, str] | None = None, **data: Any) -> str:
        """Create a launch template as Karpenter does; give its id."""
        content: dict[str, Any] = {
            "ImageId": self.image(),
            "IamInstanceProfile": {"Name": "lab"},
            "UserData": base64.b64encode(b"hello").decode(),
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"]}],
            "MetadataOptions": {"HttpTokens": "required"},
            **data,
        }
        specifications: list[dict[str, Any]] = []
        if tags:
            specifications = [{"ResourceType": "launch-template", "Tags": tag_list(tags)}]
        answer = self.client.create_launch_template(
            LaunchTemplateName=name, LaunchTemplateData=content, TagSpecifications=specifications
        )
        return answer["LaunchTemplate"]["LaunchTemplateId"]

    def fleet(
        self, *overrides: Any, capacity: str = "spot", total: int = 1, more: Mapping[str, Any] | None = None
    ) -> Any:
        """CreateFleet over the template ``karpenter/1``."""
        request: dict[str, Any] = {
            "Type": "instant",
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": "karpenter/1", "Version": "$Latest"},
                    "Overrides": list(overrides),
                }
            ],
            "TargetCapacitySpecification": {"DefaultTargetCapacityType": capacity, "TotalTargetCapacity": total},
            **(more or {}),
        }
        return self.client.create_fleet(**request)


def tag_list(tags: Mapping[str, str]) -> list[Any]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def error_of(call: Callable[[], Any]) -> tuple[str, str, int]:
    """Code, message and HTTP status of the error that a call must end in."""
    with pytest.raises(ClientError) as caught:
        call()
    response: Any = caught.value.response
    return response["Error"]["Code"], response["Error"]["Message"], response["ResponseMetadata"]["HTTPStatusCode"]


def test_an_unknown_action_and_an_unknown_parameter_are_refused() -> None:
    service = World().service
    status, body = service.handle("DescribeVpcs", {})
    assert (status, b"<Code>InvalidAction</Code>" in body) == (400, True)
    status, body = service.handle("DescribeInstances", {"Action": ["DescribeInstances"], "Colour": ["red"]})
    assert (status, b"The parameter Colour is not recognized" in body) == (400, True)
    status, body = service.handle("DescribeInstances", {"MaxResults": ["many"]})
    assert (status, b"<Code>InvalidParameterValue</Code>" in body) == (400, True)


def test_what_is_not_simulated_is_named() -> None:
    world = World()
    code, message, status = error_of(
        lambda: world.client.describe_instances(Filters=[{"Name": "dns-name", "Values": ["x"]}])
    )
    assert (code, status) == ("UnsupportedOperation", 400)
    assert "the filter dns-name of DescribeInstances" in message
    _, message, _ = error_of(lambda: world.client.describe_images(ExecutableUsers=["all"]))
    assert "the parameter ExecutableUsers of DescribeImages" in message


def test_a_token_that_nobody_gave_is_refused() -> None:
    code, _, _ = error_of(lambda: World().client.describe_instance_types(NextToken="!!"))
    assert code == "InvalidNextToken"


def test_a_region_without_recorded_offerings_is_refused() -> None:
    with pytest.raises(ValueError, match="mars-1"):
        World("mars-1")


def test_a_request_that_is_sent_twice_is_carried_out_once() -> None:
    world = World()
    world.template()
    first, second = (
        world.fleet({"InstanceType": "g5.xlarge", "SubnetId": "subnet-a"}, more={"ClientToken": "once"})
        for _ in range(2)
    )
    assert first["FleetId"] == second["FleetId"]
    assert len(world.service.instances()) == 1
