"""Karpenter's roles, queue and credentials where an environment asks for another release or another way."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from configuration import Environment
from tests.unit.assembly import MANIFEST, Assembly, flatten, objects_in
from tests.unit.platform_environment import TOPIC

PARTS = ("NodeLifecycle", "IAMIntegration", "EKSIntegration", "Interruption", "ResourceDiscovery")


@pytest.fixture(scope="module")
def irsa(synthesise: Callable[[Environment], Assembly], environment: Environment) -> Assembly:
    """The workshop with a release of 2025, in kube-system, with a controller role named `<cluster>-karpenter`."""
    karpenter = environment.karpenter.model_copy(
        update={"version": "1.8.3", "namespace": "kube-system", "controller_role": "training-on-eks-karpenter"}
    )
    return synthesise(environment.model_copy(update={"karpenter": karpenter}))


def _controller(assembly: Assembly, name: str) -> tuple[str, dict[str, Any]]:
    (found,) = [
        (logical_id, role["Properties"])
        for logical_id, role in assembly.resources("AWS::IAM::Role").items()
        if role["Properties"].get("RoleName") == name
    ]
    return found


def _objects(assembly: Assembly) -> list[dict[str, Any]]:
    return [found for resource in assembly.resources(MANIFEST).values() for found in objects_in(resource)]


def test_s3_4_the_controller_role_by_irsa_in_kube_system(irsa: Assembly) -> None:
    logical_id, role = _controller(irsa, "training-on-eks-karpenter")
    text, _ = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    (statement,) = json.loads(text)["Statement"]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert statement["Principal"] == {"Federated": "${Provider}"}
    assert statement["Condition"] == {
        "StringEquals": {
            "${Issuer}:aud": "sts.amazonaws.com",
            "${Issuer}:sub": "system:serviceaccount:kube-system:karpenter",
        }
    }
    (account,) = [
        found
        for found in _objects(irsa)
        if found["kind"] == "ServiceAccount" and found["metadata"]["name"] == "karpenter"
    ]
    assert account["metadata"]["namespace"] == "kube-system"
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": f"<{logical_id}.Arn>"}
    assert not [
        found for found in _objects(irsa) if found["kind"] == "Namespace" and found["metadata"]["name"] == "kube-system"
    ]


def test_s0_3_irsa_needs_the_oidc_provider_and_no_agent(irsa: Assembly) -> None:
    assert len(irsa.resources("AWS::IAM::OIDCProvider")) == 1
    assert not irsa.resources("AWS::EKS::PodIdentityAssociation")
    assert not irsa.resources("AWS::EKS::Addon")


def test_s3_2_the_eight_resources_of_a_release_with_four_rules(irsa: Assembly) -> None:
    # One controller policy in upstream's template; its statements, in policies that fit for any cluster's name.
    assert {p["Properties"]["ManagedPolicyName"] for p in irsa.resources("AWS::IAM::ManagedPolicy").values()} == {
        f"KarpenterController{part}Policy-training-on-eks" for part in PARTS
    }
    rules = irsa.resources("AWS::Events::Rule")
    assert sorted(name.removeprefix("Interruption")[:-8] for name in rules) == [
        "InstanceStateChangeRule",
        "RebalanceRule",
        "ScheduledChangeRule",
        "SpotInterruptionRule",
    ]
    (queue,) = irsa.resources("AWS::SQS::Queue")
    assert {flatten(rule["Properties"]["Targets"][0]["Arn"]) for rule in rules.values()} == {f"<{queue}.Arn>"}
    assert len(irsa.resources("AWS::SQS::QueuePolicy")) == 1
    _controller(irsa, "KarpenterNodeRole-training-on-eks")


def test_s2_4_the_two_roles_are_told_apart(irsa: Assembly) -> None:
    """The pod's service account takes the one, EC2 the other, and neither what belongs to the other."""
    _, node = _controller(irsa, "KarpenterNodeRole-training-on-eks")
    _, controller = _controller(irsa, "training-on-eks-karpenter")
    assert node["AssumeRolePolicyDocument"]["Statement"] == [
        {"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}
    ]
    assert "ec2.amazonaws.com" not in json.dumps(controller["AssumeRolePolicyDocument"])
    of_controller = {flatten(arn) for arn in controller["ManagedPolicyArns"]}
    assert not of_controller & {flatten(arn) for arn in node["ManagedPolicyArns"]}
    assert of_controller == {f"<{name}>" for name in irsa.resources("AWS::IAM::ManagedPolicy")}


def test_pod_identity_hands_the_role_to_one_service_account_of_one_cluster(platform: Assembly) -> None:
    logical_id, role = _controller(platform, "KarpenterControllerRole-platform")
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    (condition,) = statement["Condition"].values()
    assert {key: value for key, value in statement.items() if key != "Condition"} == {
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    cluster = "arn:aws:eks:us-west-2:<AWS::AccountId>:cluster/platform"
    assert {key: flatten(value) for key, value in condition.items()} == {
        "aws:RequestTag/eks-cluster-arn": cluster,
        "aws:RequestTag/kubernetes-namespace": "karpenter",
        "aws:RequestTag/kubernetes-service-account": "karpenter",
    }
    association = platform.only("AWS::EKS::PodIdentityAssociation")
    assert association["Namespace"] == association["ServiceAccount"] == "karpenter"
    assert flatten(association["RoleArn"]) == f"<{logical_id}.Arn>"
    assert "ExportsOutputRefEksCluster" in flatten(association["ClusterName"])


def test_pod_identity_needs_the_agent_and_no_oidc_provider(platform: Assembly) -> None:
    assert platform.named("AWS::EKS::Addon", "AddonName", "eks-pod-identity-agent")
    assert not platform.resources("AWS::IAM::OIDCProvider")
    assert "oidc-provider" not in json.dumps(platform.templates)
    accounts = [found for found in _objects(platform) if found["kind"] == "ServiceAccount"]
    assert accounts
    assert "eks.amazonaws.com/role-arn" not in json.dumps(accounts)


def test_somebody_is_told_when_nobody_reads_the_queue(platform: Assembly, assembly: Assembly) -> None:
    alarm = platform.only("AWS::CloudWatch::Alarm")
    (queue,) = platform.resources("AWS::SQS::Queue")
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": [queue, "QueueName"]}}]
    assert (alarm["Namespace"], alarm["MetricName"]) == ("AWS/SQS", "ApproximateAgeOfOldestMessage")
    # Above the two minutes of a spot warning, and below the five after which a message is gone.
    assert (alarm["Statistic"], alarm["ComparisonOperator"]) == ("Maximum", "GreaterThanThreshold")
    assert alarm["Threshold"] == 120
    assert alarm["Threshold"] + alarm["Period"] * alarm["EvaluationPeriods"] < 300
    assert alarm["TreatMissingData"] == "notBreaching"
    assert alarm["AlarmActions"] == alarm["OKActions"] == [TOPIC]
    assert not assembly.resources("AWS::CloudWatch::Alarm")


def test_karpenter_comes_after_its_credentials_and_the_spot_role(platform: Assembly) -> None:
    ((_, deployment),) = [
        (logical_id, resource)
        for logical_id, resource in platform.resources(MANIFEST, "karpenter").items()
        if objects_in(resource)[0]["kind"] == "Deployment"
    ]
    (association,) = platform.resources("AWS::EKS::PodIdentityAssociation")
    (spot_role,) = platform.resources("Custom::EC2SpotServiceLinkedRole")
    assert {association, spot_role} <= set(deployment["DependsOn"])
