# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
"""What the emulator adds to MiniStack's EKS and IAM: protected clusters, service-linked roles, passed roles."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from ministack.core.responses import request_scope
from ministack.services import eks, kms
from ministack.services import iam as ministack_iam

from rehearsal.aws.emulator import authorisation
from rehearsal.aws.emulator import eks as emulator_eks
from rehearsal.aws.emulator import iam as emulator_iam
from rehearsal.aws.events import EventLog
from rehearsal.compute.ec2 import Context, Denial

ACCOUNT, REGION = "123456789012", "us-west-2"
SPOT_ROLE = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"


@pytest.fixture
def log(tmp_path: Path) -> Generator[EventLog]:
    with request_scope(ACCOUNT, REGION):
        yield EventLog(tmp_path / "events.jsonl")


@pytest.fixture
def clusters(log: EventLog) -> Generator[emulator_eks.Clusters]:
    eks._clusters["c"] = {
        "name": "c",
        "arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/c",
        "deletionProtection": True,
        "resourcesVpcConfig": {"clusterSecurityGroupId": "sg-1"},
    }
    yield emulator_eks.Clusters("http://localhost:1", Mock(), log)
    eks._clusters.clear()


def test_a_protected_cluster_is_deleted_only_after_its_protection_was_turned_off(
    clusters: emulator_eks.Clusters, log: EventLog
) -> None:
    status, _, body = clusters.delete("c")
    assert status == 400
    assert "deletion protection" in json.loads(body)["message"]
    assert [event.kind for event in log.read()] == ["cluster-protected"]
    assert "c" in eks._clusters

    status, _, body = clusters.route("POST", "/clusters/c/update-config", {}, b'{"deletionProtection": false}', {})
    assert (status, json.loads(body)["update"]["status"]) == (200, "Successful")
    assert clusters.delete("c")[0] == 200
    assert "c" not in eks._clusters


def test_a_change_of_a_cluster_that_is_not_simulated_is_refused(clusters: emulator_eks.Clusters) -> None:
    status, _, body = clusters.update_config("c", {"computeConfig": {}})
    assert status == 400
    assert "computeConfig" in json.loads(body)["message"]
    assert clusters.update_config("none", {"deletionProtection": False})[0] == 404


def test_cloudformation_is_told_why_a_cluster_is_not_deleted(
    clusters: emulator_eks.Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eks, "_delete_cluster", clusters.delete)
    with pytest.raises(ValueError, match="deletion protection"):
        emulator_eks.delete_cluster("c")
    emulator_eks.delete_cluster("gone")


def test_a_cluster_takes_over_what_its_template_says(clusters: emulator_eks.Clusters) -> None:
    key = json.loads(kms._create_key({})[2])["KeyMetadata"]
    properties: dict[str, Any] = {
        "DeletionProtection": False,
        "UpgradePolicy": {"SupportType": "STANDARD"},
        "EncryptionConfig": [{"Provider": {"KeyArn": key["Arn"]}, "Resources": ["secrets"]}],
    }
    emulator_eks.check_keys(properties)
    emulator_eks.apply_properties("c", properties)
    record = cast("dict[str, Any]", eks._clusters["c"])
    assert record["deletionProtection"] is False
    assert record["upgradePolicy"] == {"supportType": "STANDARD"}
    assert record["encryptionConfig"] == [{"resources": ["secrets"], "provider": {"keyArn": key["Arn"]}}]
    kms._schedule_key_deletion({"KeyId": key["KeyId"], "PendingWindowInDays": 7})
    with pytest.raises(ValueError, match="does not exist or is not enabled"):
        emulator_eks.check_keys(properties)


Iam = Callable[..., tuple[int, dict[str, str], bytes]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Context]]:
    """The questions that IAM is asked; those whose action holds ``_DENY`` are answered with no."""
    questions: list[tuple[str, str, Context]] = []

    def authorise(action: str, resource: str, context: Context) -> Denial | None:
        questions.append((action, resource, context))
        return Denial("arn:caller", action, resource) if _DENY in action else None

    monkeypatch.setattr(authorisation, "authorise", authorise)
    monkeypatch.setattr(f"{__name__}._DENY", "nothing")
    return questions


_DENY = "nothing"


@pytest.fixture
def call(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> Generator[Iam]:
    monkeypatch.setattr(ministack_iam, "_IAM_HANDLERS", dict(ministack_iam._IAM_HANDLERS))
    emulator_iam.install(log)

    def iam(action: str, **params: str) -> tuple[int, dict[str, str], bytes]:
        handlers = cast("dict[str, Any]", ministack_iam._IAM_HANDLERS)
        return handlers[action]({name: [value] for name, value in params.items()})

    yield iam
    for store in (ministack_iam._roles, ministack_iam._instance_profiles):
        store.clear()


def test_the_spot_role_has_awss_name_and_is_made_once(call: Iam, asked: list[tuple[str, str, Context]]) -> None:
    status, _, body = call("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert status == 200
    assert SPOT_ROLE.encode() in body
    assert asked == [("iam:CreateServiceLinkedRole", SPOT_ROLE, {"iam:AWSServiceName": "spot.amazonaws.com"})]
    assert list(ministack_iam._roles) == ["AWSServiceRoleForEC2Spot"]
    status, _, body = call("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")
    assert status == 400
    assert b"InvalidInput" in body
    assert b"has been taken in this account" in body
    assert list(ministack_iam._roles) == ["AWSServiceRoleForEC2Spot"]


def test_ec2_makes_the_spot_role_where_the_caller_may(
    call: Iam, asked: list[tuple[str, str, Context]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}._DENY", "CreateServiceLinkedRole")
    assert call("CreateServiceLinkedRole", AWSServiceName="spot.amazonaws.com")[0] == 403
    assert emulator_iam.ensure_service_linked_role("spot.amazonaws.com") is False
    assert not ministack_iam._roles
    monkeypatch.setattr(f"{__name__}._DENY", "nothing")
    assert emulator_iam.ensure_service_linked_role("spot.amazonaws.com") is True
    monkeypatch.setattr(f"{__name__}._DENY", "CreateServiceLinkedRole")
    assert emulator_iam.ensure_service_linked_role("spot.amazonaws.com") is True


def test_a_role_goes_into_an_instance_profile_only_where_the_caller_may_pass_it(
    call: Iam, asked: list[tuple[str, str, Context]], monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/node"
    ministack_iam._roles["node"] = {"RoleName": "node", "Arn": role}
    call("CreateInstanceProfile", InstanceProfileName="p")
    monkeypatch.setattr(f"{__name__}._DENY", "PassRole")
    status, _, body = call("AddRoleToInstanceProfile", InstanceProfileName="p", RoleName="node")
    assert status == 403
    assert b"not authorized to perform: iam:PassRole" in body
    assert ministack_iam._instance_profiles["p"]["Roles"] == []
    assert asked == [("iam:PassRole", role, {"iam:PassedToService": "ec2.amazonaws.com"})]
    monkeypatch.setattr(f"{__name__}._DENY", "nothing")
    assert call("AddRoleToInstanceProfile", InstanceProfileName="p", RoleName="node")[0] == 200
    assert ministack_iam._instance_profiles["p"]["Roles"] == ["node"]
