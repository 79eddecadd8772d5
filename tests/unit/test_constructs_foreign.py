"""The constructs on a cluster that somebody else made."""

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from eks_gpu import ControllerRole, InterruptionQueue, NodeAccess, NodeSecurityGroup

ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/0123456789ABCDEF"


def _stack(region: str | None = "us-west-2") -> cdk.Stack:
    app = cdk.App(analytics_reporting=False, context={"@aws-cdk/core:enablePartitionLiterals": True})
    return cdk.Stack(app, "mine", env=cdk.Environment(region=region) if region else None)


def _cluster(stack: cdk.Stack, **attributes: Any) -> eks.ICluster:
    given: dict[str, Any] = {"cluster_name": "theirs", **attributes}
    return eks.Cluster.from_cluster_attributes(stack, "Theirs", **given)


def _provider(stack: cdk.Stack) -> Any:
    arn = f"arn:aws:iam::111122223333:oidc-provider/{ISSUER}"
    return iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(stack, "Provider", arn)


def _karpenter(stack: cdk.Stack, cluster: eks.ICluster, name: str, credentials: Any = "irsa", **roles: Any) -> None:
    ControllerRole(
        stack,
        "Controller",
        cluster=cluster,
        cluster_name=name,
        release="1.14.1",
        credentials=credentials,
        namespace="karpenter",
        service_account="karpenter",
        nodes=NodeAccess(stack, "Nodes", cluster=cluster, cluster_name=name, role_name=roles.get("node")),
        interruption=InterruptionQueue(stack, "Interruption", cluster_name=name, release="1.14.1"),
        role_name=roles.get("controller"),
    )


def _template(stack: cdk.Stack) -> dict[str, Any]:
    return dict(Template.from_stack(stack).to_json())


def _of(template: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [r["Properties"] for r in template["Resources"].values() if r["Type"] == kind]


@pytest.mark.parametrize("credentials", ["irsa", "pod-identity"])
def test_karpenter_moves_into_an_imported_cluster(credentials: str) -> None:
    stack = _stack()
    provider = {"open_id_connect_provider": _provider(stack)} if credentials == "irsa" else {}
    _karpenter(stack, _cluster(stack, **provider), "theirs", credentials)
    template = _template(stack)
    assert len(_of(template, "AWS::IAM::ManagedPolicy")) == 6
    (entry,) = _of(template, "AWS::EKS::AccessEntry")
    assert (entry["ClusterName"], entry["Type"]) == ("theirs", "EC2_LINUX")
    assert not [kind for kind in _kinds(template) if kind.startswith(("Custom::", "AWS::Lambda"))]
    associations = _of(template, "AWS::EKS::PodIdentityAssociation")
    assert [a["ClusterName"] for a in associations] == (["theirs"] if credentials == "pod-identity" else [])


def _kinds(template: dict[str, Any]) -> set[str]:
    return {resource["Type"] for resource in template["Resources"].values()}


def test_a_name_that_is_a_token_gives_policies_as_text_and_no_custom_resource() -> None:
    stack = _stack(region=None)
    name = cdk.CfnParameter(stack, "Name").value_as_string
    _karpenter(stack, _cluster(stack, cluster_name=name), name, "pod-identity")
    template = _template(stack)
    assert not [kind for kind in _kinds(template) if kind.startswith(("Custom::", "AWS::Lambda"))]
    policies = {
        p["ManagedPolicyName"]["Fn::Join"][1][0]: p["PolicyDocument"] for p in _of(template, "AWS::IAM::ManagedPolicy")
    }
    assert len(policies) == 6
    text, values = policies["KarpenterControllerNodeLifecyclePolicy-"]["Fn::Sub"]
    assert values == {"ClusterName": {"Ref": "Name"}}
    statements = {statement["Sid"]: statement for statement in json.loads(text)["Statement"]}
    assert statements["AllowScopedDeletion"] == {
        "Sid": "AllowScopedDeletion",
        "Effect": "Allow",
        "Action": ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
        "Resource": [
            "arn:${AWS::Partition}:ec2:${AWS::Region}:*:instance/*",
            "arn:${AWS::Partition}:ec2:${AWS::Region}:*:launch-template/*",
        ],
        "Condition": {
            "StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/${ClusterName}": "owned"},
            "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
        },
    }
    for document in policies.values():
        written: Any = document["Fn::Sub"]
        text, values = (written, dict[str, Any]()) if isinstance(written, str) else written
        used = {part.partition("}")[0] for part in text.split("${")[1:]}
        assert {variable for variable in used if not variable.startswith("AWS::")} == values.keys()
        assert "Token[" not in text
        json.loads(text)


