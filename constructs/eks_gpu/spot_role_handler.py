"""Lambda function: the role that EC2 needs to buy spot instances is made if it is absent, and never deleted.

It is one role for the whole account, so stacks must neither fail because it is there nor take it away from others.
"""

import json
import urllib.request
from typing import Any

import boto3

ROLE = "AWSServiceRoleForEC2Spot"


def handler(event: dict[str, Any], context: object) -> None:
    """Do what CloudFormation asks, and tell it how that went."""
    answer: dict[str, Any] = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    try:
        told = "kept" if event["RequestType"] == "Delete" else create_if_absent()
        answer |= {"Status": "SUCCESS", "Reason": f"{ROLE} {told}", "Data": {"Outcome": told}}
    except Exception as error:  # CloudFormation would wait an hour for an answer
        answer |= {"Status": "FAILED", "Reason": f"{ROLE}: {error}"}
    answer["PhysicalResourceId"] = ROLE
    print(json.dumps(answer))
    body = json.dumps(answer).encode()
    put = urllib.request.Request(event["ResponseURL"], body, {"Content-Type": ""}, method="PUT")  # noqa: S310
    urllib.request.urlopen(put, timeout=30).close()  # noqa: S310 - CloudFormation's own URL


def create_if_absent() -> str:
    """Say whether the role was created or kept."""
    iam: Any = boto3.client("iam")  # pyright: ignore[reportUnknownMemberType] - no stubs for every service
    try:
        iam.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    except iam.exceptions.InvalidInputException as error:
        if "has been taken in this account" not in str(error):
            raise
        return "kept"
    return "created"
