"""The controller's policies as a table: who may do what, to what, on which condition.

Both ways: nothing is missing from the templates, and nothing is there that the table does not have.
"""

import json
from typing import Any, cast

import pytest

from tests.unit.assembly import Assembly, flatten

OWNED = "kubernetes.io/cluster/training-on-eks"
ZONE = "topology.kubernetes.io/region"
POOL, CLASS, NAME = "karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "eks:eks-cluster-name"

CREATED = ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"]
PROFILES = ["arn:aws:iam::ACCOUNT:instance-profile/*"]
CLUSTER = "arn:aws:eks:us-west-2:ACCOUNT:cluster/training-on-eks"

HELD = {"StringEquals": {f"aws:ResourceTag/{OWNED}": "owned"}, "StringLike": {f"aws:ResourceTag/{POOL}": "*"}}
ASKED = {f"aws:RequestTag/{OWNED}": "owned", f"aws:RequestTag/{NAME}": "training-on-eks"}
ASKED_POOL = {f"aws:RequestTag/{POOL}": "*"}
PROFILE_HELD = {f"aws:ResourceTag/{OWNED}": "owned", f"aws:ResourceTag/{ZONE}": "us-west-2"}
PROFILE_ASKED = {**ASKED, f"aws:RequestTag/{ZONE}": "us-west-2"}


def _ec2(*kinds: str, account: str = "*") -> list[str]:
    return [f"arn:aws:ec2:us-west-2:{account}:{kind}/*" for kind in kinds]


