"""Which questions a request puts to IAM, resource by resource, and what a refusal looks like."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from rehearsal.compute.ec2 import Context, Denial
from tests.unit.test_ec2_protocol import ACCOUNT, NODE_ROLE, REGION, ROLE, World, error_of, tag_list

CLUSTER = "lab"
TAGS = {
    f"kubernetes.io/cluster/{CLUSTER}": "owned",
    "karpenter.sh/nodepool": "gpu",
    "eks:eks-cluster-name": CLUSTER,
    "karpenter.k8s.aws/ec2nodeclass": "gpu",
}
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}"
POOL = {"InstanceType": "g5.xlarge", "SubnetId": "subnet-a", "AvailabilityZone": f"{REGION}a"}


def _statement(
    actions: str,
    resources: str,
    equals: Mapping[str, str] | None = None,
    like: Mapping[str, str] | None = None,
    one_of: Mapping[str, tuple[str, ...]] | None = None,
    only_keys: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    kinds = resources.split()
    prefixes = {"image": f"arn:aws:ec2:{REGION}::", "snapshot": f"arn:aws:ec2:{REGION}::"}
    return {
        "actions": [f"ec2:{action}" if ":" not in action else action for action in actions.split()],
        "resources": [
            kind if kind.startswith("arn:") else f"{prefixes.get(kind, f'arn:aws:ec2:{REGION}:*:')}{kind}/*"
            for kind in kinds
        ],
        "equals": equals or {},
        "like": like or {},
        "one_of": one_of or {},
        "only_keys": only_keys,
    }


_CREATED = "fleet instance volume network-interface launch-template spot-instances-request"
_REQUESTED = {
    f"aws:RequestTag/kubernetes.io/cluster/{CLUSTER}": "owned",
    "aws:RequestTag/eks:eks-cluster-name": CLUSTER,
}
_HELD = {f"aws:ResourceTag/kubernetes.io/cluster/{CLUSTER}": "owned"}
_POOL_REQUESTED, _POOL_HELD = (
    {"aws:RequestTag/karpenter.sh/nodepool": "*"},
    {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
)

# KarpenterControllerNodeLifecyclePolicy and AllowPassingInstanceRole of Karpenter v1.14.1, statement by statement
# (website/content/en/preview/getting-started/getting-started-with-karpenter/cloudformation.yaml).
UPSTREAM = [
    _statement(
        "RunInstances CreateFleet",
        "image snapshot security-group subnet capacity-reservation placement-group",
    ),
    _statement("RunInstances CreateFleet", "launch-template", _HELD, _POOL_HELD),
    _statement("RunInstances CreateFleet CreateLaunchTemplate", _CREATED, _REQUESTED, _POOL_REQUESTED),
    _statement(
        *("CreateTags", _CREATED, _REQUESTED, _POOL_REQUESTED),
        {"ec2:CreateAction": ("RunInstances", "CreateFleet", "CreateLaunchTemplate")},
    ),
    _statement(
        *("CreateTags", "instance", _HELD, _POOL_HELD),
        only_keys=("eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"),
    ),
    _statement("TerminateInstances DeleteLaunchTemplate", "instance launch-template", _HELD, _POOL_HELD),
    _statement(
        "iam:PassRole", NODE_ROLE, one_of={"iam:PassedToService": ("ec2.amazonaws.com", "ec2.amazonaws.com.cn")}
    ),
]


def upstream_allows(action: str, resource: str, context: Context) -> bool:
    """Whether a statement of the upstream policy allows it: the few operators that it uses."""
    return any(
        action in statement["actions"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["resources"])
        and all(context.get(key) == value for key, value in statement["equals"].items())
        and all(fnmatchcase(str(context.get(key, "\0")), value) for key, value in statement["like"].items())
        and context.keys() >= statement["like"].keys()
        and all(context.get(key) in values for key, values in statement["one_of"].items())
        and (statement["only_keys"] is None or set(context.get("aws:TagKeys", [])) <= set(statement["only_keys"]))
        for statement in UPSTREAM
    )


def allow_all(_action: str, _resource: str, _context: Context) -> bool:
    return True


def _specifications(*kinds: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": tag_list(TAGS)} for kind in kinds]


def karpenters_template(world: World, *, spot: bool = True) -> str:
    """The launch template as Karpenter's ``CreateLaunchTemplateInputBuilder`` makes it."""
    kinds = ("network-interface", "spot-instances-request") if spot else ("network-interface",)
    return world.template(
        tags=TAGS,
        TagSpecifications=_specifications(*kinds),
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True}}
        ],
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "InstanceMetadataTags": "disabled"},
        Monitoring={"Enabled": False},
        EnclaveOptions={"Enabled": False},
        Placement={"Tenancy": "default"},
        CapacityReservationSpecification={"CapacityReservationPreference": "none"},
    )


def karpenters_fleet(world: World, capacity: str = "spot", **more: Any) -> Any:
    """CreateFleet as Karpenter's ``CreateFleetInputBuilder`` makes it."""
    return world.fleet(
        *(POOL, POOL | {"SubnetId": "subnet-b", "AvailabilityZone": f"{REGION}b"}),
        capacity=capacity,
        more={"TagSpecifications": _specifications("instance", "volume", "fleet"), **more},
    )


