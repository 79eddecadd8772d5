# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""IAM at the gateway: who calls, which questions are ours to ask, and a record of every refusal.

MiniStack's gateway asks its evaluator once a request, about one resource. EC2's buying calls are authorised by AWS on
every resource that they touch (Service Authorization Reference, "Actions, resources, and condition keys for Amazon
EC2"), so for those the gateway only authenticates, and the EC2 service asks for each resource through
:func:`authorise`.
"""

from __future__ import annotations

import contextvars
import re
from collections.abc import Mapping
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator
from ministack.core.responses import get_account_id, get_region
from ministack.core.router import extract_access_key_id
from ministack.services import iam, tagging

from rehearsal.aws.events import EventLog
from rehearsal.compute.ec2 import Context, Denial

ASKED_PER_RESOURCE = frozenset(
    {"CreateFleet", "RunInstances", "CreateLaunchTemplate", "DeleteLaunchTemplate", "TerminateInstances", "CreateTags"}
)
"""EC2 actions that the EC2 service authorises itself, resource by resource."""

_access_key: contextvars.ContextVar[str] = contextvars.ContextVar("rehearsal_access_key", default="")


def install(log: EventLog) -> None:
    """Put our questions in the place of the gateway's, and write every refusal to the run's events."""
    extract_action = iam_actions.extract_iam_action
    extract_resource = iam_actions.extract_resource_arn
    refuse = iam_actions.access_denied_response

    def extract(
        service: str, method: str, path: str, headers: dict[str, str], body: bytes, query_params: dict[str, Any]
    ) -> str | None:
        note_caller(headers, query_params)
        action: str | None = extract_action(service, method, path, headers, body, query_params)
        if action and service == "ec2" and action.removeprefix("ec2:") in ASKED_PER_RESOURCE:
            return None
        return None if action == "iam:CreateServiceLinkedRole" else action

    def resource_arn(service: str, *args: Any) -> str:
        arn: str = extract_resource(service, *args)
        return _corrected(service, args[4], arn)

    def refused(service: str, action: str, principal_arn: str, request_id: str, *args: Any, **kwargs: Any) -> Any:
        report_denial(
            log, principal_arn, action, kwargs.get("resource_arn") or "*", explicit=bool(kwargs.get("explicit_deny"))
        )
        return refuse(service, action, principal_arn, request_id, *args, **kwargs)

    pin_origin = app.pin_request_origin
    # The endpoint stands for AWS's, which clients only ever reach by TLS: policies that deny plain HTTP must not bite.
    app.pin_request_origin = lambda source_ip, _: pin_origin(source_ip, True)
    collect_iam = tagging._RESOURCE_TAG_COLLECTORS["iam"]
    collectors: dict[str, Any] = tagging._RESOURCE_TAG_COLLECTORS
    collectors["iam"] = lambda: [*collect_iam(), *((p["Arn"], p["Tags"]) for p in iam._instance_profiles.values())]
    iam_actions.extract_resource_arn = resource_arn
    iam_actions.extract_iam_action = extract
    iam_actions.access_denied_response = refused


def note_caller(headers: Mapping[str, str], query_params: Mapping[str, Any]) -> None:
    """Remember who makes the request that is being served, for :func:`authorise`."""
    _access_key.set(extract_access_key_id(dict(headers), dict(query_params)))


def _corrected(service: str, params: dict[str, Any], arn: str) -> str:
    """The ARN that AWS asks about where MiniStack asks about another.

    Public parameters have no account in their ARN (Systems Manager user guide, "Calling AMI public parameters"); an IAM
    call that names an instance profile is about that, also where it names a role (Service Authorization Reference,
    "Actions, resources, and condition keys for AWS Identity and Access Management").
    """
    if service == "ssm":
        return re.sub(r"^(arn:[^:]+:ssm:[^:]+):\d+:parameter/aws/service/", r"\1::parameter/aws/service/", arn)
    profile = params.get("InstanceProfileName", [""])[0]
    if service == "iam" and profile:
        record = iam._instance_profiles.get(profile)
        path = params.get("Path", ["/"])[0]
        return record["Arn"] if record else f"arn:aws:iam::{get_account_id()}:instance-profile{path}{profile}"
    return arn


def report_denial(log: EventLog, principal_arn: str, action: str, resource: str, *, explicit: bool) -> None:
    """Write one refusal to the run's events, in words that name the missing permission."""
    why = "a statement denies it" if explicit else "no statement of its policies allows it"
    log.write(
        "access-denied",
        f"{principal_arn} was denied {action} on {resource}: {why}",
        principal=principal_arn,
        action=action,
        resource=resource,
    )


def authorise(action: str, resource: str, context: Context) -> Denial | None:
    """Ask MiniStack's evaluator about one resource for the caller of the request that is being served.

    Args:
        action: for example ``ec2:RunInstances``.
        resource: an ARN.
        context: condition keys (``aws:RequestTag/...``, ``ec2:CreateAction``, ...) and their values.

    Raises:
        PermissionError: the caller's credentials are not valid.
    """
    verdict = iam_evaluator.enforce(
        _access_key.get(),
        action,
        action.partition(":")[0],
        get_region(),
        resource_arn=resource,
        service_context=dict(context),
    )
    if verdict is None:
        return None
    if isinstance(verdict, iam_evaluator.AuthError):
        raise PermissionError(f"{verdict.code}: {verdict.message}")
    return Denial(verdict.principal_arn, action, resource, explicit=verdict.decision == "Deny", context=context)
