"""Karpenter's roles, its queue and its rules, as CloudFormation gets them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.unit.assembly import Assembly, flatten

Objects = Mapping[str, dict[str, Any]]


def _policies(role: Mapping[str, Any]) -> list[str]:
    return [flatten(arn).removeprefix("arn:<AWS::Partition>:iam::aws:policy/") for arn in role["ManagedPolicyArns"]]


def _role(assembly: Assembly, name: str) -> tuple[str, dict[str, Any]]:
    (found,) = [
        (logical_id, role["Properties"])
        for logical_id, role in assembly.resources("AWS::IAM::Role").items()
        if role["Properties"].get("RoleName") == name
    ]
    return found


def test_s0_4_the_node_role(assembly: Assembly) -> None:
    _, role = _role(assembly, "KarpenterNodeRole-training-on-eks")
    assert _policies(role) == [
        "AmazonEKS_CNI_Policy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonSSMManagedInstanceCore",
    ]
    assert role["AssumeRolePolicyDocument"]["Statement"] == [
        {"Action": "sts:AssumeRole", "Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}
    ]


def test_s0_4_the_controller_role_has_the_six_policies_and_no_other(assembly: Assembly) -> None:
    _, role = _role(assembly, "KarpenterControllerRole-training-on-eks")
    named = assembly.resources("AWS::IAM::ManagedPolicy")
    assert [named[flatten(arn)[1:-1]]["Properties"]["ManagedPolicyName"] for arn in role["ManagedPolicyArns"]] == [
        "KarpenterControllerNodeLifecyclePolicy-training-on-eks",
        "KarpenterControllerIAMIntegrationPolicy-training-on-eks",
        "KarpenterControllerEKSIntegrationPolicy-training-on-eks",
        "KarpenterControllerInterruptionPolicy-training-on-eks",
        "KarpenterControllerZonalShiftPolicy-training-on-eks",
        "KarpenterControllerResourceDiscoveryPolicy-training-on-eks",
    ]
    assert "Policies" not in role


def test_s0_3_only_karpenters_service_account_may_take_the_controller_role(assembly: Assembly) -> None:
    _, role = _role(assembly, "KarpenterControllerRole-training-on-eks")
    text, variables = role["AssumeRolePolicyDocument"]["Fn::Sub"]
    assert json.loads(text) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": "${Provider}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {
                    "StringEquals": {
                        "${Issuer}:aud": "sts.amazonaws.com",
                        "${Issuer}:sub": "system:serviceaccount:karpenter:karpenter",
                    }
                },
            }
        ],
    }
    (provider,) = assembly.resources("AWS::IAM::OIDCProvider")
    exported = {
        output["Export"]["Name"]: output["Value"] for output in assembly.templates["cluster"]["Outputs"].values()
    }
    assert exported[variables["Provider"]["Fn::ImportValue"]] == {"Ref": provider}
    # arn:aws:iam::ACCOUNT:oidc-provider/ISSUER: what stands behind the slash is the issuer without its https://.
    assert variables["Issuer"] == {"Fn::Select": [1, {"Fn::Split": [":oidc-provider/", variables["Provider"]]}]}


def test_s0_3_the_service_account_names_the_controller_role(assembly: Assembly, manifests: Objects) -> None:
    logical_id, _ = _role(assembly, "KarpenterControllerRole-training-on-eks")
    annotations = manifests["ServiceAccount/karpenter/karpenter"]["metadata"]["annotations"]
    assert annotations == {"eks.amazonaws.com/role-arn": f"<{logical_id}.Arn>"}


def test_s0_6_s3_3_nodes_of_the_node_role_may_join(assembly: Assembly, manifests: Objects) -> None:
    logical_id, role = _role(assembly, "KarpenterNodeRole-training-on-eks")
    entry = assembly.only("AWS::EKS::AccessEntry", "karpenter")
    assert entry["Type"] == "EC2_LINUX"
    assert flatten(entry["PrincipalArn"]) == f"<{logical_id}.Arn>"
    assert entry["AccessPolicies"] == []
    assert not {"Username", "KubernetesGroups"} & entry.keys()
    assert manifests["EC2NodeClass/default"]["spec"]["role"] == role["RoleName"]


def test_s0_7_the_controller_is_told_this_cluster_and_this_queue(assembly: Assembly, manifests: Objects) -> None:
    (container,) = manifests["Deployment/karpenter/karpenter"]["spec"]["template"]["spec"]["containers"]
    variables = {variable["name"]: variable.get("value") for variable in container["env"]}
    (queue,) = assembly.resources("AWS::SQS::Queue")
    assert variables["CLUSTER_NAME"] == "training-on-eks"
    assert variables["INTERRUPTION_QUEUE"] == f"<{queue}.QueueName>"
    assert "Endpoint" in variables["CLUSTER_ENDPOINT"]
    assert variables["AWS_REGION"] == "us-west-2"


def test_s0_7_the_definitions_come_from_karpenters_own_chart(assembly: Assembly) -> None:
    chart = assembly.only("Custom::AWSCDK-EKS-HelmChart")
    assert chart["Repository"] == "oci://public.ecr.aws/karpenter/karpenter-crd"
    assert chart["Chart"] == chart["Release"] == "karpenter-crd"
    assert chart["Version"] == "1.14.1"
    assert chart["Namespace"] == "karpenter"
    assert chart["Wait"] is True
    assert chart["Timeout"] == "120s"


def test_s3_2_the_queue(assembly: Assembly) -> None:
    queue = assembly.only("AWS::SQS::Queue")
    assert queue["QueueName"] == "training-on-eks"
    assert queue["MessageRetentionPeriod"] == 300
    assert queue["SqsManagedSseEnabled"] is True


def test_s3_2_the_queues_policy(assembly: Assembly) -> None:
    (queue,) = assembly.resources("AWS::SQS::Queue")
    arn = {"Fn::GetAtt": [queue, "Arn"]}
    assert assembly.only("AWS::SQS::QueuePolicy") == {
        "Queues": [{"Ref": queue}],
        "PolicyDocument": {
            "Version": "2012-10-17",
            "Id": "EC2InterruptionPolicy",
            "Statement": [
                {
                    "Effect": "Allow",
                    "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
                    "Action": "sqs:SendMessage",
                    "Resource": arn,
                },
                {
                    "Sid": "DenyHTTP",
                    "Effect": "Deny",
                    "Principal": "*",
                    "Action": "sqs:*",
                    "Resource": arn,
                    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                },
            ],
        },
    }


def test_s3_2_five_rules_put_ec2s_warnings_into_the_queue(assembly: Assembly) -> None:
    (queue,) = assembly.resources("AWS::SQS::Queue")
    rules = [rule["Properties"] for rule in assembly.resources("AWS::Events::Rule").values()]
    patterns = [(rule["EventPattern"]["source"], rule["EventPattern"]["detail-type"]) for rule in rules]
    assert patterns == [
        (["aws.health"], ["AWS Health Event"]),
        (["aws.ec2"], ["EC2 Spot Instance Interruption Warning"]),
        (["aws.ec2"], ["EC2 Instance Rebalance Recommendation"]),
        (["aws.ec2"], ["EC2 Instance State-change Notification"]),
        (["aws.ec2"], ["EC2 Capacity Reservation Instance Interruption Warning"]),
    ]
    for rule in rules:
        assert rule["EventPattern"].keys() == {"source", "detail-type"}
        assert rule.get("State", "ENABLED") == "ENABLED"
        assert rule["Targets"] == [{"Id": "KarpenterInterruptionQueueTarget", "Arn": {"Fn::GetAtt": [queue, "Arn"]}}]
