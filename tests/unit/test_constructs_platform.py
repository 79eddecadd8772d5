"""Network and cluster where an environment asks for all that they can do."""

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from configuration import Environment
from tests.unit.assembly import MANIFEST, Assembly, flatten, objects_in
from tests.unit.platform_environment import ADMIN
from tests.unit.test_configuration_platform import EXISTING


@pytest.fixture(scope="module")
def existing(synthesise: Callable[[Environment], Assembly], content_of_workshop: dict[str, Any]) -> Assembly:
    """The workshop in a VPC that is there already, private and with IAM roles for service accounts."""
    content = content_of_workshop
    public = [{"id": "subnet-0123456789abcdef9", "zone": "us-west-2a"}]
    content["network"] = {"region": "us-west-2", "existing": {**EXISTING, "publicSubnets": public}}
    content["cluster"] |= {
        "endpoint": {"access": "private"},
        "secretsKey": "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
        "addons": {"aws-ebs-csi-driver": "v1.50.0-eksbuild.1"},
    }
    return synthesise(Environment.model_validate({**content, "name": "existing"}, by_name=False))


def _private_subnets(assembly: Assembly) -> dict[str, dict[str, Any]]:
    subnets = assembly.resources("AWS::EC2::Subnet", "network")
    return {name: s["Properties"] for name, s in subnets.items() if not s["Properties"]["MapPublicIpOnLaunch"]}


def _node_class(assembly: Assembly) -> dict[str, Any]:
    objects = [found for resource in assembly.resources(MANIFEST).values() for found in objects_in(resource)]
    (found,) = [
        found for found in objects if found["kind"] == "EC2NodeClass" and found["metadata"]["name"] == "default"
    ]
    return found["spec"]


def test_private_subnets_are_as_large_as_their_nodes_need(platform: Assembly) -> None:
    assert [subnet["CidrBlock"] for subnet in _private_subnets(platform).values()] == ["10.64.8.0/21", "10.64.16.0/21"]


def test_each_zone_has_its_own_way_out(platform: Assembly) -> None:
    assert len(platform.resources("AWS::EC2::NatGateway")) == 2
    routes = [r["Properties"] for r in platform.resources("AWS::EC2::Route").values()]
    gateways = [flatten(route["NatGatewayId"]) for route in routes if "NatGatewayId" in route]
    assert len(set(gateways)) == len(gateways) == 2


def test_endpoints_are_in_every_private_subnet_and_open_to_the_vpc_alone(platform: Assembly) -> None:
    endpoints = [e["Properties"] for e in platform.resources("AWS::EC2::VPCEndpoint").values()]
    interfaces = [endpoint for endpoint in endpoints if endpoint["VpcEndpointType"] == "Interface"]
    prefix = "com.amazonaws.us-west-2."
    assert {endpoint["ServiceName"].removeprefix(prefix) for endpoint in interfaces} == {
        *("ecr.api", "ecr.dkr", "ec2", "sts", "ssm", "sqs", "eks", "eks-auth", "logs")
    }
    (gateway,) = [endpoint for endpoint in endpoints if endpoint["VpcEndpointType"] == "Gateway"]
    assert flatten(gateway["ServiceName"]) == "com.amazonaws.<AWS::Region>.s3"
    groups = {flatten(group) for endpoint in interfaces for group in endpoint["SecurityGroupIds"]}
    assert len(groups) == 1
    for endpoint in interfaces:
        assert endpoint["PrivateDnsEnabled"] is True
        assert {flatten(subnet)[1:-1] for subnet in endpoint["SubnetIds"]} == _private_subnets(platform).keys()
    (group,) = platform.resources("AWS::EC2::SecurityGroup", "network").values()
    assert [(r["CidrIp"], r["FromPort"], r["ToPort"]) for r in group["Properties"]["SecurityGroupIngress"]] == [
        ("10.64.0.0/16", 443, 443)
    ]


def test_flow_logs_are_kept_for_a_month_and_go_with_their_stack(platform: Assembly, assembly: Assembly) -> None:
    assert platform.only("AWS::EC2::FlowLog")["TrafficType"] == "ALL"
    (group,) = platform.resources("AWS::Logs::LogGroup", "network").values()
    assert group["Properties"]["RetentionInDays"] == 30
    assert group["DeletionPolicy"] == "Delete"
    assert not assembly.resources("AWS::EC2::FlowLog")


