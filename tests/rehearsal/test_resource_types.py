"""The resource types that environments use, in the local AWS alone: made, changed and removed, with nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from rehearsal import census
from rehearsal.cloud import Access, Request
from rehearsal.processes import Run, end_all, spawn
from rehearsal.tools import ConsoleProgress, get_tools

from .conftest import PROJECT

ACCOUNT, REGION, CLUSTER = "123456789012", "us-west-2", "types"
ADMIN = f"arn:aws:iam::{ACCOUNT}:role/admin"
POLICIES = "arn:aws:eks::aws:cluster-access-policy"


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Generator[Access]:
    """A cloud without a deployment."""
    run = Run(f"types-{os.getpid()}", tmp_path_factory.mktemp("run"))
    Request(run.id, ACCOUNT, REGION, get_tools(ConsoleProgress(), kubernetes="1.36")).write(run.folder)
    command = [sys.executable, "-m", "rehearsal.cloud", run.folder]
    process = spawn(run, "cloud", command, stdin=subprocess.PIPE, cwd=PROJECT)
    try:
        deadline = time.monotonic() + 60
        while (found := Access.read(run.folder)) is None:
            assert process.poll() is None, (run.logs / "cloud.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield found
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        end_all(run.id)


def _role(*services: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": list(services)},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": document}}


def _subnet(number: int) -> dict[str, Any]:
    zone = f"{REGION}{'ab'[number]}"
    return {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": f"10.0.{number}.0/24", "AvailabilityZone": zone},
    }


def _template(*, changed: bool) -> str:
    """A stack with every type; the changed one differs in a property of each that can be changed."""
    pods = "pods.eks.amazonaws.com"
    policy = "AmazonEKSViewPolicy" if changed else "AmazonEKSClusterAdminPolicy"
    role = "PodsNew" if changed else "Pods"
    network: dict[str, Any] = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Routes": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "Vpc"}}},
        "Log": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": "/types", "RetentionInDays": 30 if changed else 7},
        },
        "Flow": {
            "Type": "AWS::EC2::FlowLog",
            "Properties": {
                "ResourceId": {"Ref": "Vpc"},
                "ResourceType": "VPC",
                "TrafficType": "REJECT" if changed else "ALL",
                "LogGroupName": {"Ref": "Log"},
                "DeliverLogsPermissionArn": {"Fn::GetAtt": ["Pods", "Arn"]},
            },
        },
        "Gateway": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "ServiceName": f"com.amazonaws.{REGION}.s3",
                "RouteTableIds": [{"Ref": "Routes"}],
            },
        },
        "Interface": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "VpcEndpointType": "Interface",
                "ServiceName": f"com.amazonaws.{REGION}.ecr.api",
                "SubnetIds": [{"Ref": "Subnet0"}, *([{"Ref": "Subnet1"}] if changed else [])],
                "PrivateDnsEnabled": True,
            },
        },
    }
    for number in (0, 1):
        network[f"Subnet{number}"] = _subnet(number)
        network[f"Address{number}"] = {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc"}}
        network[f"Nat{number}"] = {
            "Type": "AWS::EC2::NatGateway",
            "Properties": {
                "SubnetId": {"Ref": f"Subnet{number}"},
                "AllocationId": {"Fn::GetAtt": [f"Address{number}", "AllocationId"]},
            },
        }
    cluster: dict[str, Any] = {
        "Key": {"Type": "AWS::KMS::Key", "Properties": {"PendingWindowInDays": 7, "EnableKeyRotation": changed}},
        "Alias": {
            "Type": "AWS::KMS::Alias",
            "Properties": {"AliasName": "alias/types", "TargetKeyId": {"Ref": "Key"}},
        },
        "Eks": _role("eks.amazonaws.com"),
        "Pods": _role(pods),
        "PodsNew": _role(pods),
        "Cluster": {
            "Type": "AWS::EKS::Cluster",
            "Properties": {
                "Name": CLUSTER,
                "Version": "1.36",
                "RoleArn": {"Fn::GetAtt": ["Eks", "Arn"]},
                "ResourcesVpcConfig": {"SubnetIds": [{"Ref": "Subnet0"}, {"Ref": "Subnet1"}]},
                "EncryptionConfig": [
                    {"Provider": {"KeyArn": {"Fn::GetAtt": ["Key", "Arn"]}}, "Resources": ["secrets"]}
                ],
                "Logging": {
                    "ClusterLogging": {"EnabledTypes": [{"Type": "api"}, *([{"Type": "audit"}] if changed else [])]}
                },
                "DeletionProtection": True,
                "UpgradePolicy": {"SupportType": "STANDARD"},
                "AccessConfig": {"AuthenticationMode": "API"},
            },
        },
        "Addon": {
            "Type": "AWS::EKS::Addon",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "AddonName": "aws-ebs-csi-driver",
                "PodIdentityAssociations": [
                    {"ServiceAccount": "ebs-csi-controller-sa", "RoleArn": {"Fn::GetAtt": [role, "Arn"]}}
                ],
            },
        },
        "Association": {
            "Type": "AWS::EKS::PodIdentityAssociation",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "Namespace": "kube-system",
                "ServiceAccount": "karpenter",
                "RoleArn": {"Fn::GetAtt": [role, "Arn"]},
            },
        },
        "Entry": {
            "Type": "AWS::EKS::AccessEntry",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "PrincipalArn": ADMIN,
                "AccessPolicies": [
                    {
                        "PolicyArn": f"{POLICIES}/{policy}",
                        "AccessScope": {"Type": "cluster"},
                    }
                ],
            },
        },
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": "types",
                "Namespace": "AWS/SQS",
                "MetricName": "ApproximateAgeOfOldestMessage",
                "ComparisonOperator": "GreaterThanThreshold",
                "EvaluationPeriods": 1,
                "Period": 60,
                "Statistic": "Maximum",
                "Threshold": 600 if changed else 300,
            },
        },
    }
    return json.dumps({"Resources": network | cluster})


def _await(cloudformation: Any, waiter: str) -> None:
    cloudformation.get_waiter(waiter).wait(StackName=CLUSTER, WaiterConfig={"Delay": 1, "MaxAttempts": 120})


def _associations(eks: Any) -> dict[str, str]:
    """Service account -> the name of its role's resource."""
    found = eks.list_pod_identity_associations(clusterName=CLUSTER)["associations"]
    described = (
        eks.describe_pod_identity_association(clusterName=CLUSTER, associationId=item["associationId"])["association"]
        for item in found
    )
    return {item["serviceAccount"]: item["roleArn"].split(f"{CLUSTER}-")[1].split("-")[0] for item in described}


