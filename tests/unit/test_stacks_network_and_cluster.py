"""The network and the cluster, as CloudFormation gets them."""

from collections.abc import Mapping
from typing import Any, cast

from tests.unit.assembly import Assembly, flatten

DISCOVERY = {"Key": "karpenter.sh/discovery", "Value": "training-on-eks"}


def _private_subnets(assembly: Assembly) -> dict[str, dict[str, Any]]:
    subnets = assembly.resources("AWS::EC2::Subnet", "network")
    return {name: s["Properties"] for name, s in subnets.items() if not s["Properties"]["MapPublicIpOnLaunch"]}


def test_s0_1_the_cluster(assembly: Assembly) -> None:
    cluster = assembly.only("AWS::EKS::Cluster")
    assert cluster["Name"] == "training-on-eks"
    assert cluster["Version"] == "1.33"
    assert cluster["AccessConfig"] == {"AuthenticationMode": "API", "BootstrapClusterCreatorAdminPermissions": False}
    assert cluster["ComputeConfig"] == {"Enabled": False}
    assert cluster["UpgradePolicy"] == {"SupportType": "EXTENDED"}
    assert cluster["KubernetesNetworkConfig"]["ServiceIpv4Cidr"] == "172.20.0.0/16"
    assert cluster["ResourcesVpcConfig"]["PublicAccessCidrs"] == ["0.0.0.0/0"]
    assert cluster["ResourcesVpcConfig"]["EndpointPrivateAccess"] is True
    assert cluster["ResourcesVpcConfig"]["EndpointPublicAccess"] is True
    assert len(cluster["ResourcesVpcConfig"]["SubnetIds"]) == 3


def test_s0_1_two_node_groups_x86_and_graviton(assembly: Assembly) -> None:
    groups = {
        g["Properties"]["NodegroupName"]: g["Properties"] for g in assembly.resources("AWS::EKS::Nodegroup").values()
    }
    shape = {name: (group["AmiType"], group["InstanceTypes"]) for name, group in groups.items()}
    assert shape == {
        "ng-x86": ("AL2023_x86_64_STANDARD", ["m6i.large"]),
        "ng-arm": ("AL2023_ARM_64_STANDARD", ["m7g.large"]),
    }
    for group in groups.values():
        assert group["ScalingConfig"] == {"MinSize": 1, "DesiredSize": 1, "MaxSize": 1}
        assert [flatten(subnet) for subnet in group["Subnets"]] == [
            flatten(subnet) for subnet in assembly.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]["SubnetIds"]
        ]


def test_s0_3_the_cluster_has_an_oidc_provider_without_a_lambda_function(assembly: Assembly) -> None:
    provider = assembly.only("AWS::IAM::OIDCProvider")
    assert provider["ClientIdList"] == ["sts.amazonaws.com"]
    assert flatten(provider["Url"]).endswith(".OpenIdConnectIssuerUrl>")


def test_s0_5_private_subnets_carry_the_discovery_tag_and_public_ones_do_not(assembly: Assembly) -> None:
    tagged = {
        name
        for name, subnet in assembly.resources("AWS::EC2::Subnet").items()
        if DISCOVERY in subnet["Properties"]["Tags"]
    }
    assert tagged == _private_subnets(assembly).keys()
    assert len(tagged) == 3


def test_s0_5_one_security_group_and_nothing_else_carries_the_discovery_tag(assembly: Assembly) -> None:
    tagged = [
        resource["Type"]
        for template in assembly.templates.values()
        for resource in template["Resources"].values()
        if _tags(resource).get("karpenter.sh/discovery")
    ]
    assert sorted(tagged) == ["AWS::EC2::SecurityGroup", *["AWS::EC2::Subnet"] * 3]


