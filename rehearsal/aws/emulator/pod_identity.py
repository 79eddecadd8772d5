# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""EKS Auth: a pod's token against the credentials of the role that an EKS Pod Identity association names.

The one operation, its members and errors: EKS Auth API reference, AssumeRoleForPodIdentity. Who takes the role, with
which session tags, and what its trust policy may ask of that: Amazon EKS user guide, "EKS Pod Identity role" and "Grant
Pods access to AWS resources based on tags". Nothing there promises ``aws:SourceArn`` or ``aws:SourceAccount``, so a
trust policy that asks for them is not met here.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from ministack import app
from ministack.core.iam_evaluator import EvalContext, evaluate_trust_policy
from ministack.core.responses import get_account_id, get_region
from ministack.services import eks, iam, sts

from rehearsal.aws.emulator import authorisation
from rehearsal.aws.events import EventLog

SERVICE = "eks-auth"
"""Its signing name."""

PRINCIPAL = "pods.eks.amazonaws.com"
"""The service principal that takes the role, and the audience of the tokens."""

SESSION_S = 6 * 3600
"""How long credentials are good for (user guide, "Understand how EKS Pod Identity works")."""

_PATH = re.compile(r"/clusters/([A-Za-z0-9_-]+)/assume-role-for-pod-identity")


class RefusedError(Exception):
    """A request is refused.

    Args:
        code: the API's name of the error.
        message: why.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Caller:
    """The pod that a token speaks for."""

    namespace: str
    service_account: str
    pod: str
    pod_uid: str

    def session_tags(self, cluster: Mapping[str, Any]) -> list[dict[str, str]]:
        """The tags of its session; all of them are transitive."""
        values = {
            "eks-cluster-arn": str(cluster["arn"]),
            "eks-cluster-name": str(cluster["name"]),
            "kubernetes-namespace": self.namespace,
            "kubernetes-service-account": self.service_account,
            "kubernetes-pod-name": self.pod,
            "kubernetes-pod-uid": self.pod_uid,
        }
        return [{"Key": key, "Value": value} for key, value in values.items()]


def install(log: EventLog) -> None:
    """Serve the API, and write every refusal to the run's events."""

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> tuple[int, dict[str, str], bytes]:
        found = _PATH.fullmatch(path)
        json_type = {"Content-Type": "application/json"}
        try:
            if method != "POST" or found is None:
                raise RefusedError("InvalidRequestException", f"EKS Auth has no {method} {path}")
            authorisation.note_caller(headers, query_params)
            answer = await asyncio.to_thread(assume, found[1], str(json.loads(body or b"{}").get("token", "")), log)
        except RefusedError as refused:
            # The agent tells it too, and in the story the agent's words count.
            log.write("eks-auth-denied", str(refused), code=refused.code)
            refusal = json.dumps({"message": str(refused)}).encode()
            return 400, {**json_type, "x-amzn-errortype": refused.code}, refusal
        return 200, json_type, json.dumps(answer).encode()

    app.SERVICE_HANDLERS[SERVICE] = handle


def assume(cluster_name: str, token: str, log: EventLog) -> dict[str, Any]:
    """``AssumeRoleForPodIdentity``, for the caller of the request that is being served.

    Raises:
        RefusedError: with what does not fit.
    """
    cluster: dict[str, Any] | None = eks._clusters.get(cluster_name)
    if cluster is None:
        raise RefusedError("ResourceNotFoundException", f"No cluster found for name: {cluster_name}.")
    denial = authorisation.authorise("eks-auth:AssumeRoleForPodIdentity", cluster["arn"], {})
    if denial is not None:
        authorisation.report_denial(log, denial.principal_arn, denial.action, denial.resource, explicit=denial.explicit)
        raise RefusedError("AccessDeniedException", f"{denial.principal_arn} may not {denial.action}")
    caller = verify(token, cluster)
    association = _association(cluster_name, caller)
    role_arn = str(association["roleArn"])
    if association.get("targetRoleArn"):
        raise RefusedError("InvalidRequestException", "the rehearsal does not simulate target roles of associations")
    tags = [] if association.get("disableSessionTags") else caller.session_tags(cluster)
    _check_trust(role_arn, caller, tags)
    return _session(role_arn, caller, cluster, association, tags)


def verify(token: str, cluster: Mapping[str, Any]) -> Caller:
    """The pod that a token speaks for; signature, expiry, issuer and audience are checked.

    Raises:
        RefusedError: the token is not good.
    """
    private_key, _, _ = eks._get_oidc_keypair()
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            private_key.public_key(),
            algorithms=["RS256"],
            audience=PRINCIPAL,
            issuer=cluster["identity"]["oidc"]["issuer"],
        )
        kubernetes = claims["kubernetes.io"]
        return Caller(
            kubernetes["namespace"],
            kubernetes["serviceaccount"]["name"],
            kubernetes["pod"]["name"],
            kubernetes["pod"]["uid"],
        )
    except jwt.ExpiredSignatureError as error:
        raise RefusedError("ExpiredTokenException", f"the pod's token is no longer valid: {error}") from error
    except (jwt.InvalidTokenError, KeyError) as error:
        raise RefusedError(
            "InvalidTokenException", f"the pod's token is not good in cluster {cluster['name']}: {error!r}"
        ) from error