def test_every_type_is_made_changed_and_removed_and_a_protected_cluster_stays(access: Access) -> None:
    cloudformation, eks, ec2 = (access.client(name) for name in ("cloudformation", "eks", "ec2"))
    before = census.take(access.client)

    cloudformation.create_stack(
        StackName=CLUSTER, TemplateBody=_template(changed=False), Capabilities=["CAPABILITY_IAM"]
    )
    _await(cloudformation, "stack_create_complete")
    cluster = eks.describe_cluster(name=CLUSTER)["cluster"]
    assert (cluster["deletionProtection"], cluster["upgradePolicy"]["supportType"]) == (True, "STANDARD")
    assert cluster["encryptionConfig"][0]["resources"] == ["secrets"]
    assert cluster["logging"]["clusterLogging"][0] == {"types": ["api"], "enabled": True}
    assert eks.describe_addon(clusterName=CLUSTER, addonName="aws-ebs-csi-driver")["addon"]["status"] == "ACTIVE"
    assert _associations(eks).keys() == {"ebs-csi-controller-sa", "karpenter"}
    assert {found["State"] for found in ec2.describe_nat_gateways()["NatGateways"]} == {"available"}
    made = census.left_behind(before, census.take(access.client))
    for kind, count in {
        "CloudWatch alarms": 1,
        "EC2 flow logs": 1,
        "EC2 NAT gateways": 2,
        "EC2 VPC endpoints": 2,
        "KMS aliases": 1,
        "KMS keys": 1,
    }.items():
        assert len(made[kind]) == count, kind

    cloudformation.update_stack(
        StackName=CLUSTER, TemplateBody=_template(changed=True), Capabilities=["CAPABILITY_IAM"]
    )
    _await(cloudformation, "stack_update_complete")
    assert set(_associations(eks).values()) == {"PodsNew"}
    policies = eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=ADMIN)["associatedAccessPolicies"]
    assert [policy["policyArn"] for policy in policies] == [f"{POLICIES}/AmazonEKSViewPolicy"]
    assert [flow["TrafficType"] for flow in ec2.describe_flow_logs()["FlowLogs"]] == ["REJECT"]
    assert eks.describe_cluster(name=CLUSTER)["cluster"]["logging"]["clusterLogging"][0]["types"] == ["api", "audit"]

    cloudformation.delete_stack(StackName=CLUSTER)
    deadline = time.monotonic() + 60
    while (status := cloudformation.describe_stacks(StackName=CLUSTER)["Stacks"][0]["StackStatus"]) != "DELETE_FAILED":
        assert status == "DELETE_IN_PROGRESS"
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert eks.list_clusters()["clusters"] == [CLUSTER]

    eks.update_cluster_config(name=CLUSTER, deletionProtection=False)
    cloudformation.delete_stack(StackName=CLUSTER)
    _await(cloudformation, "stack_delete_complete")
    assert census.left_behind(before, census.take(access.client)) == {}
    (stays,) = census.stays(access.client)
    assert stays.startswith("KMS key ")