def karpenters_dry_run(world: World) -> Any:
    """RunInstances as Karpenter's validation of a node class asks it."""
    return world.client.run_instances(
        DryRun=True,
        MinCount=1,
        MaxCount=1,
        LaunchTemplate={"LaunchTemplateName": "karpenter/1", "Version": "$Latest"},
        InstanceType="g5.xlarge",
        NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": "subnet-a"}],
        TagSpecifications=_specifications("instance", "volume", "network-interface"),
    )


@pytest.mark.parametrize("capacity", ["spot", "on-demand"])
def test_karpenters_calls_pass_its_own_policy(capacity: str) -> None:
    world = World()
    world.identity.allows = upstream_allows
    template_id = karpenters_template(world, spot=capacity == "spot")
    assert error_of(lambda: karpenters_fleet(world, capacity, DryRun=True))[::2] == ("DryRunOperation", 412)
    assert error_of(lambda: karpenters_dry_run(world))[::2] == ("DryRunOperation", 412)
    assert world.service.instances() == []
    answer = karpenters_fleet(world, capacity)
    assert answer["Errors"] == []
    instance_id = answer["Instances"][0]["InstanceIds"][0]
    world.client.create_tags(
        Resources=[instance_id],
        Tags=tag_list({"Name": "n", "karpenter.sh/nodeclaim": "n", "eks:eks-cluster-name": CLUSTER}),
    )
    world.client.terminate_instances(InstanceIds=[instance_id])
    world.client.delete_launch_template(LaunchTemplateId=template_id)


def test_a_tag_that_the_policy_does_not_know_is_refused() -> None:
    world = World()
    world.identity.allows = upstream_allows
    karpenters_template(world)
    instance_id = karpenters_fleet(world)["Instances"][0]["InstanceIds"][0]
    code, message, status = error_of(
        lambda: world.client.create_tags(Resources=[instance_id], Tags=tag_list({"team": "ml"}))
    )
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert f"{ROLE} is not authorized to perform: ec2:CreateTags on resource: {EC2}:instance/{instance_id}" in message
    assert "team" not in world.tags_of(instance_id)


def test_a_fleet_is_asked_about_once_for_each_resource() -> None:
    world = World()
    template_id = karpenters_template(world)
    world.identity.questions.clear()
    error_of(lambda: karpenters_fleet(world, DryRun=True))
    resources = [resource for action, resource, _ in world.identity.questions if action == "ec2:CreateFleet"]
    assert sorted(resources) == sorted(
        [
            *(f"{EC2}:fleet/*", f"{EC2}:instance/*", f"{EC2}:volume/*"),
            *(f"{EC2}:launch-template/{template_id}", f"arn:aws:ec2:{REGION}::image/{world.image()}"),
            *(f"{EC2}:subnet/subnet-a", f"{EC2}:subnet/subnet-b"),
        ]
    )
    asked = world.identity.asked("ec2:CreateFleet")
    assert asked["fleet"]["aws:RequestTag/karpenter.sh/nodepool"] == "gpu"
    assert asked["launch-template"]["aws:ResourceTag/karpenter.sh/nodepool"] == "gpu"
    assert asked["instance"]["ec2:InstanceType"] == "g5.xlarge"
    (tagging,) = [question for question in world.identity.questions if question[0] == "ec2:CreateTags"]
    assert tagging[1] == f"{EC2}:fleet/*"
    assert tagging[2]["ec2:CreateAction"] == "CreateFleet"