# Policy -> (sid, actions, resources, condition) of each statement.
TABLE: dict[str, list[tuple[str, list[str], list[str], dict[str, Any]]]] = {
    "NodeLifecycle": [
        (
            "AllowScopedEC2InstanceAccessActions",
            ["ec2:RunInstances", "ec2:CreateFleet"],
            _ec2("image", "snapshot", account="")
            + _ec2("security-group", "subnet", "capacity-reservation", "placement-group"),
            {},
        ),
        (
            "AllowScopedEC2LaunchTemplateAccessActions",
            ["ec2:RunInstances", "ec2:CreateFleet"],
            _ec2("launch-template"),
            HELD,
        ),
        (
            "AllowScopedEC2InstanceActionsWithTags",
            ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            _ec2(*CREATED),
            {"StringEquals": ASKED, "StringLike": ASKED_POOL},
        ),
        (
            "AllowScopedResourceCreationTagging",
            ["ec2:CreateTags"],
            _ec2(*CREATED),
            {
                "StringEquals": {**ASKED, "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]},
                "StringLike": ASKED_POOL,
            },
        ),
        (
            "AllowScopedResourceTagging",
            ["ec2:CreateTags"],
            _ec2("instance"),
            {
                **HELD,
                "StringEqualsIfExists": {f"aws:RequestTag/{NAME}": "training-on-eks"},
                "ForAllValues:StringEquals": {"aws:TagKeys": [NAME, "karpenter.sh/nodeclaim", "Name"]},
            },
        ),
        (
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            _ec2("instance", "launch-template"),
            HELD,
        ),
    ],
    "IAMIntegration": [
        (
            "AllowPassingInstanceRole",
            ["iam:PassRole"],
            ["<NodesRole.Arn>"],
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        (
            "AllowScopedInstanceProfileCreationActions",
            ["iam:CreateInstanceProfile"],
            PROFILES,
            {"StringEquals": PROFILE_ASKED, "StringLike": {f"aws:RequestTag/{CLASS}": "*"}},
        ),
        (
            "AllowScopedInstanceProfileTagActions",
            ["iam:TagInstanceProfile"],
            PROFILES,
            {
                "StringEquals": {**PROFILE_HELD, **PROFILE_ASKED},
                "StringLike": {f"aws:ResourceTag/{CLASS}": "*", f"aws:RequestTag/{CLASS}": "*"},
            },
        ),
        (
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            PROFILES,
            {"StringEquals": PROFILE_HELD, "StringLike": {f"aws:ResourceTag/{CLASS}": "*"}},
        ),
    ],
    "EKSIntegration": [("AllowAPIServerEndpointDiscovery", ["eks:DescribeCluster"], [CLUSTER], {})],
    "Interruption": [
        (
            "AllowInterruptionQueueActions",
            ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            ["<InterruptionQueue.Arn>"],
            {},
        )
    ],
    "ZonalShift": [
        (
            "AllowZonalShiftStatusReadOnly",
            ["arc-zonal-shift:GetManagedResource"],
            ["*"],
            {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": CLUSTER}},
        )
    ],
    "ResourceDiscovery": [
        (
            "AllowRegionalReadActions",
            [
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeImages",
                "ec2:DescribeInstances",
                "ec2:DescribeInstanceStatus",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplates",
                "ec2:DescribePlacementGroups",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSpotPriceHistory",
                "ec2:DescribeSubnets",
            ],
            ["*"],
            {"StringEquals": {"aws:RequestedRegion": "us-west-2"}},
        ),
        ("AllowSSMReadActions", ["ssm:GetParameter"], ["arn:aws:ssm:us-west-2::parameter/aws/service/*"], {}),
        ("AllowPricingReadActions", ["pricing:GetProducts"], ["*"], {}),
        ("AllowUnscopedInstanceProfileListAction", ["iam:ListInstanceProfiles"], ["*"], {}),
        ("AllowInstanceProfileReadActions", ["iam:GetInstanceProfile"], PROFILES, {}),
    ],
}


def _document(assembly: Assembly, part: str) -> dict[str, Any]:
    name = f"KarpenterController{part}Policy-training-on-eks"
    return assembly.named("AWS::IAM::ManagedPolicy", "ManagedPolicyName", name)["PolicyDocument"]


def _plain(value: Any, assembly: Assembly) -> Any:
    """An expression as the table writes it: references by the logical id without its hash."""
    if isinstance(value, list):
        return [_plain(item, assembly) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        if not any(key.startswith("Fn::") or key == "Ref" for key in mapping):
            return {key: _plain(item, assembly) for key, item in mapping.items()}
    text = flatten(value).replace("<AWS::AccountId>", "ACCOUNT")
    for logical_id in assembly.templates["karpenter"]["Resources"]:
        text = text.replace(f"<{logical_id}.", f"<{logical_id[:-8]}.")
    return text


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


@pytest.mark.parametrize("part", TABLE)
def test_s0_4_each_statement_is_exactly_the_tables(part: str, assembly: Assembly) -> None:
    statements = _document(assembly, part)["Statement"]
    assert {statement["Effect"] for statement in statements} == {"Allow"}
    written = [
        (
            statement["Sid"],
            _listed(statement["Action"]),
            _plain(_listed(statement["Resource"]), assembly),
            _plain(statement.get("Condition", {}), assembly),
        )
        for statement in statements
    ]
    assert written == TABLE[part]
    assert not any({"NotAction", "NotResource", "Principal"} & statement.keys() for statement in statements)


def test_s0_4_there_is_no_policy_beside_the_tables(assembly: Assembly) -> None:
    names = {p["Properties"]["ManagedPolicyName"] for p in assembly.resources("AWS::IAM::ManagedPolicy").values()}
    assert names == {f"KarpenterController{part}Policy-training-on-eks" for part in TABLE}
    assert not assembly.resources("AWS::IAM::Policy", "karpenter")


def test_s0_4_the_policies_name_thirty_two_actions(assembly: Assembly) -> None:
    documents = [p["Properties"]["PolicyDocument"] for p in assembly.resources("AWS::IAM::ManagedPolicy").values()]
    statements = [statement for document in documents for statement in document["Statement"]]
    actions = {action for statement in statements for action in _listed(statement["Action"])}
    assert len(actions) == 32


@pytest.mark.parametrize("part", TABLE)
def test_each_policy_fits_into_iams_6144_characters(part: str, assembly: Assembly) -> None:
    # Counted as IAM does: without white space, and with an account id of twelve digits.
    text = json.dumps(_plain(_document(assembly, part), assembly), separators=(",", ":"))
    assert len(text.replace("ACCOUNT", "1" * 12)) < 6144
