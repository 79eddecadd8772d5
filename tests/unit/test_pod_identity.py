# pyright: reportMissingTypeStubs=false, reportPrivateUsage=false, reportUnknownMemberType=false
"""EKS Pod Identity: which pods get variables, and which tokens get the credentials of a role."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from ministack.core.responses import request_scope
from ministack.services import eks, iam, sts

from rehearsal.aws.emulator import authorisation, pod_identity
from rehearsal.aws.emulator.pod_identity import RefusedError
from rehearsal.aws.events import EventLog
from rehearsal.compute.ec2 import Denial
from rehearsal.compute.notices import Notice, Reporter
from rehearsal.compute.podidentity import Agent, Associations

ACCOUNT, REGION = "123456789012", "us-west-2"
ISSUER = "http://localhost/id/1"
CLUSTER = {
    "name": "pit",
    "arn": f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/pit",
    "identity": {"oidc": {"issuer": ISSUER}},
}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/karpenter"


def _trust(**changes: Any) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {
            "StringEquals": {
                "aws:RequestTag/eks-cluster-arn": CLUSTER["arn"],
                "aws:RequestTag/eks-cluster-name": "pit",
                "aws:RequestTag/kubernetes-namespace": "kube-system",
                "aws:RequestTag/kubernetes-service-account": "karpenter",
            }
        },
        **changes,
    }


def _token(account: str = "karpenter", **changes: Any) -> str:
    claims = {
        "iss": ISSUER,
        "aud": ["pods.eks.amazonaws.com"],
        "exp": time.time() + 60,
        "kubernetes.io": {
            "namespace": "kube-system",
            "serviceaccount": {"name": account},
            "pod": {"name": "karpenter-1", "uid": "u-1"},
        },
        **changes,
    }
    return jwt.encode(claims, eks._get_oidc_keypair()[0], algorithm="RS256")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[EventLog]:
    def nothing(action: str, resource: str, context: object) -> Denial | None:
        return None

    monkeypatch.setattr(authorisation, "authorise", nothing)
    with request_scope(ACCOUNT, REGION):
        eks._clusters["pit"] = dict(CLUSTER)
        eks._create_pod_identity_association(
            "pit", {"namespace": "kube-system", "serviceAccount": "karpenter", "roleArn": ROLE}
        )
        _set_trust(_trust())
        yield EventLog(tmp_path / "events.jsonl")
        for store in (eks._clusters, eks._pod_identity_associations, iam._roles):
            store.clear()


def _set_trust(statement: dict[str, Any]) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam._roles["karpenter"] = {
        "RoleName": "karpenter",
        "Arn": ROLE,
        "RoleId": "AROA1",
        "AssumeRolePolicyDocument": document,
    }


def test_the_pod_gets_a_session_of_the_associations_role_each_time_it_asks(log: EventLog) -> None:
    answers = [pod_identity.assume("pit", _token(), log) for _ in range(2)]
    first, second = (answer["credentials"] for answer in answers)
    assert first["accessKeyId"] != second["accessKeyId"]
    session = cast("dict[str, Any]", sts._sessions[first["accessKeyId"]])
    assert session["Arn"].startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/karpenter/eks-pit-karpenter-1")
    assert {"Key": "kubernetes-pod-uid", "Value": "u-1"} in session["SessionTags"]
    assert session["SecretAccessKey"] == first["secretAccessKey"]


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ({"aud": ["sts.amazonaws.com"]}, "InvalidTokenException"),
        ({"iss": "http://localhost/id/2"}, "InvalidTokenException"),
        ({"exp": 1}, "ExpiredTokenException"),
        ({"kubernetes.io": {"namespace": "kube-system"}}, "InvalidTokenException"),
        ({"account": "other"}, "ResourceNotFoundException"),
    ],
)
def test_another_token_gets_nothing(log: EventLog, token: dict[str, Any], code: str) -> None:
    with pytest.raises(RefusedError) as refused:
        pod_identity.assume("pit", _token(**token), log)
    assert refused.value.code == code


def test_a_token_that_somebody_else_signed_gets_nothing(log: EventLog) -> None:
    head, claims, signature = _token().split(".")
    with pytest.raises(RefusedError) as refused:
        pod_identity.assume("pit", f"{head}.{claims}.{signature[::-1]}", log)
    assert refused.value.code == "InvalidTokenException"


@pytest.mark.parametrize(
    ("trust", "action"),
    [
        (_trust(Principal={"Service": "ec2.amazonaws.com"}), "sts:AssumeRole"),
        (_trust(Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"}), "sts:AssumeRole"),
        (_trust(Action="sts:AssumeRole"), "sts:TagSession"),
        *(
            (_trust(Condition={"StringEquals": {key: "another"}}), "sts:AssumeRole")
            for key in _trust()["Condition"]["StringEquals"]
        ),
        # True, and yet not promised: a role that asks for it could be nobody's on AWS.
        (_trust(Condition={"StringEquals": {"aws:SourceArn": CLUSTER["arn"]}}), "sts:AssumeRole"),
        (_trust(Condition={"StringEquals": {"aws:SourceAccount": ACCOUNT}}), "sts:AssumeRole"),
    ],
)
def test_a_trust_policy_that_does_not_fit_gives_nothing_and_is_told(
    log: EventLog, trust: dict[str, Any], action: str
) -> None:
    _set_trust(trust)
    with pytest.raises(RefusedError, match=f"does not let pods.eks.amazonaws.com do {action} for service account"):
        pod_identity.assume("pit", _token(), log)


def test_a_node_whose_role_may_not_ask_gets_nothing(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(action: str, resource: str, context: object) -> Denial:
        return Denial("arn:node", action, resource)

    monkeypatch.setattr(authorisation, "authorise", deny)
    with pytest.raises(RefusedError, match="may not eks-auth:AssumeRoleForPodIdentity"):
        pod_identity.assume("pit", _token(), log)
    assert [event.kind for event in log.read()] == ["access-denied"]


class FakeAws:
    """The local AWS: one association, and an add-on or none."""

    def __init__(self, made: float = 0, *, addon: bool = True) -> None:
        self.made = made
        self.addon = addon

    def pod_identities(self, cluster: str) -> dict[tuple[str, str], float]:
        """The association."""
        assert cluster == "pit"
        return {("kube-system", "karpenter"): self.made}

    def addon_is_active(self, cluster: str, name: str) -> bool:
        """Whether the add-on is there."""
        assert (cluster, name) == ("pit", "eks-pod-identity-agent")
        return self.addon


def _pod(account: str, admitted: float) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(admitted, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "metadata": {"name": "p", "namespace": "kube-system", "creationTimestamp": stamp},
        "spec": {"serviceAccountName": account},
    }


def test_only_pods_that_were_admitted_after_the_association_get_its_variables() -> None:
    now = float(int(time.time()))
    associations = Associations("pit", cast("Any", FakeAws(now)))
    assert not associations.known_at(_pod("karpenter", now))
    associations.step()
    assert associations.known_at(_pod("karpenter", now))
    assert not associations.known_at(_pod("karpenter", now + 60))
    assert associations.holds(_pod("karpenter", now))
    assert not associations.holds(_pod("karpenter", now - 1))
    assert not associations.holds(_pod("other", now))


def test_without_the_add_on_no_agent_answers_and_the_refusal_is_told_once() -> None:
    notices: list[Notice] = []
    aws = cast("Any", FakeAws(addon=False))
    agent = Agent("pit", cast("Any", None), lambda _: None, aws, Reporter("pit", notices.append))
    agent.start()
    try:
        assert agent.uri.startswith("http://127.0.0.1:")
        answers = [agent.credentials(_token()) for _ in range(2)]
    finally:
        agent.stop()
    assert [status for status, _ in answers] == [503, 503]
    assert [notice.kind for notice in notices] == ["pod-identity-denied"]
    assert "no active add-on eks-pod-identity-agent" in notices[0].text