def test_a_launch_is_asked_about_on_all_it_uses_and_creates() -> None:
    world = World()
    karpenters_template(world)
    world.identity.questions.clear()
    karpenters_fleet(world)
    launched = world.identity.asked("ec2:RunInstances")
    created = {"instance", "volume", "network-interface", "spot-instances-request"}
    assert set(launched) == {"launch-template", "image", "subnet", "security-group", *created}
    assert launched["launch-template"]["aws:ResourceTag/karpenter.sh/nodepool"] == "gpu"
    assert launched["instance"]["ec2:InstanceMarketType"] == "spot"
    assert launched["instance"]["ec2:MetadataHttpTokens"] == "required"
    for kind in created:
        assert launched[kind]["aws:RequestTag/karpenter.sh/nodepool"] == "gpu"
        assert sorted(launched[kind]["aws:TagKeys"]) == sorted(TAGS)
    tagged = world.identity.asked("ec2:CreateTags")
    assert {kind: context["ec2:CreateAction"] for kind, context in tagged.items()} == {
        "fleet": "CreateFleet",
        **dict.fromkeys(created, "RunInstances"),
    }
    assert world.identity.asked("iam:PassRole") == {NODE_ROLE: {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_spot_is_not_bought_without_the_service_linked_role_and_on_demand_is() -> None:
    world = World()
    world.identity.spot_role = False
    karpenters_template(world)
    refused = karpenters_fleet(world, "spot")
    assert refused["Instances"] == []
    codes = {error["ErrorCode"] for error in refused["Errors"]}
    assert codes == {"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    assert karpenters_fleet(world, "on-demand")["Errors"] == []


def test_an_on_demand_launch_has_no_spot_request_to_ask_about() -> None:
    world = World()
    karpenters_template(world, spot=False)
    world.identity.questions.clear()
    assert error_of(lambda: karpenters_dry_run(world))[0] == "DryRunOperation"
    assert "spot-instances-request" not in world.identity.asked("ec2:RunInstances")
    assert (
        world.identity.asked("ec2:RunInstances")["network-interface"]["aws:RequestTag/karpenter.sh/nodepool"] == "gpu"
    )


@pytest.mark.parametrize(
    ("action", "kind"),
    [("ec2:CreateFleet", kind) for kind in ("fleet", "image", "subnet", "launch-template", "instance", "volume")],
)
def test_a_refused_fleet_is_an_error_of_the_call(action: str, kind: str) -> None:
    world = World()
    karpenters_template(world)
    world.identity.allows = lambda asked, resource, _context: not (asked == action and f":{kind}/" in resource)
    for dry_run in (False, True):
        code, message, status = error_of(lambda dry_run=dry_run: karpenters_fleet(world, DryRun=dry_run))
        assert (code, status) == ("UnauthorizedOperation", 403)
        assert f"is not authorized to perform: {action} on resource: arn:aws:ec2:{REGION}:" in message
        assert f"because no identity-based policy allows the {action} action" in message
    question = json.loads(base64.urlsafe_b64decode(message.rpartition(": ")[2]))
    assert question["context"]["action"] == action
    assert world.service.instances() == []


@pytest.mark.parametrize(
    ("action", "part"),
    [
        *(("ec2:RunInstances", kind) for kind in ("security-group", "network-interface", "spot-instances-request")),
        *(("ec2:CreateTags", kind) for kind in ("instance", "volume", "network-interface", "spot-instances-request")),
        ("iam:PassRole", "role"),
    ],
)
def test_a_refused_launch_of_a_fleet_is_an_error_of_each_override(action: str, part: str) -> None:
    world = World()
    karpenters_template(world)
    world.identity.allows = lambda asked, resource, _context: not (asked == action and f":{part}/" in resource)
    answer = karpenters_fleet(world)
    assert (answer["Instances"], len(answer["Errors"])) == ([], 2)
    for error in answer["Errors"]:
        assert error["ErrorCode"] == "UnauthorizedOperation"
        assert f"is not authorized to perform: {action} on resource: " in error["ErrorMessage"]
    assert world.service.instances() == []


def test_a_refused_template_is_not_made() -> None:
    world = World()
    for action in ("ec2:CreateLaunchTemplate", "ec2:CreateTags"):
        world.identity.allows = lambda asked, _resource, _context, action=action: asked != action
        assert error_of(lambda: karpenters_template(world))[0] == "UnauthorizedOperation"
        assert world.identity.asked(action)["launch-template"]["aws:RequestTag/karpenter.sh/nodepool"] == "gpu"
    assert world.identity.asked("ec2:CreateTags")["launch-template"]["ec2:CreateAction"] == "CreateLaunchTemplate"
    world.identity.allows = allow_all
    code, _, status = error_of(
        lambda: world.client.create_launch_template(
            DryRun=True, LaunchTemplateName="dry", LaunchTemplateData={"InstanceType": "m5.large"}
        )
    )
    assert (code, status) == ("DryRunOperation", 412)
    assert world.client.describe_launch_templates()["LaunchTemplates"] == []


def test_deleting_is_asked_about_with_the_tags_that_are_held() -> None:
    world = World()
    template_id = karpenters_template(world)
    instance_id = karpenters_fleet(world)["Instances"][0]["InstanceIds"][0]
    deletions = ("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate")
    world.identity.allows = lambda action, _resource, _context: action not in deletions
    terminate = {"InstanceIds": [instance_id]}
    assert error_of(lambda: world.client.terminate_instances(**terminate))[0] == "UnauthorizedOperation"
    delete = {"LaunchTemplateId": template_id}
    assert error_of(lambda: world.client.delete_launch_template(**delete))[0] == "UnauthorizedOperation"
    for action in deletions:
        (context,) = world.identity.asked(action).values()
        assert context["aws:ResourceTag/karpenter.sh/nodepool"] == "gpu"
    world.identity.allows = allow_all
    assert error_of(lambda: world.client.terminate_instances(DryRun=True, **terminate))[0] == "DryRunOperation"
    assert world.service.instances()[0].state == "pending"


def test_answers_are_not_remembered_from_one_request_to_the_next() -> None:
    world = World()
    karpenters_template(world)
    karpenters_fleet(world)
    world.identity.allows = lambda _action, _resource, _context: False
    assert error_of(lambda: karpenters_fleet(world))[0] == "UnauthorizedOperation"


def test_an_explicit_deny_is_worded_as_one() -> None:
    assert Denial(ROLE, "ec2:RunInstances", "*", explicit=True).because.startswith("with an explicit deny")
