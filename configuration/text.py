"""Kinds of text in an environment file, each with a pattern for editors and words for people."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import StringConstraints

LABEL_VALUE_LENGTH: Final = 63
"""Longest Kubernetes label value: a pool's and a node class's name become one on every node."""

CLUSTER_NAME_LENGTH: Final = 40
"""IAM's 64 characters for a role name, less the 24 of `KarpenterControllerRole-`."""

_ADDON_VERSION: Final = r"^(default|v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+)$"
_CLUSTER_NAME: Final = r"^[A-Za-z][A-Za-z0-9-]*$"
_DNS_NAME: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
_DURATION: Final = r"^(([0-9]+(s|m|h))+|Never)$"
_IMAGE_REPOSITORY: Final = r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$"
_INSTANCE_TYPE: Final = r"^[a-z0-9-]+\.[a-z0-9-]+$"
_KMS_KEY: Final = r"^(own|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+)$"
_KUBERNETES_VERSION: Final = r"^1\.[0-9]{2}$"
_PRINCIPAL: Final = r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]+$"
_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"
_REGION: Final = r"^[a-z]{2}(-[a-z]+)+-[0-9]$"
_RELEASE: Final = r"^[0-9]+\.[0-9]+\.[0-9]+$"
_ROLE_NAME: Final = r"^[A-Za-z0-9+=,.@_-]+$"
_SUBNET_ID: Final = r"^subnet-[0-9a-f]{8,17}$"
_TAG_KEY: Final = r"^[A-Za-z0-9 _.:/=+@-]+$"
_TAG_VALUE: Final = r"^[A-Za-z0-9 _.:/=+@-]*$"
_TOPIC: Final = r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$"
_VPC_ID: Final = r"^vpc-[0-9a-f]{8,17}$"

MEANINGS: Final[Mapping[str, str]] = {
    _ADDON_VERSION: "default, or a version such as v1.20.4-eksbuild.2 (aws eks describe-addon-versions lists them)",
    _CLUSTER_NAME: "letters, digits and hyphens, beginning with a letter, such as training-on-eks",
    _DNS_NAME: "lower-case letters, digits and hyphens, such as gpu-pool",
    _DURATION: "a time such as 30s, 1m or 720h, or Never",
    _IMAGE_REPOSITORY: "a registry and a path without a tag, such as public.ecr.aws/karpenter/controller",
    _INSTANCE_TYPE: "an EC2 instance type such as m6i.large",
    _KMS_KEY: (
        "own, or the ARN of a key such as arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    ),
    _KUBERNETES_VERSION: 'a minor version such as "1.33"',
    _PRINCIPAL: "the ARN of an IAM role or user, such as arn:aws:iam::123456789012:role/admin",
    _QUANTITY: 'a Kubernetes quantity such as "1", 500m or 1Gi',
    _REGION: "an AWS Region such as us-west-2",
    _RELEASE: "a release such as 1.14.1, without a v",
    _ROLE_NAME: "a role's name, letters, digits and +=,.@_-, not an ARN",
    _SUBNET_ID: "a subnet's id such as subnet-0123456789abcdef0",
    _TAG_KEY: "letters, digits, spaces and _.:/=+-@, such as team",
    _TAG_VALUE: "letters, digits, spaces and _.:/=+-@",
    _TOPIC: "the ARN of an SNS topic, such as arn:aws:sns:us-west-2:123456789012:on-call",
    _VPC_ID: "a VPC's id such as vpc-0123456789abcdef0",
}
"""What each pattern means, for messages."""

AddonVersion = Annotated[str, StringConstraints(pattern=_ADDON_VERSION)]
ClusterName = Annotated[str, StringConstraints(pattern=_CLUSTER_NAME, max_length=CLUSTER_NAME_LENGTH)]
DnsName = Annotated[str, StringConstraints(pattern=_DNS_NAME, max_length=LABEL_VALUE_LENGTH)]
Duration = Annotated[str, StringConstraints(pattern=_DURATION)]
ImageRepository = Annotated[str, StringConstraints(pattern=_IMAGE_REPOSITORY, max_length=255)]
InstanceType = Annotated[str, StringConstraints(pattern=_INSTANCE_TYPE)]
KmsKey = Annotated[str, StringConstraints(pattern=_KMS_KEY)]
KubernetesVersion = Annotated[str, StringConstraints(pattern=_KUBERNETES_VERSION)]
PrincipalArn = Annotated[str, StringConstraints(pattern=_PRINCIPAL)]
Quantity = Annotated[str, StringConstraints(pattern=_QUANTITY)]
Region = Annotated[str, StringConstraints(pattern=_REGION)]
Release = Annotated[str, StringConstraints(pattern=_RELEASE)]
RoleName = Annotated[str, StringConstraints(pattern=_ROLE_NAME, max_length=64)]
SubnetId = Annotated[str, StringConstraints(pattern=_SUBNET_ID)]
TagKey = Annotated[str, StringConstraints(pattern=_TAG_KEY, max_length=128)]
TagValue = Annotated[str, StringConstraints(pattern=_TAG_VALUE, max_length=256)]
TopicArn = Annotated[str, StringConstraints(pattern=_TOPIC)]
VpcId = Annotated[str, StringConstraints(pattern=_VPC_ID)]
