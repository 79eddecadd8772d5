# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""IAM: service-linked roles with AWS's names, and ``iam:PassRole`` where a role goes into an instance profile.

Service Authorization Reference, "Actions, resources, and condition keys for AWS Identity and Access Management":
CreateServiceLinkedRole is asked about the role that comes to be, with ``iam:AWSServiceName``; AddRoleToInstanceProfile
depends on ``iam:PassRole`` of the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ministack.core.responses import get_account_id
from ministack.services import iam

from rehearsal.aws.emulator import authorisation
from rehearsal.aws.events import EventLog
from rehearsal.compute.ec2 import Context, Denial

Params: TypeAlias = dict[str, list[str]]
Answer: TypeAlias = tuple[int, dict[str, str], bytes]

_NAMES = {"spot.amazonaws.com": "AWSServiceRoleForEC2Spot"}
"""Service -> its role's name, where that is not what MiniStack makes of the service's name."""


def install(log: EventLog) -> None:
    """Put our questions before MiniStack's actions."""
    handlers: dict[str, Any] = iam._IAM_HANDLERS
    make, add = handlers["CreateServiceLinkedRole"], handlers["AddRoleToInstanceProfile"]

    def create_service_linked_role(params: Params) -> Answer:
        service = params.get("AWSServiceName", [""])[0]
        denial = _ask(log, "iam:CreateServiceLinkedRole", role_arn(service), {"iam:AWSServiceName": service})
        return _refused(denial) if denial else _named(service, make(params))

    def add_role(params: Params) -> Answer:
        role: Mapping[str, Any] | None = iam._roles.get(params.get("RoleName", [""])[0])
        passed: Context = {"iam:PassedToService": "ec2.amazonaws.com"}
        denial = _ask(log, "iam:PassRole", role["Arn"], passed) if role else None
        return _refused(denial) if denial else add(params)

    handlers["CreateServiceLinkedRole"] = create_service_linked_role
    handlers["AddRoleToInstanceProfile"] = add_role


def role_name(service: str) -> str:
    """Name of a service's linked role."""
    return _NAMES.get(service, f"AWSServiceRoleFor{service.partition('.')[0].capitalize()}")


def role_arn(service: str) -> str:
    """ARN of a service's linked role in the account that is being served."""
    return f"arn:aws:iam::{get_account_id()}:role/aws-service-role/{service}/{role_name(service)}"


def ensure_service_linked_role(service: str) -> bool:
    """Whether the account has a service's linked role; one that is absent is made where the caller may make it."""
    if role_name(service) not in iam._roles:
        # Ours since install(), so that the caller's permission is asked.
        iam._IAM_HANDLERS["CreateServiceLinkedRole"]({"AWSServiceName": [service]})
    return role_name(service) in iam._roles


def _named(service: str, answer: Answer) -> Answer:
    """MiniStack's answer, and the role it made, with the name that AWS gives the role."""
    ours = role_name(service)
    if answer[0] >= 400:
        said = f"Service role name {ours} has been taken in this account, please try a different suffix."
        return iam._error(400, "InvalidInput", said, ns="iam")
    theirs = f"AWSServiceRoleFor{service.partition('.')[0].capitalize()}"
    if theirs == ours:
        return answer
    record: dict[str, Any] = iam._roles.pop(theirs)
    if ours in iam._roles:
        return _named(service, (409, {}, b""))
    iam._roles[ours] = record | {"RoleName": ours, "Arn": role_arn(service)}
    return answer[0], answer[1], answer[2].replace(theirs.encode(), ours.encode())


def _ask(log: EventLog, action: str, resource: str, context: Context) -> Denial | None:
    denial = authorisation.authorise(action, resource, context)
    if denial is not None:
        authorisation.report_denial(log, denial.principal_arn, action, resource, explicit=denial.explicit)
    return denial


def _refused(denial: Denial) -> Answer:
    said = (
        f"User: {denial.principal_arn} is not authorized to perform: {denial.action} on resource: {denial.resource} "
        f"{denial.because}"
    )
    return iam._error(403, "AccessDenied", said, ns="iam")
