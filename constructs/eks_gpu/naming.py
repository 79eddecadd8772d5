"""Names that are made from the cluster's, and how long AWS lets them be."""

from typing import Final

from aws_cdk import Token

ROLE_NAME_LENGTH: Final = 64
POLICY_NAME_LENGTH: Final = 128
"""Source: IAM user guide, reference_iam-quotas."""


def role_name(given: str | None, default: str) -> str:
    """Return the name of a role, checked as far as it is known.

    Args:
        given: What the caller wants, or None.
        default: The name made from the cluster's, which may be a CDK token.

    Raises:
        ValueError: The name is longer than IAM takes.
    """
    name = given or default
    if not Token.is_unresolved(name) and len(name) > ROLE_NAME_LENGTH:
        raise ValueError(
            f"role name {name!r} has {len(name)} characters, and IAM takes {ROLE_NAME_LENGTH}; give role_name=... a "
            f"shorter one"
        )
    return name


def policy_name(name: str) -> str | None:
    """Return a managed policy's name, or None to let CloudFormation name it where IAM would not take that name."""
    return name if Token.is_unresolved(name) or len(name) <= POLICY_NAME_LENGTH else None
