"""Kinds of text in an environment file, each with a pattern for editors and words for people."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import StringConstraints

LABEL_VALUE_LENGTH: Final = 63
"""Longest Kubernetes label value: a pool's and a node class's name become one on every node."""

CLUSTER_NAME_LENGTH: Final = 40
"""IAM's 64 characters for a role name, less the 24 of `KarpenterControllerRole-`."""

_CLUSTER_NAME: Final = r"^[A-Za-z][A-Za-z0-9-]*$"
_DNS_NAME: Final = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
_DURATION: Final = r"^(([0-9]+(s|m|h))+|Never)$"
_IMAGE_REPOSITORY: Final = r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$"
_INSTANCE_TYPE: Final = r"^[a-z0-9-]+\.[a-z0-9-]+$"
_KUBERNETES_VERSION: Final = r"^1\.[0-9]{2}$"
_LABEL_VALUE: Final = r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$"
_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$"
_REGION: Final = r"^[a-z]{2}(-[a-z]+)+-[0-9]$"
_RELEASE: Final = r"^[0-9]+\.[0-9]+\.[0-9]+$"
_ROLE_NAME: Final = r"^[A-Za-z0-9+=,.@_-]+$"
_VOLUME_SIZE: Final = r"^[1-9][0-9]*(Gi|Ti)$"

MEANINGS: Final[Mapping[str, str]] = {
    _CLUSTER_NAME: "letters, digits and hyphens, beginning with a letter, such as training-on-eks",
    _DNS_NAME: "lower-case letters, digits and hyphens, such as gpu-pool",
    _DURATION: "a time such as 30s, 1m or 720h, or Never",
    _IMAGE_REPOSITORY: "a registry and a path without a tag, such as public.ecr.aws/karpenter/controller",
    _INSTANCE_TYPE: "an EC2 instance type such as m6i.large",
    _KUBERNETES_VERSION: 'a minor version such as "1.33"',
    _LABEL_VALUE: "letters, digits, hyphens, dots and underscores, beginning and ending with a letter or digit",
    _QUANTITY: 'a Kubernetes quantity such as "1", 500m or 1Gi',
    _REGION: "an AWS Region such as us-west-2",
    _RELEASE: "a release such as 1.14.1, without a v",
    _ROLE_NAME: "a role's name, letters, digits and +=,.@_-, not an ARN",
    _VOLUME_SIZE: "a size with its unit, such as 100Gi",
}
"""What each pattern means, for messages."""

ClusterName = Annotated[str, StringConstraints(pattern=_CLUSTER_NAME, max_length=CLUSTER_NAME_LENGTH)]
DnsName = Annotated[str, StringConstraints(pattern=_DNS_NAME, max_length=LABEL_VALUE_LENGTH)]
Duration = Annotated[str, StringConstraints(pattern=_DURATION)]
ImageRepository = Annotated[str, StringConstraints(pattern=_IMAGE_REPOSITORY, max_length=255)]
InstanceType = Annotated[str, StringConstraints(pattern=_INSTANCE_TYPE)]
KubernetesVersion = Annotated[str, StringConstraints(pattern=_KUBERNETES_VERSION)]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, max_length=LABEL_VALUE_LENGTH)]
Quantity = Annotated[str, StringConstraints(pattern=_QUANTITY)]
Region = Annotated[str, StringConstraints(pattern=_REGION)]
Release = Annotated[str, StringConstraints(pattern=_RELEASE)]
RoleName = Annotated[str, StringConstraints(pattern=_ROLE_NAME, max_length=64)]
VolumeSize = Annotated[str, StringConstraints(pattern=_VOLUME_SIZE)]
