"""The controller's policies as a table: who may do what, to what, on which condition.

Both ways: nothing is missing from the templates, and nothing is there that the table does not have.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from configuration.releases import KARPENTER_IMAGE_DIGESTS, numbers
from eks_gpu.controller_policies import Scope, controller_policies
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
    beside = assembly.resources("AWS::IAM::Policy", "karpenter").values()
    assert [policy["Properties"]["PolicyName"] for policy in beside] == ["CreateSpotRole"]  # another role's


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


def _by_release(release: str) -> dict[str, list[tuple[str, list[str], list[str], dict[str, Any]]]]:
    """The table as a release needs it: what upstream's templates of v1.8.8 to v1.14.1 differ in."""
    table = {part: list(statements) for part, statements in TABLE.items()}
    if numbers(release) < (1, 12):
        del table["ZonalShift"]
        _change(table, "ResourceDiscovery", "AllowRegionalReadActions", remove="ec2:DescribeInstanceStatus")
    if numbers(release) < (1, 11):
        _change(table, "ResourceDiscovery", "AllowRegionalReadActions", remove="ec2:DescribePlacementGroups")
        (placement_groups,) = _ec2("placement-group")
        _change(table, "NodeLifecycle", "AllowScopedEC2InstanceAccessActions", remove=placement_groups)
    if numbers(release) < (1, 9):
        (reservations,) = _ec2("capacity-reservation")
        _change(table, "NodeLifecycle", "AllowScopedEC2InstanceActionsWithTags", add=reservations)
    return table


def _change(table: dict[str, Any], part: str, sid: str, *, add: str = "", remove: str = "") -> None:
    (index,) = [i for i, statement in enumerate(table[part]) if statement[0] == sid]
    _, actions, resources, conditions = table[part][index]
    actions = [action for action in actions if action != remove]
    resources = [resource for resource in resources if resource != remove] + ([add] if add else [])
    assert table[part][index] != (sid, actions, resources, conditions)
    table[part][index] = (sid, actions, resources, conditions)


def _scope(cluster_name: str, partition: str = "aws", region: str = "us-west-2", account: str = "ACCOUNT") -> Scope:
    return Scope(
        partition=partition,
        region=region,
        account=account,
        cluster_name=cluster_name,
        node_role_arn="<NodesRole.Arn>",
        queue_arn="<InterruptionQueue.Arn>",
    )


def _rows(documents: Mapping[str, Any]) -> dict[str, list[tuple[str, list[str], list[str], dict[str, Any]]]]:
    return {
        part: [(s["Sid"], s["Action"], s["Resource"], s.get("Condition", {})) for s in document["Statement"]]
        for part, document in documents.items()
    }


@pytest.mark.parametrize("release", KARPENTER_IMAGE_DIGESTS)
def test_s0_4_each_release_gets_exactly_what_it_needs(release: str) -> None:
    documents = controller_policies(_scope("training-on-eks"), release)
    assert _rows(documents) == _by_release(release)
    assert {s["Effect"] for document in documents.values() for s in document["Statement"]} == {"Allow"}


@pytest.mark.parametrize(
    ("release", "count"), [("1.8.8", 29), ("1.9.2", 29), ("1.10.2", 29), ("1.11.3", 30), ("1.12.2", 32), ("1.14.1", 32)]
)
def test_s0_4_each_release_names_so_many_actions(release: str, count: int) -> None:
    documents = controller_policies(_scope("training-on-eks"), release).values()
    assert len({action for document in documents for s in document["Statement"] for action in s["Action"]}) == count


def test_a_release_whose_permissions_are_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Karpenter 1\.6\.0: .* use 1\.7 or later, or write them"):
        controller_policies(_scope("training-on-eks"), "1.6.0")


@pytest.mark.parametrize(
    ("partition", "region"),
    [("aws", "ap-southeast-1"), ("aws-us-gov", "us-gov-west-1"), ("aws-cn", "cn-northwest-1"), ("aws", "x" * 20)],
)
@pytest.mark.parametrize("release", ["1.8.8", "1.14.1"])
def test_each_policy_fits_for_the_longest_names(release: str, partition: str, region: str) -> None:
    # 100 characters: the longest name that EKS takes. Counted as IAM does, without white space.
    role = f"arn:{partition}:iam::{'1' * 12}:role/{'r' * 64}"
    queue = f"arn:{partition}:sqs:{region}:{'1' * 12}:{'c' * 80}"
    scope = Scope(
        partition=partition,
        region=region,
        account="1" * 12,
        cluster_name="c" * 100,
        node_role_arn=role,
        queue_arn=queue,
    )
    for part, document in controller_policies(scope, release).items():
        assert len(json.dumps(document, separators=(",", ":"))) < 6144, part


@pytest.mark.parametrize(("partition", "region"), [("aws-cn", "cn-north-1"), ("aws-us-gov", "us-gov-west-1")])
def test_policies_keep_to_their_partition(partition: str, region: str) -> None:
    documents = controller_policies(_scope("training-on-eks", partition, region), "1.14.1")
    text = json.dumps(documents)
    arns = [part.partition(":")[0] for part in text.split("arn:")[1:]]
    assert set(arns) == {partition}
    assert "us-west-2" not in text
    (passing,) = [s for s in documents["IAMIntegration"]["Statement"] if s["Sid"] == "AllowPassingInstanceRole"]
    assert "ec2.amazonaws.com.cn" in passing["Condition"]["StringEquals"]["iam:PassedToService"]