def test_s0_5_tagged_nodes_reach_the_control_plane_the_managed_nodes_and_each_other(assembly: Assembly) -> None:
    (ours,) = [
        name
        for name, group in assembly.resources("AWS::EC2::SecurityGroup").items()
        if DISCOVERY in group["Properties"]["Tags"]
    ]
    (cluster,) = assembly.resources("AWS::EKS::Cluster")
    nodes, made_by_eks = f"<{ours}.GroupId>", f"<{cluster}.ClusterSecurityGroupId>"
    rules = [rule["Properties"] for rule in assembly.resources("AWS::EC2::SecurityGroupIngress").values()]
    assert {
        (flatten(rule["SourceSecurityGroupId"]), flatten(rule["GroupId"]), rule["IpProtocol"]) for rule in rules
    } == {(nodes, nodes, "-1"), (made_by_eks, nodes, "-1"), (nodes, made_by_eks, "-1")}
    assert "SecurityGroupIngress" not in assembly.resources("AWS::EC2::SecurityGroup")[ours]["Properties"]


def test_the_network_has_explicit_zones_and_one_nat_gateway(assembly: Assembly) -> None:
    assert assembly.only("AWS::EC2::VPC")["CidrBlock"] == "10.0.0.0/16"
    assert len(assembly.resources("AWS::EC2::NatGateway")) == 1
    private = _private_subnets(assembly).values()
    assert [subnet["AvailabilityZone"] for subnet in private] == ["us-west-2a", "us-west-2b", "us-west-2c"]
    assert [subnet["CidrBlock"] for subnet in private] == ["10.0.32.0/19", "10.0.64.0/19", "10.0.96.0/19"]


def test_every_private_subnet_has_a_route_out(assembly: Assembly) -> None:
    routes = [
        r["Properties"] for r in assembly.resources("AWS::EC2::Route").values() if "NatGatewayId" in r["Properties"]
    ]
    assert len(routes) == len(_private_subnets(assembly))
    assert {route["DestinationCidrBlock"] for route in routes} == {"0.0.0.0/0"}


def test_there_are_the_kubectl_handlers_two_functions_and_the_spot_roles(assembly: Assembly) -> None:
    handlers = {
        stack: sorted(f["Properties"]["Handler"] for f in assembly.resources("AWS::Lambda::Function", stack).values())
        for stack in assembly.templates
    }
    assert {stack: found for stack, found in handlers.items() if found} == {
        "cluster": ["framework.onEvent", "index.handler"],
        "karpenter": ["index.handler"],
    }


def test_custom_resources_are_kubernetes_objects_the_definitions_and_the_spot_role_alone(assembly: Assembly) -> None:
    kinds = {
        resource["Type"]
        for template in assembly.templates.values()
        for resource in template["Resources"].values()
        if resource["Type"].startswith(("Custom::", "AWS::CloudFormation::CustomResource"))
    }
    assert kinds == {
        "Custom::AWSCDK-EKS-HelmChart",
        "Custom::AWSCDK-EKS-KubernetesResource",
        "Custom::EC2SpotServiceLinkedRole",
    }


def test_every_function_has_a_log_group_and_every_log_group_goes_with_its_stack(assembly: Assembly) -> None:
    groups = assembly.resources("AWS::Logs::LogGroup")
    names = {flatten(group["Properties"]["LogGroupName"]) for group in groups.values()}
    assert names == {f"/aws/lambda/<{function}>" for function in assembly.resources("AWS::Lambda::Function")}
    assert {group["DeletionPolicy"] for group in groups.values()} == {"Delete"}


def test_nothing_is_kept_when_its_stack_is_deleted(assembly: Assembly) -> None:
    policies = {
        resource.get("DeletionPolicy", "Delete")
        for template in assembly.templates.values()
        for resource in template["Resources"].values()
    }
    assert policies == {"Delete"}


def test_everything_that_takes_tags_names_its_environment(assembly: Assembly) -> None:
    for template in assembly.templates.values():
        for logical_id, resource in template["Resources"].items():
            if "Tags" in resource["Properties"]:
                assert _tags(resource)["eks-gpu/environment"] == "workshop", logical_id


def _tags(resource: Mapping[str, Any]) -> dict[str, str]:
    tags: Any = resource["Properties"].get("Tags", {})
    return {tag["Key"]: tag["Value"] for tag in cast("list[Any]", tags)} if isinstance(tags, list) else tags
