"""What Karpenter's controller may do in AWS: policies, statement by statement, for each of its releases.

Source: karpenter-provider-aws v1.8.8 to v1.14.1, website/content/en/preview/getting-started/
getting-started-with-karpenter/cloudformation.yaml. Up to 1.8 upstream has one policy, from 1.9 on several; here
they are always several, because one policy outgrows IAM's 6,144 characters where a cluster's name is long.

Everything here is plain text and dictionaries, so that a document can be read, counted and tested without a template.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from configuration.releases import numbers

Statement = dict[str, Any]
Document = dict[str, Any]

OLDEST_RELEASE: Final = (1, 7)
"""Oldest release whose permissions are known here: 1.6 and before need iam:GetRole as well."""

PLACEMENT_GROUPS_SINCE: Final = (1, 11)
ZONAL_SHIFT_SINCE: Final = (1, 12)
"""Also the release that first asks for the status of instances (ec2:DescribeInstanceStatus). What 1.12's own template
has for both is narrowed as 1.13's is: with the cluster as the resource the call is not allowed at all."""
CAPACITY_RESERVATION_TAGS_UNTIL: Final = (1, 9)
"""Before this release capacity reservations are also among what may be bought with tags."""

_TAGGABLE = "fleet instance volume network-interface launch-template spot-instances-request"
_ANY_POOL = "karpenter.sh/nodepool"
_ANY_CLASS = "karpenter.k8s.aws/ec2nodeclass"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the policies are narrowed to.

    Attributes:
        partition: AWS partition, such as aws.
        region: AWS Region.
        account: AWS account.
        cluster_name: Name of the cluster; it is part of condition keys, where CloudFormation takes no reference.
        node_role_arn: ARN of the role that nodes run as.
        queue_arn: ARN of the interruption queue.
    """

    partition: str
    region: str
    account: str
    cluster_name: str
    node_role_arn: str
    queue_arn: str

    @property
    def cluster_arn(self) -> str:
        """ARN of the cluster."""
        return f"arn:{self.partition}:eks:{self.region}:{self.account}:cluster/{self.cluster_name}"

    @property
    def owned(self) -> str:
        """The tag key that marks what belongs to the cluster; its value is `owned`."""
        return f"kubernetes.io/cluster/{self.cluster_name}"

    @property
    def instance_profiles(self) -> str:
        """ARN pattern of the account's instance profiles."""
        return f"arn:{self.partition}:iam::{self.account}:instance-profile/*"

    def ec2(self, kinds: str) -> list[str]:
        """ARN patterns of EC2 resources of any account, by kind."""
        return [f"arn:{self.partition}:ec2:{self.region}:*:{kind}/*" for kind in kinds.split()]

    def ec2_unowned(self, kinds: str) -> list[str]:
        """ARN patterns of EC2 resources that have no account in their ARN, by kind."""
        return [f"arn:{self.partition}:ec2:{self.region}::{kind}/*" for kind in kinds.split()]


def controller_policies(scope: Scope, release: str) -> Mapping[str, Document]:
    """Write the controller's policies.

    Args:
        scope: What they are narrowed to.
        release: Karpenter's release, such as 1.14.1.

    Returns:
        Documents by the middle part of the policy's name: `KarpenterController<part>Policy-<cluster>`.

    Raises:
        ValueError: What the release needs is not known here.
    """
    version = numbers(release)
    if version < OLDEST_RELEASE:
        oldest = ".".join(str(part) for part in OLDEST_RELEASE)
        raise ValueError(
            f"Karpenter {release}: its permissions are not known here; use {oldest} or later, or write them"
        )
    policies = {
        "NodeLifecycle": _node_lifecycle(scope, version),
        "IAMIntegration": _iam_integration(scope),
        "EKSIntegration": [_allow("AllowAPIServerEndpointDiscovery", ["eks:DescribeCluster"], [scope.cluster_arn])],
        "Interruption": [
            _allow(
                "AllowInterruptionQueueActions",
                ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                [scope.queue_arn],
            )
        ],
        "ZonalShift": [
            _allow(
                "AllowZonalShiftStatusReadOnly",
                ["arc-zonal-shift:GetManagedResource"],
                ["*"],
                {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn}},
            )
        ],
        "ResourceDiscovery": _resource_discovery(scope, version),
    }
    if version < ZONAL_SHIFT_SINCE:
        del policies["ZonalShift"]
    return {part: _document(statements) for part, statements in policies.items()}


def wildcards(documents: Iterable[Document]) -> list[str]:
    """Return the resources with a wildcard that documents name, each once and in order: those that need a reason."""
    resources = [
        resource for document in documents for statement in document["Statement"] for resource in statement["Resource"]
    ]
    return list(dict.fromkeys(resource for resource in resources if "*" in resource))


