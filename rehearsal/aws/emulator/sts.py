# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""STS: a web identity token counts only when its cluster signed it and IAM knows the issuer.

MiniStack evaluates the role's trust policy on the token's claims, but takes the claims from any token.
"""

from __future__ import annotations

from typing import Any

import jwt
from ministack.core.responses import get_account_id
from ministack.services import eks, iam, sts

from rehearsal.aws.events import EventLog


def install(log: EventLog) -> None:
    """Verify the token before the trust policy is asked, and write every refusal to the run's events."""
    trust_denied = sts._web_identity_trust_denied

    def denied(role_arn: str, params: dict[str, Any], use_json: bool) -> Any:
        token = params.get("WebIdentityToken", [""])
        flaw = _flaw(token[0] if isinstance(token, list) else str(token))
        if flaw:
            log.write("web-identity-denied", f"the token for {role_arn} was refused: {flaw}", role=role_arn)
            return sts._error(400, "InvalidIdentityToken", flaw, ns="sts")
        answer = trust_denied(role_arn, params, use_json)
        if answer is not None:
            log.write(
                "web-identity-denied",
                f"the trust policy of {role_arn} does not let this service account in (compare its conditions on sub "
                "and aud with the token)",
                role=role_arn,
                claims=jwt.decode(token[0] if isinstance(token, list) else token, options={"verify_signature": False}),
            )
        return answer

    principal = sts._web_identity_principal

    def single_valued(token: str, provider_id: str, role_arn: str) -> tuple[str, dict[str, Any]]:
        # A service-account token's aud is a list; in a trust policy's condition it is one text (IAM user guide, "Keys
        # available for AWS OIDC federation"), and MiniStack would compare with the text of the list.
        name, keys = principal(token, provider_id, role_arn)
        return name, {key: value[0] if _one(value) else value for key, value in keys.items()}

    sts._web_identity_trust_denied = denied
    sts._web_identity_principal = single_valued


def _one(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def _flaw(token: str) -> str | None:
    """What is wrong with a service-account token, or None: signature, expiry, issuer and audience are checked."""
    private_key, _, _ = eks._get_oidc_keypair()
    try:
        claims: dict[str, Any] = jwt.decode(
            token, private_key.public_key(), algorithms=["RS256"], options={"verify_aud": False}
        )
    except jwt.InvalidTokenError as error:
        return f"not a token that a cluster of this account signed, or no longer valid: {error}"
    issuer = str(claims.get("iss", ""))
    arn = f"arn:aws:iam::{get_account_id()}:oidc-provider/{issuer.partition('://')[2]}"
    provider = iam._oidc_providers.get(arn)
    if provider is None:
        return f"No OpenIDConnect provider found in your account for {issuer}"
    audiences = claims.get("aud", [])
    audiences = [audiences] if isinstance(audiences, str) else audiences
    if not set(audiences) & set(provider["ClientIDList"]):
        return f"Incorrect token audience: {audiences}; the provider accepts {provider['ClientIDList']}"
    return None