@pytest.mark.parametrize(
    ("region", "partition", "ec2_name"),
    [
        ("cn-north-1", "aws-cn", "ec2.amazonaws.com.cn"),
        ("us-gov-west-1", "aws-us-gov", "ec2.amazonaws.com"),
        ("eu-west-1", "aws", "ec2.amazonaws.com"),
    ],
)
def test_every_arn_is_of_the_regions_partition(region: str, partition: str, ec2_name: str) -> None:
    stack = _stack(region)
    _karpenter(stack, _cluster(stack, open_id_connect_provider=_provider(stack)), "theirs")
    template = _template(stack)
    policies = json.dumps([p["PolicyDocument"] for p in _of(template, "AWS::IAM::ManagedPolicy")])
    assert {part.partition(":")[0] for part in policies.split('"arn:')[1:]} == {partition}
    node = next(r for r in _of(template, "AWS::IAM::Role") if r["RoleName"] == "KarpenterNodeRole-theirs")
    (statement,) = node["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": ec2_name}


def _group(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    NodeSecurityGroup(stack, "Group", cluster=cluster, cluster_name="theirs", discovery_tag=False)


def _irsa(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    _karpenter(stack, cluster, "theirs")


@pytest.mark.parametrize(("attribute", "make"), [("open_id_connect_provider", _irsa), ("vpc", _group)])
def test_what_an_imported_cluster_lacks_is_named(
    attribute: str, make: Callable[[cdk.Stack, eks.ICluster], None]
) -> None:
    stack = _stack()
    with pytest.raises(
        ValueError,
        match=rf"the imported cluster at mine/Theirs has no {attribute}, .* give {attribute}=... to "
        rf"Cluster.from_cluster_attributes",
    ):
        make(stack, _cluster(stack))


def test_the_nodes_security_group_needs_the_clusters_own() -> None:
    stack = _stack()
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"])
    with pytest.raises(ValueError, match="has no cluster_security_group_id, which is needed for traffic"):
        _group(stack, _cluster(stack, vpc=vpc))


def test_the_nodes_security_group_in_an_imported_cluster_can_go_without_the_tag() -> None:
    stack = _stack()
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["us-west-2a"])
    cluster = _cluster(stack, vpc=vpc, cluster_security_group_id="sg-1")
    _group(stack, cluster)
    template = _template(stack)
    assert len(_of(template, "AWS::EC2::SecurityGroupIngress")) == 3
    assert "karpenter.sh/discovery" not in json.dumps(template)


@pytest.mark.parametrize(
    ("given", "longest"),
    [({}, "KarpenterNodeRole-"), ({"node": "nodes"}, "KarpenterControllerRole-")],
)
def test_a_role_name_that_iam_does_not_take_is_named_with_what_to_give(given: dict[str, str], longest: str) -> None:
    stack = _stack()
    name = "c" * 100
    cluster = _cluster(stack, cluster_name=name)
    with pytest.raises(ValueError, match=rf"role name '{longest}c+' has \d+ characters, and IAM takes 64; give role_n"):
        _karpenter(stack, cluster, name, "pod-identity", **given)


def test_a_cluster_of_100_characters_works_with_role_names_of_ones_own() -> None:
    stack = _stack()
    name = "c" * 100
    _karpenter(stack, _cluster(stack, cluster_name=name), name, "pod-identity", node="nodes", controller="karpenter")
    for policy in _of(_template(stack), "AWS::IAM::ManagedPolicy"):
        assert len(policy.get("ManagedPolicyName", "")) <= 128