def test_by_ids_nothing_carries_the_discovery_tag_and_node_classes_name_subnets_and_group(platform: Assembly) -> None:
    assert "karpenter.sh/discovery" not in json.dumps(platform.templates)
    spec = _node_class(platform)
    assert [list(term) for term in spec["subnetSelectorTerms"]] == [["id"], ["id"]]
    assert all("PrivateSubnet" in term["id"] for term in spec["subnetSelectorTerms"])
    ((group,),) = [term.values() for term in spec["securityGroupSelectorTerms"]]
    assert "NodeSecurityGroup" in group


def test_the_cluster_is_as_it_is_asked_for(platform: Assembly) -> None:
    cluster = platform.only("AWS::EKS::Cluster")
    (key,) = platform.resources("AWS::KMS::Key")
    assert cluster["Version"] == "1.36"
    assert cluster["AccessConfig"]["AuthenticationMode"] == "API"
    assert cluster["BootstrapSelfManagedAddons"] is False
    assert cluster["DeletionProtection"] is True
    assert cluster["UpgradePolicy"] == {"SupportType": "STANDARD"}
    assert cluster["KubernetesNetworkConfig"]["ServiceIpv4Cidr"] == "10.100.0.0/16"
    assert cluster["ResourcesVpcConfig"]["PublicAccessCidrs"] == ["203.0.113.0/24"]
    assert cluster["EncryptionConfig"] == [
        {"Provider": {"KeyArn": {"Fn::GetAtt": [key, "Arn"]}}, "Resources": ["secrets"]}
    ]
    assert [log["Type"] for log in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]] == [
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    ]


def test_the_key_is_rotated_and_goes_with_the_cluster(platform: Assembly) -> None:
    (key,) = platform.resources("AWS::KMS::Key").values()
    assert key["Properties"]["EnableKeyRotation"] is True
    assert key["DeletionPolicy"] == "Delete"


def test_control_plane_logs_go_to_a_log_group_that_goes_with_the_cluster(platform: Assembly) -> None:
    ((name, group),) = [
        (name, group)
        for name, group in platform.resources("AWS::Logs::LogGroup").items()
        if group["Properties"].get("LogGroupName") == "/aws/eks/platform/cluster"
    ]
    assert group["Properties"]["RetentionInDays"] == 30
    assert group["DeletionPolicy"] == "Delete"
    # EKS would otherwise make it first, and CloudFormation fail.
    (cluster,) = platform.resources("AWS::EKS::Cluster").values()
    assert name in cluster["DependsOn"]


def test_people_get_in_by_access_entries(platform: Assembly) -> None:
    entry = platform.named("AWS::EKS::AccessEntry", "PrincipalArn", ADMIN)
    (policy,) = entry["AccessPolicies"]
    assert flatten(policy["PolicyArn"]).endswith(":eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy")
    assert policy["AccessScope"] == {"Type": "cluster"}


def test_each_addon_has_its_version(platform: Assembly) -> None:
    addons = [addon["Properties"] for addon in platform.resources("AWS::EKS::Addon").values()]
    assert {addon["AddonName"]: addon.get("AddonVersion") for addon in addons} == {
        "vpc-cni": "v1.20.4-eksbuild.2",
        "kube-proxy": None,
        "coredns": None,
        "eks-pod-identity-agent": None,
        "aws-ebs-csi-driver": None,
        "eks-node-monitoring-agent": None,
    }


