"""What the service asks of the rest of the local AWS: networks, identities, and who may do what."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Context = Mapping[str, str | list[str]]
"""Condition keys of one authorisation question, ``{"aws:RequestTag/team": "ml", "aws:TagKeys": ["team"]}``."""


@dataclass(frozen=True)
class Subnet:
    """A subnet as launches need it.

    Args:
        id: for example ``subnet-0123456789abcdef0``.
        vpc_id: the VPC it lies in.
        zone: zone name, for example ``us-west-2a``.
        zone_id: zone id, for example ``usw2-az1``.
        cidr: IPv4 range.
        available_ip_count: free addresses, **without** those that this service's own instances hold.
        tags: its tags; policies may ask for them.
        default_security_group: the VPC's default security group, used by launches that name none.
    """

    id: str
    vpc_id: str
    zone: str
    zone_id: str
    cidr: str
    available_ip_count: int
    tags: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    default_security_group: str | None = None


@dataclass(frozen=True)
class SecurityGroup:
    """A security group as launches need it."""

    id: str
    name: str
    vpc_id: str
    tags: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


class Network(Protocol):
    """The VPC objects of one account and region."""

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet of that id, or ``None``."""
        ...

    def security_groups(self, ids: Sequence[str]) -> Sequence[SecurityGroup]:
        """Those of the asked groups that exist."""
        ...


@dataclass(frozen=True)
class InstanceProfile:
    """An IAM instance profile; ``role_arn`` is ``None`` while it has no role."""

    name: str
    arn: str
    role_arn: str | None
    id: str = "AIPAREHEARSAL00000000"


@dataclass(frozen=True)
class Denial:
    """Why a question was answered with no.

    Args:
        principal_arn: the caller as AWS's messages name it (for a role: the ``assumed-role`` ARN of its session).
        action: for example ``ec2:RunInstances``.
        resource: ARN of the resource that was refused.
        explicit: a statement denies it; otherwise nothing allows it.
        context: the condition keys that were looked at.
    """

    principal_arn: str
    action: str
    resource: str
    explicit: bool = False
    context: Context = field(default_factory=dict[str, "str | list[str]"])

    @property
    def because(self) -> str:
        """The last part of AWS's sentence."""
        if self.explicit:
            return "with an explicit deny in an identity-based policy"
        return f"because no identity-based policy allows the {self.action} action"

    def encoded_message(self) -> str:
        """The question, so that a reader can see what was missing.

        AWS gives an opaque text that ``sts:DecodeAuthorizationMessage`` opens; here it is URL-safe base64 of JSON.
        """
        question = {
            "allowed": False,
            "explicitDeny": self.explicit,
            "context": {
                "principal": self.principal_arn,
                "action": self.action,
                "resource": self.resource,
                "conditions": dict(self.context),
            },
        }
        return base64.urlsafe_b64encode(json.dumps(question, sort_keys=True).encode()).decode()


class Identity(Protocol):
    """IAM, for the caller of the request that is being handled."""

    def instance_profile(self, name_or_arn: str) -> InstanceProfile | None:
        """The instance profile of that name or ARN, or ``None``."""
        ...

    def service_linked_role(self, service: str) -> bool:
        """Whether the account has the role that is linked to a service; EC2 makes it where the caller may."""
        ...

    def authorise(self, action: str, resource: str, context: Context) -> Denial | None:
        """Whether the caller may do ``action`` to the resource of that ARN; ``None`` is yes."""
        ...
