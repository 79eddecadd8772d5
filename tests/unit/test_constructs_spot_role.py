"""The role of EC2 Spot: created if it is absent, kept if it is there, and never deleted."""

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from configuration import Environment
from eks_gpu import spot_role_handler
from eks_gpu.spot_role import CODE
from tests.unit.assembly import Assembly, flatten

ROLE = "AWSServiceRoleForEC2Spot"
TAKEN = f"Service role name {ROLE} has been taken in this account, please try a different suffix."
"""What IAM answers where the role is there, with the code InvalidInput."""


class _CloudFormation:
    """Where CloudFormation waits for the answer."""

    def __init__(self) -> None:
        answers: list[tuple[str, dict[str, str], dict[str, Any]]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answers.append((self.path, dict(self.headers), json.loads(body)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None: ...

        self.answers = answers
        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    def ask(self, request_type: str) -> dict[str, Any]:
        """Invoke the function as CloudFormation does, and give what it answers."""
        event = {
            "RequestType": request_type,
            "ResponseURL": f"http://127.0.0.1:{self.server.server_port}/answer?signature=x",
            "StackId": "arn:aws:cloudformation:us-west-2:123456789012:stack/mine/1",
            "RequestId": "42",
            "LogicalResourceId": "SpotServiceLinkedRole",
        }
        spot_role_handler.handler(event, None)
        ((path, headers, answer),) = self.answers
        self.answers.clear()
        assert path == "/answer?signature=x"
        assert headers["Content-Type"] == ""  # part of what CloudFormation's URL is signed for
        assert {key: answer[key] for key in ("StackId", "RequestId", "LogicalResourceId")} == {
            key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")
        }
        assert answer["PhysicalResourceId"] == ROLE
        return answer


@pytest.fixture
def cloudformation() -> Iterator[_CloudFormation]:
    found = _CloudFormation()
    thread = Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
def iam(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in (("ACCESS_KEY_ID", "x"), ("SECRET_ACCESS_KEY", "x"), ("DEFAULT_REGION", "us-west-2")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("MOTO_ALLOW_NONEXISTENT_REGION", "true")
    with mock_aws(config={"core": {"passthrough": {"urls": [r"127\.0\.0\.1"]}}}):
        client: Any = boto3.client("iam")  # pyright: ignore[reportUnknownMemberType]
        yield client


def _roles(iam: Any) -> list[str]:
    return [role["RoleName"] for role in iam.list_roles(PathPrefix="/aws-service-role/")["Roles"]]


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_s3_5_absent_it_is_created(request_type: str, cloudformation: _CloudFormation, iam: Any) -> None:
    assert _roles(iam) == []
    answer = cloudformation.ask(request_type)
    assert (answer["Status"], answer["Data"]["Outcome"]) == ("SUCCESS", "created")
    assert len(_roles(iam)) == 1
    assert iam.list_roles()["Roles"][0]["Path"] == "/aws-service-role/spot.amazonaws.com/"


def test_s3_5_there_it_is_kept(cloudformation: _CloudFormation, iam: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Stubber(iam) as stubbed:  # with IAM's own words, which the local IAM does not have
        stubbed.add_client_error("create_service_linked_role", "InvalidInput", TAKEN, http_status_code=400)
        monkeypatch.setattr(boto3, "client", Mock(return_value=iam))
        answer = cloudformation.ask("Create")
        stubbed.assert_no_pending_responses()
    assert (answer["Status"], answer["Data"]["Outcome"]) == ("SUCCESS", "kept")


def test_s3_5_deleted_it_is_kept(cloudformation: _CloudFormation, iam: Any) -> None:
    cloudformation.ask("Create")
    before = _roles(iam)
    answer = cloudformation.ask("Delete")
    assert (answer["Status"], answer["Data"]["Outcome"]) == ("SUCCESS", "kept")
    assert _roles(iam) == before != []


@pytest.mark.parametrize(
    ("code", "message"), [("AccessDenied", "not authorized"), ("InvalidInput", "no such service"), ("Throttling", "")]
)
def test_s3_5_what_goes_wrong_is_answered_and_fails_the_stack(
    code: str, message: str, cloudformation: _CloudFormation, iam: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Stubber(iam) as stubbed:
        stubbed.add_client_error("create_service_linked_role", code, message)
        monkeypatch.setattr(boto3, "client", Mock(return_value=iam))
        answer = cloudformation.ask("Create")
    assert answer["Status"] == "FAILED"
    assert ROLE in answer["Reason"]
    assert code in answer["Reason"]


def test_s3_5_the_function_is_that_file_and_may_create_that_role_alone(assembly: Assembly) -> None:
    ((name, resource),) = assembly.resources("Custom::EC2SpotServiceLinkedRole").items()
    function = assembly.resources("AWS::Lambda::Function")[flatten(resource["Properties"]["ServiceToken"])[1:-5]]
    properties = function["Properties"]
    assert properties["Code"]["ZipFile"] == CODE.read_text()
    assert len(properties["Code"]["ZipFile"]) <= 4096  # characters that CloudFormation takes inline
    assert (properties["Runtime"], properties["Handler"]) == ("python3.13", "index.handler")
    assert int(resource["Properties"]["ServiceTimeout"]) > properties["Timeout"]
    (policy,) = assembly.resources("AWS::IAM::Policy", "karpenter").values()
    create, log = policy["Properties"]["PolicyDocument"]["Statement"]
    assert create["Resource"]["Fn::Join"][1][-1] == f":role/aws-service-role/spot.amazonaws.com/{ROLE}"
    assert create == {
        "Effect": "Allow",
        "Resource": create["Resource"],
        "Action": "iam:CreateServiceLinkedRole",
        "Condition": {"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}},
    }
    assert log["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert "LogGroup" in flatten(log["Resource"]) or "Logs" in flatten(log["Resource"])
    role = assembly.resources("AWS::IAM::Role")[flatten(properties["Role"])[1:-5]]["Properties"]
    assert not role.keys() & {"ManagedPolicyArns", "Policies"}
    assert set(resource["DependsOn"]) > set(assembly.resources("AWS::IAM::Policy", "karpenter"))
    assert name not in json.dumps(policy)


def test_s3_5_only_where_a_pool_may_buy_spot(synthesise: Any, environment: Environment, assembly: Assembly) -> None:
    def without_spot(pool: Any) -> Any:
        kept = [r for r in pool.requirements if r.key != "karpenter.sh/capacity-type"]
        on_demand = type(kept[0])(key="karpenter.sh/capacity-type", operator="In", values=("on-demand",))
        return pool.model_copy(update={"requirements": (*kept, on_demand)})

    pools: Mapping[str, Any] = {
        key: tuple(without_spot(pool) for pool in getattr(environment, key)) for key in ("gpu_pools", "cpu_pools")
    }
    on_demand: Assembly = synthesise(environment.model_copy(update=pools))
    assert not on_demand.resources("Custom::EC2SpotServiceLinkedRole")
    assert len(on_demand.resources("AWS::Lambda::Function")) == 2
    assert len(assembly.resources("AWS::Lambda::Function")) == 3
