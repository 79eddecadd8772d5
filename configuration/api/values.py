r"""Kinds of values in Karpenter's API: the patterns of its CRDs, each with words for people.

The patterns are for Rust's regular expressions, which pydantic uses, as the CRDs' are for Go's: both search unless
anchored, and `$` is the end of the text alone. Go's `\d` and `\s` are ASCII's, Rust's are not; they are written out.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, Strict, StringConstraints

Item = TypeVar("Item")

Items = Annotated[tuple[Item, ...], Strict(False)]
"""A list in a file, a tuple here; what is in it stays strict."""

_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY: Final = rf"(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?"
_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOUBLE_QUOTED: Final = 'a Kubernetes quantity such as "1", 500m or 1Gi'

AMI_ID: Final = "ami-[0-9a-z]+"
BUDGET_DURATION: Final = "^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"
BUDGET_NODES: Final = "^((100|[0-9]{1,2})%|[0-9]+)$"
BUDGET_SCHEDULE: Final = (
    r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|"
    r"((.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+)[\t\n\f\r ](.+))$"
)
CAPACITY_RESERVATION_ID: Final = "^cr-[0-9a-z]+$"
DURATION: Final = "^([0-9]+(s|m|h))+$"
DURATION_OR_NEVER: Final = "^(([0-9]+(s|m|h))+|Never)$"
EVICTION_THRESHOLD: Final = rf"^(([0-9]{{1,2}}(\.[0-9]{{1,2}})?|100(\.0{{1,2}})?)%||{_QUANTITY})$"
GROUP: Final = "^[^/]*$"
LABEL_VALUE: Final = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"
PLACEMENT_GROUP_ID: Final = "^pg-[0-9a-z]+$"
QUALIFIED_NAME: Final = rf"^({_DNS_LABEL}(\.{_DNS_LABEL})*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
QUANTITY: Final = f"^{_QUANTITY}$"
SECURITY_GROUP_ID: Final = "sg-[0-9a-z]+"
SUBNET_ID: Final = "subnet-[0-9a-z]+"
ACCOUNT_ID: Final = "^[0-9]{12}$"
VOLUME_SIZE: Final = (
    "^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi"
    "|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G"
    "|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$"
)

MEANINGS: Final[Mapping[str, str]] = {
    ACCOUNT_ID: 'the twelve digits of an AWS account, in quotes, such as "123456789012"',
    AMI_ID: "an image's id such as ami-0123456789abcdef0",
    BUDGET_DURATION: "hours and minutes such as 8h, 30m or 1h30m",
    BUDGET_NODES: 'a share or a number of nodes in quotes, such as 10% or "1"',
    BUDGET_SCHEDULE: 'a time in UTC as for cron, such as "0 9 * * mon-fri", or @daily and the like',
    CAPACITY_RESERVATION_ID: "a capacity reservation's id such as cr-0123456789abcdef0",
    DURATION: "a time such as 30s, 15m or 48h",
    DURATION_OR_NEVER: "a time such as 30s, 1m or 720h, or Never",
    EVICTION_THRESHOLD: "a share such as 5%, or a Kubernetes quantity such as 500Mi",
    GROUP: "an API group without a version, such as karpenter.k8s.aws",
    LABEL_VALUE: "letters, digits, hyphens, dots and underscores, beginning and ending with a letter or digit",
    PLACEMENT_GROUP_ID: "a placement group's id such as pg-0123456789abcdef0",
    QUALIFIED_NAME: "a name such as gpu-workload or nvidia.com/gpu, as Kubernetes has them for labels and taints",
    QUANTITY: _DOUBLE_QUOTED,
    SECURITY_GROUP_ID: "a security group's id such as sg-0123456789abcdef0",
    SUBNET_ID: "a subnet's id such as subnet-0123456789abcdef0",
    VOLUME_SIZE: "a size with its unit, such as 100Gi",
}
"""What each pattern means, for messages."""

_DATE_TIME_END: Final = re.compile(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\Z")


def _date_time(text: str) -> str:
    """Refuse what is no date and time to the API server (k8s.io/kube-openapi, pkg/validation/strfmt/time.go)."""
    parts = text.lower().split("t")
    found = _DATE_TIME_END.match(parts[1]) if len(parts) > 1 else None
    if not found or found[1] > "23" or found[2] > "59" or found[3] > "59" or not _is_date(parts[0]):
        raise ValueError('must be a date and a time in quotes, such as "2026-11-21T08:00:00Z"')
    return text


def _is_date(text: str) -> bool:
    found = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    if not found:
        return False
    year, month, day = (int(part) for part in found.groups())
    try:
        # Go knows a year 0, which was a leap year; Python begins at 1.
        date(year or 4, month, day)
    except ValueError:
        return False
    return True


AccountId = Annotated[str, StringConstraints(pattern=ACCOUNT_ID)]
DateTime = Annotated[str, AfterValidator(_date_time)]
Duration = Annotated[str, StringConstraints(pattern=DURATION)]
DurationOrNever = Annotated[str, StringConstraints(pattern=DURATION_OR_NEVER)]
EvictionThreshold = Annotated[str, StringConstraints(pattern=EVICTION_THRESHOLD)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
LabelValue = Annotated[str, StringConstraints(pattern=LABEL_VALUE, max_length=63)]
Natural = Annotated[int, Field(ge=0, le=2**63 - 1)]
Percent = Annotated[int, Field(ge=0, le=100)]
QualifiedName = Annotated[str, StringConstraints(pattern=QUALIFIED_NAME)]
Quantity = Annotated[str, StringConstraints(pattern=QUANTITY)]