def _association(cluster_name: str, caller: Caller) -> dict[str, Any]:
    for association in list(eks._pod_identity_associations.values()):
        asked = (association["clusterName"], association["namespace"], association["serviceAccount"])
        if asked == (cluster_name, caller.namespace, caller.service_account):
            return association
    raise RefusedError(
        "ResourceNotFoundException",
        f"cluster {cluster_name} has no pod identity association of service account {caller.namespace}/"
        f"{caller.service_account} (pod {caller.pod})",
    )


def _check_trust(role_arn: str, caller: Caller, tags: list[dict[str, str]]) -> None:
    """Ask the role's trust policy whether the service may take the role, and pass the session's tags."""
    role: dict[str, Any] | None = iam._roles.get(role_arn.rsplit("/", 1)[-1])
    if role is None:
        raise RefusedError("AccessDeniedException", f"the role {role_arn} of the association does not exist")
    document = role.get("AssumeRolePolicyDocument", "{}")
    for action in ["sts:AssumeRole", *(["sts:TagSession"] if tags else [])]:
        # The evaluator knows no service as a caller, and lets the root stand for every one of them: so it is shown
        # only the statements that name this service.
        context = EvalContext(
            principal_arn=f"arn:aws:iam::{get_account_id()}:root",
            principal_type="Service",
            principal_account=get_account_id(),
            action=action,
            resource_arn=role_arn,
            region=get_region(),
            request_tags={tag["Key"]: tag["Value"] for tag in tags},
            tag_keys=[tag["Key"] for tag in tags],
        )
        if not evaluate_trust_policy(_of_service(document), context.principal_arn, context):
            asked = ", ".join(
                f"{tag['Key']}={tag['Value']}" for tag in tags if not tag["Key"].startswith("kubernetes-pod")
            )
            raise RefusedError(
                "AccessDeniedException",
                f"the trust policy of {role_arn} does not let {PRINCIPAL} do {action} for service account "
                f"{caller.namespace}/{caller.service_account} (compare its principal, actions and conditions with: "
                f"tags {asked or 'none'}; aws:SourceArn and aws:SourceAccount are not documented to be there)",
            )


def _of_service(document: str | dict[str, Any]) -> dict[str, Any]:
    """The statements of a trust policy whose principal is the service."""
    policy: dict[str, Any] = json.loads(document) if isinstance(document, str) else document
    statements = policy.get("Statement", [])
    statements = [statements] if isinstance(statements, dict) else statements
    return {**policy, "Statement": [s for s in statements if _names_service(s.get("Principal"))]}


def _names_service(principal: Any) -> bool:
    if not isinstance(principal, dict):
        return principal == "*"
    services = principal.get("Service", [])
    return PRINCIPAL in ([services] if isinstance(services, str) else services)


def _session(
    role_arn: str,
    caller: Caller,
    cluster: Mapping[str, Any],
    association: Mapping[str, Any],
    tags: list[dict[str, str]],
) -> dict[str, Any]:
    session = f"eks-{cluster['name']}-{caller.pod}"[:27] + f"-{uuid.uuid4()}"
    account, name = role_arn.split(":")[4], role_arn.rsplit("/", 1)[-1]
    arn = f"arn:aws:sts::{account}:assumed-role/{name}/{session}"
    access_key, secret, token = sts._gen_session_access_key(), secrets.token_urlsafe(30), secrets.token_urlsafe(120)
    expiration = time.time() + SESSION_S
    identity = f"{sts._role_id(role_arn)}:{session}"
    sts.register_session(
        access_key,
        {
            "Arn": arn,
            "UserId": identity,
            "SecretAccessKey": secret,
            "SessionToken": token,
            "Expiration": expiration,
            "AccountId": account,
            "PrincipalType": "AssumedRole",
            "SessionTags": tags,
        },
    )
    return {
        "subject": {"namespace": caller.namespace, "serviceAccount": caller.service_account},
        "audience": PRINCIPAL,
        "podIdentityAssociation": {
            "associationArn": association["associationArn"],
            "associationId": association["associationId"],
        },
        "assumedRoleUser": {"arn": arn, "assumeRoleId": identity},
        "credentials": {
            "accessKeyId": access_key,
            "secretAccessKey": secret,
            "sessionToken": token,
            "expiration": int(expiration),
        },
    }