def test_what_nodes_need_outlives_them_and_what_needs_nodes_does_not(platform: Assembly) -> None:
    addons = {a["Properties"]["AddonName"]: name for name, a in platform.resources("AWS::EKS::Addon").items()}
    groups = platform.resources("AWS::EKS::Nodegroup")
    for group in groups.values():
        assert {addons[name] for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")} <= set(group["DependsOn"])
    for name in ("coredns", "aws-ebs-csi-driver", "eks-node-monitoring-agent"):
        after = platform.resources("AWS::EKS::Addon")[addons[name]]
        assert groups.keys() <= set(after["DependsOn"])


def test_the_ebs_csi_driver_has_a_role_of_its_own_by_pod_identity(platform: Assembly) -> None:
    addon = platform.named("AWS::EKS::Addon", "AddonName", "aws-ebs-csi-driver")
    (association,) = addon["PodIdentityAssociations"]
    assert association["ServiceAccount"] == "ebs-csi-controller-sa"
    role = platform.resources("AWS::IAM::Role")[flatten(association["RoleArn"])[1:].partition(".")[0]]["Properties"]
    assert [flatten(arn) for arn in role["ManagedPolicyArns"]] == [
        "arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
    ]
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    condition = statement["Condition"]["StringEquals"]
    assert condition["aws:RequestTag/kubernetes-namespace"] == "kube-system"
    assert condition["aws:RequestTag/kubernetes-service-account"] == "ebs-csi-controller-sa"


def test_the_ebs_csi_driver_has_a_role_of_its_own_by_irsa(existing: Assembly) -> None:
    addon = existing.named("AWS::EKS::Addon", "AddonName", "aws-ebs-csi-driver")
    assert addon["AddonVersion"] == "v1.50.0-eksbuild.1"
    assert "PodIdentityAssociations" not in addon
    role = existing.resources("AWS::IAM::Role")[flatten(addon["ServiceAccountRoleArn"])[1:].partition(".")[0]]
    text, _ = role["Properties"]["AssumeRolePolicyDocument"]["Fn::Sub"]
    (statement,) = json.loads(text)["Statement"]
    assert (
        statement["Condition"]["StringEquals"]["${Issuer}:sub"]
        == "system:serviceaccount:kube-system:ebs-csi-controller-sa"
    )
    # The three of the network are EKS's own, unmanaged, where none of them is asked for.
    assert "BootstrapSelfManagedAddons" not in existing.only("AWS::EKS::Cluster")


def test_an_existing_vpc_is_only_referred_to(existing: Assembly) -> None:
    assert "network" not in existing.templates
    assert existing.stack_dependencies["cluster"] == []
    kinds = {r["Type"] for template in existing.templates.values() for r in template["Resources"].values()}
    assert {kind for kind in kinds if kind.startswith("AWS::EC2::")} == {
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
    }
    cluster = existing.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    private = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    assert cluster["SubnetIds"] == [*private, "subnet-0123456789abcdef9"]
    for group in existing.resources("AWS::EKS::Nodegroup").values():
        assert group["Properties"]["Subnets"] == private
    assert _node_class(existing)["subnetSelectorTerms"] == [{"id": subnet} for subnet in private]
    for group in existing.resources("AWS::EC2::SecurityGroup").values():
        assert group["Properties"]["VpcId"] == "vpc-0123456789abcdef0"


def test_a_private_endpoint_is_reached_by_the_kubectl_handler_from_the_vpc(existing: Assembly) -> None:
    cluster = existing.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert cluster["EndpointPublicAccess"] is False
    assert cluster["EndpointPrivateAccess"] is True
    assert "PublicAccessCidrs" not in cluster
    functions = [f["Properties"] for f in existing.resources("AWS::Lambda::Function", "cluster").values()]
    assert len(functions) == 2
    for function in functions:
        assert set(function["VpcConfig"]["SubnetIds"]) >= {"subnet-0123456789abcdef0", "subnet-0123456789abcdef1"}


def test_a_key_that_is_there_is_used_and_not_made(existing: Assembly) -> None:
    ((config,),) = [existing.only("AWS::EKS::Cluster")["EncryptionConfig"]]
    assert config["Provider"]["KeyArn"].endswith("key/1234abcd-12ab-34cd-56ef-1234567890ab")
    assert not existing.resources("AWS::KMS::Key")


def test_ones_own_tags_are_on_everything_and_on_the_nodes(platform: Assembly) -> None:
    checked = 0
    for template in platform.templates.values():
        for logical_id, resource in template["Resources"].items():
            tags: Any = resource["Properties"].get("Tags")
            if tags:
                found = _by_key(tags)
                assert (found["team"], found["cost-centre"]) == ("research", "42"), logical_id
                checked += 1
    assert checked > 40
    assert _node_class(platform)["tags"].items() >= {"team": "research", "cost-centre": "42"}.items()


def test_the_platform_has_at_most_four_functions(platform: Assembly) -> None:
    assert len(platform.resources("AWS::Lambda::Function")) == 3


def _by_key(tags: Any) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in cast("list[Any]", tags)} if isinstance(tags, list) else tags