def _node_lifecycle(scope: Scope, version: tuple[int, ...]) -> list[Statement]:
    buy = ["ec2:RunInstances", "ec2:CreateFleet"]
    owned = {
        "StringEquals": {f"aws:ResourceTag/{scope.owned}": "owned"},
        "StringLike": {f"aws:ResourceTag/{_ANY_POOL}": "*"},
    }
    marked = {
        f"aws:RequestTag/{scope.owned}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": scope.cluster_name,
    }
    marked_pool = {f"aws:RequestTag/{_ANY_POOL}": "*"}
    creators = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
    used = "security-group subnet capacity-reservation"
    if version >= PLACEMENT_GROUPS_SINCE:
        used += " placement-group"
    bought = _TAGGABLE
    if version < CAPACITY_RESERVATION_TAGS_UNTIL:
        bought += " capacity-reservation"
    return [
        _allow("AllowScopedEC2InstanceAccessActions", buy, [*scope.ec2_unowned("image snapshot"), *scope.ec2(used)]),
        _allow("AllowScopedEC2LaunchTemplateAccessActions", buy, scope.ec2("launch-template"), owned),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*buy, "ec2:CreateLaunchTemplate"],
            scope.ec2(bought),
            {"StringEquals": marked, "StringLike": marked_pool},
        ),
        _allow(
            "AllowScopedResourceCreationTagging",
            ["ec2:CreateTags"],
            scope.ec2(_TAGGABLE),
            {"StringEquals": {**marked, "ec2:CreateAction": creators}, "StringLike": marked_pool},
        ),
        _allow(
            "AllowScopedResourceTagging",
            ["ec2:CreateTags"],
            scope.ec2("instance"),
            {
                **owned,
                "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": scope.cluster_name},
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
        _allow(
            "AllowScopedDeletion",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            scope.ec2("instance launch-template"),
            owned,
        ),
    ]


def _iam_integration(scope: Scope) -> list[Statement]:
    region = "topology.kubernetes.io/region"
    has = {f"aws:ResourceTag/{scope.owned}": "owned", f"aws:ResourceTag/{region}": scope.region}
    has_class = {f"aws:ResourceTag/{_ANY_CLASS}": "*"}
    gets = {
        f"aws:RequestTag/{scope.owned}": "owned",
        "aws:RequestTag/eks:eks-cluster-name": scope.cluster_name,
        f"aws:RequestTag/{region}": scope.region,
    }
    gets_class = {f"aws:RequestTag/{_ANY_CLASS}": "*"}
    profiles = [scope.instance_profiles]
    return [
        _allow(
            "AllowPassingInstanceRole",
            ["iam:PassRole"],
            [scope.node_role_arn],
            # Both: EC2 in China goes by the second name.
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        _allow(
            "AllowScopedInstanceProfileCreationActions",
            ["iam:CreateInstanceProfile"],
            profiles,
            {"StringEquals": gets, "StringLike": gets_class},
        ),
        _allow(
            "AllowScopedInstanceProfileTagActions",
            ["iam:TagInstanceProfile"],
            profiles,
            {"StringEquals": {**has, **gets}, "StringLike": {**has_class, **gets_class}},
        ),
        _allow(
            "AllowScopedInstanceProfileActions",
            ["iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"],
            profiles,
            {"StringEquals": has, "StringLike": has_class},
        ),
    ]


def _resource_discovery(scope: Scope, version: tuple[int, ...]) -> list[Statement]:
    since = {"PlacementGroups": PLACEMENT_GROUPS_SINCE, "InstanceStatus": ZONAL_SHIFT_SINCE}
    described = (
        "CapacityReservations Images Instances InstanceStatus InstanceTypeOfferings InstanceTypes LaunchTemplates "
        "PlacementGroups SecurityGroups SpotPriceHistory Subnets"
    )
    return [
        _allow(
            "AllowRegionalReadActions",
            [f"ec2:Describe{what}" for what in described.split() if version >= since.get(what, OLDEST_RELEASE)],
            ["*"],
            {"StringEquals": {"aws:RequestedRegion": scope.region}},
        ),
        _allow(
            "AllowSSMReadActions",
            ["ssm:GetParameter"],
            [f"arn:{scope.partition}:ssm:{scope.region}::parameter/aws/service/*"],
        ),
        _allow("AllowPricingReadActions", ["pricing:GetProducts"], ["*"]),
        _allow("AllowUnscopedInstanceProfileListAction", ["iam:ListInstanceProfiles"], ["*"]),
        _allow("AllowInstanceProfileReadActions", ["iam:GetInstanceProfile"], [scope.instance_profiles]),
    ]


def _allow(
    sid: str, actions: Sequence[str], resources: Sequence[str], conditions: Mapping[str, Any] | None = None
) -> Statement:
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}
    return {**statement, "Condition": dict(conditions)} if conditions else statement


def _document(statements: list[Statement]) -> Document:
    return {"Version": "2012-10-17", "Statement": statements}
