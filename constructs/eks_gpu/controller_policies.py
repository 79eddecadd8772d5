"""What Karpenter's controller may do in AWS: six policies, statement by statement.

Source: karpenter-provider-aws v1.14.1, website/content/en/preview/getting-started/getting-started-with-karpenter/
cloudformation.yaml. Condition keys are literals because the cluster's name is known when the template is written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_iam as iam

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
        cluster_name: Name of the cluster; a literal, since it is part of condition keys.
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


def controller_policies(scope: Scope) -> Mapping[str, iam.PolicyDocument]:
    """Write the controller's policies.

    Args:
        scope: What they are narrowed to.

    Returns:
        Documents by the middle part of the policy's name: `KarpenterController<part>Policy-<cluster>`.
    """
    return {
        "NodeLifecycle": _document(_node_lifecycle(scope)),
        "IAMIntegration": _document(_iam_integration(scope)),
        "EKSIntegration": _document(
            [_allow("AllowAPIServerEndpointDiscovery", ["eks:DescribeCluster"], [scope.cluster_arn])]
        ),
        "Interruption": _document(
            [
                _allow(
                    "AllowInterruptionQueueActions",
                    ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                    [scope.queue_arn],
                )
            ]
        ),
        "ZonalShift": _document(
            [
                _allow(
                    "AllowZonalShiftStatusReadOnly",
                    ["arc-zonal-shift:GetManagedResource"],
                    ["*"],
                    {"StringEquals": {"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn}},
                )
            ]
        ),
        "ResourceDiscovery": _document(_resource_discovery(scope)),
    }


def _node_lifecycle(scope: Scope) -> list[iam.PolicyStatement]:
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
    return [
        _allow(
            "AllowScopedEC2InstanceAccessActions",
            buy,
            scope.ec2_unowned("image snapshot")
            + scope.ec2("security-group subnet capacity-reservation placement-group"),
        ),
        _allow("AllowScopedEC2LaunchTemplateAccessActions", buy, scope.ec2("launch-template"), owned),
        _allow(
            "AllowScopedEC2InstanceActionsWithTags",
            [*buy, "ec2:CreateLaunchTemplate"],
            scope.ec2(_TAGGABLE),
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


def _iam_integration(scope: Scope) -> list[iam.PolicyStatement]:
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


def _resource_discovery(scope: Scope) -> list[iam.PolicyStatement]:
    described = (
        "CapacityReservations Images Instances InstanceStatus InstanceTypeOfferings InstanceTypes LaunchTemplates "
        "PlacementGroups SecurityGroups SpotPriceHistory Subnets"
    )
    return [
        _allow(
            "AllowRegionalReadActions",
            [f"ec2:Describe{what}" for what in described.split()],
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
    sid: str, actions: list[str], resources: list[str], conditions: Mapping[str, Any] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(sid=sid, actions=actions, resources=resources, conditions=conditions)


def _document(statements: Iterable[iam.PolicyStatement]) -> iam.PolicyDocument:
    # Unminimised: merged statements lose the sid that says what each is for.
    return iam.PolicyDocument(statements=list(statements), minimize=False)
