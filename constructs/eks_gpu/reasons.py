"""Why something stays as it is although a rule of cdk-nag (AwsSolutions) speaks against it.

Reasons stand beside the construct they are about and go into its metadata, by the CDK's own API: cdk-nag itself is only
needed to check.
"""

from collections.abc import Iterable, Sequence

from aws_cdk import Acknowledgment, Stack, Token, Validations
from constructs import IConstruct

from eks_gpu.controller_policies import Document, wildcards


def acknowledge(construct: IConstruct, reason: str, *rules: str) -> None:
    """Give the reason why rules do not hold for a construct and all in it.

    Args:
        construct: The construct.
        reason: Why it is right as it is.
        rules: Rules such as EKS1, or findings of a rule such as IAM4[Policy::...].
    """
    validations = Validations.of(construct)
    validations.acknowledge(*(Acknowledgment(id=f"AwsSolutions-{rule}", reason=reason) for rule in rules))


def iam_wildcards(construct: IConstruct, documents: Sequence[Document], reason: str) -> None:
    """Give the reason why the policies in a construct name resources by pattern: one finding for each."""
    stack = Stack.of(construct)
    # The rule writes a reference in angle brackets. In another's app the account alone may be known, or none of them.
    known = {stack.account: "AWS::AccountId", stack.partition: "AWS::Partition", stack.region: "AWS::Region"}
    references = {token: f"<{name}>" for token, name in known.items() if Token.is_unresolved(token)}
    found = wildcards(documents)
    for token, reference in references.items():
        found = [resource.replace(token, reference) for resource in found]
    acknowledge(construct, reason, *(f"IAM5[Resource::{resource}]" for resource in found))


def managed_policies_of_aws(construct: IConstruct, names: Iterable[str], reason: str) -> None:
    """Give the reason why a role has policies that AWS keeps."""
    acknowledge(construct, reason, *(f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]" for name in names))
