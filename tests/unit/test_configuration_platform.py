"""Network, cluster, tags and alarms in an environment file: what is refused, with which words."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from configuration import ConfigurationError, Environment, load_environment
from tests.unit.platform_environment import ADMIN, TOPIC, platform_content

Load = Callable[[dict[str, Any]], Environment]

KEEP = object()
EXISTING: dict[str, Any] = {
    "vpcId": "vpc-0123456789abcdef0",
    "cidr": "10.0.0.0/16",
    "privateSubnets": [
        {"id": "subnet-0123456789abcdef0", "zone": "us-west-2a"},
        {"id": "subnet-0123456789abcdef1", "zone": "us-west-2b"},
    ],
}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def run(content: dict[str, Any]) -> Environment:
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
        return load_environment("mine", tmp_path)

    return run


def _set(content: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    node: Any = content
    for part in parents:
        node = node[part]
    node[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "network/vpc/availabilityZones",
            ["us-west-2a", "us-east-1a"],
            "network.vpc.availabilityZones: us-east-1a is not in region us-west-2; zones there are us-west-2a, "
            "us-west-2b and so on",
        ),
        (
            "network/vpc/availabilityZones",
            ["us-west-2a"],
            "network.vpc.availabilityZones: must have at least 2 item(s)",
        ),
        (
            "network/vpc/availabilityZones",
            ["us-west-2a", "us-west-2a"],
            "network.vpc.availabilityZones: a zone is given twice in ['us-west-2a', 'us-west-2a']; keep one of each",
        ),
        (
            "network/vpc/cidr",
            "10.64.0.0/22",
            "network.vpc.cidr: 10.64.0.0/22 is too small: it has 1024 addresses, and 2 zones need 6144: a /21 each "
            "for 20 nodes with 50 pods, and a /24; use a range of at least a /19, such as 10.64.0.0/19, or fewer "
            "nodes, podsPerNode or zones",
        ),
        (
            "network/vpc/nodes",
            1000,
            "network.vpc.cidr: 10.64.0.0/16 is too small: it has 65536 addresses, and 2 zones need 196608: a /16 each "
            "for 1000 nodes with 50 pods, and a /24; use fewer nodes, podsPerNode or zones: a VPC is at most a /16",
        ),
        (
            "network/vpc/cidr",
            "10.0.0.1/16",
            "network.vpc.cidr: must be an IPv4 range such as 10.0.0.0/16 (10.0.0.1/16 has host bits set) (given: "
            "'10.0.0.1/16')",
        ),
        (
            "network/vpc/cidr",
            "10.0.0.0/8",
            "network.vpc.cidr: a VPC is at most a /16; write for example 10.0.0.0/16 (given: '10.0.0.0/8')",
        ),
        (
            "network/vpc/cidr",
            "10.0.0.0/29",
            "network.vpc.cidr: a VPC is at least a /28, and one for a cluster far more; write for example 10.0.0.0/16 "
            "(given: '10.0.0.0/29')",
        ),
        (
            "network/vpc/subnets",
            3,
            "network.vpc.subnets: unknown key; allowed here: availabilityZones, cidr, endpoints, flowLogs, "
            "natGateways, nodes, podsPerNode (given: 3)",
        ),
        (
            "network/vpc/endpoints",
            ["s3", "s3"],
            "network.vpc.endpoints: an endpoint is given twice in ['s3', 's3']; keep one of each",
        ),
        (
            "network/existing",
            EXISTING,
            "network: exactly one of vpc and existing is needed, and both are given; keep one of them",
        ),
        (
            "network",
            {"region": "us-west-2"},
            "network: exactly one of vpc and existing is needed, and neither is given; keep one of them",
        ),
        (
            "network",
            {"region": "us-west-2", "existing": EXISTING, "discovery": "tags"},
            "network.discovery: subnets that are there already are not tagged; use ids, or leave it out",
        ),
        (
            "network",
            {"region": "us-west-1", "existing": EXISTING},
            "network.existing.privateSubnets: us-west-2a, us-west-2b is not in region us-west-1; zones there are "
            "us-west-1a, us-west-1b and so on",
        ),
        (
            "network",
            {"region": "us-west-2", "existing": {**EXISTING, "privateSubnets": EXISTING["privateSubnets"][:1] * 2}},
            "network.existing: two have the name subnet-0123456789abcdef0; give every subnet a name of its own",
        ),
        (
            "network",
            {
                "region": "us-west-2",
                "existing": {
                    **EXISTING,
                    "privateSubnets": [{**s, "zone": "us-west-2a"} for s in EXISTING["privateSubnets"]],
                },
            },
            "network.existing.privateSubnets: all are in us-west-2a, and EKS needs two zones; add one elsewhere",
        ),
        (
            "network",
            {"region": "us-west-2", "existing": {**EXISTING, "vpcId": "my-vpc"}},
            "network.existing.vpcId: must be a VPC's id such as vpc-0123456789abcdef0 (given: 'my-vpc')",
        ),
        (
            "cluster/serviceCidr",
            "10.64.0.0/16",
            "cluster.serviceCidr: 10.64.0.0/16 overlaps the VPC's range 10.64.0.0/16, and a pod could not reach what "
            "is in both; use 172.20.0.0/16, or another range for the VPC",
        ),
        (
            "cluster/serviceCidr",
            "100.64.0.0/16",
            "cluster.serviceCidr: must lie within one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16; write for example "
            "172.20.0.0/16 (given: '100.64.0.0/16')",
        ),
        (
            "cluster/serviceCidr",
            "172.20.0.0/25",
            "cluster.serviceCidr: must be between a /12 and a /24; write for example 172.20.0.0/16 (given: "
            "'172.20.0.0/25')",
        ),
        (
            "cluster/kubernetesVersion",
            "1.32",
            "cluster.kubernetesVersion: no kubectl layer is installed for Kubernetes 1.32; use 1.33 or 1.34 or 1.35 or "
            "1.36, or add aws-cdk-lambda-layer-kubectl-v32 (given: '1.32')",
        ),
        (
            "cluster/kubernetesVersion",
            "1.33",
            "cluster.supportType: standard support of Kubernetes 1.33 ended on 2026-07-29, so EKS would upgrade the "
            "cluster at once; use EXTENDED, or a newer kubernetesVersion",
        ),
        (
            "cluster/endpoint",
            {"access": "private", "publicCidrs": ["203.0.113.0/24"]},
            "cluster.endpoint.publicCidrs: a private endpoint has no public ranges; remove them, or change access",
        ),
        (
            "cluster/endpoint/publicCidrs",
            ["10.1.0.0/16"],
            "cluster.endpoint.publicCidrs: 10.1.0.0/16 is private, and nobody comes from there to the public endpoint; "
            "name the range that your requests leave from, such as 203.0.113.0/24",
        ),
        (
            "cluster/admins",
            ["platform-admin"],
            "cluster.admins[0]: must be the ARN of an IAM role or user, such as "
            "arn:aws:iam::123456789012:role/admin (given: 'platform-admin')",
        ),
        ("cluster/admins", [ADMIN, ADMIN], f"cluster.admins: {ADMIN} is given twice; keep one"),
        (
            "cluster/secretsKey",
            "alias/mine",
            "cluster.secretsKey: must be own, or the ARN of a key such as "
            "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab (given: 'alias/mine')",
        ),
        (
            "cluster/addons",
            {"vpc-cni": "default", "coredns": "default"},
            "cluster.addons: vpc-cni without kube-proxy: EKS then installs none of the three by itself, and no pod "
            "would have a network and names; add kube-proxy: default",
        ),
        (
            "cluster/addons/coredns",
            "1.12.1",
            "cluster.addons.coredns: must be default, or a version such as v1.20.4-eksbuild.2 (aws eks "
            "describe-addon-versions lists them) (given: '1.12.1')",
        ),
        (
            "cluster/addons/core-dns",
            "default",
            "cluster.addons.core-dns: unknown key; allowed here: aws-ebs-csi-driver, coredns, "
            "eks-node-monitoring-agent, eks-pod-identity-agent, kube-proxy, vpc-cni (given: 'default')",
        ),
        (
            "karpenter/controllerRole",
            "r" * 65,
            "karpenter.controllerRole: is too long: at most 64 characters, so that the names made from it fit "
            f"(given: '{'r' * 65}')",
        ),
        (
            "tags/aws:team",
            "research",
            "tags: 'aws:team' begins with aws:, which is reserved; use another key",
        ),
        (
            "tags/karpenter.sh/discovery",
            KEEP,
            "tags: 'karpenter.sh/discovery' begins with karpenter.sh/, which is reserved; use another key",
        ),
        ("tags/Name", "mine", "tags: 'Name' would give everything one name in the console; use another key"),
        ("tags", {str(n): "" for n in range(41)}, "tags: 41 tags are too many: at most 40; remove some"),
        ("tags/team", 42, "tags.team: must be text; put it in quotes (given: 42)"),
        (
            "tags/team",
            "v" * 257,
            "tags.team: is too long: at most 256 characters, so that the names made from it fit "
            f"(given: '{'v' * 257}')",
        ),
        (
            "alarms/topicArn",
            "on-call",
            "alarms.topicArn: must be the ARN of an SNS topic, such as arn:aws:sns:us-west-2:123456789012:on-call "
            "(given: 'on-call')",
        ),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    path: str, value: Any, message: str, content: dict[str, Any], load: Load, tmp_path: Path
) -> None:
    wrong = platform_content(content)
    if value is KEEP:
        wrong["tags"][path.removeprefix("tags/")] = "mine"
    else:
        _set(wrong, path, value)
    with pytest.raises(ConfigurationError) as caught:
        load(wrong)
    assert str(caught.value).splitlines() == [f"{tmp_path / 'mine.yaml'} cannot be built:", f"  {message}"]


def test_what_the_aws_side_can_do_is_a_valid_file(content: dict[str, Any], load: Load) -> None:
    environment = load(platform_content(content))
    assert environment.tags == {"team": "research", "cost-centre": "42"}
    assert environment.alarms
    assert environment.alarms.topic_arn == TOPIC
    assert environment.network.by_ids
    assert environment.cluster.addons.versions() == {
        "vpc-cni": "v1.20.4-eksbuild.2",
        "kube-proxy": "default",
        "coredns": "default",
        "aws-ebs-csi-driver": "default",
        "eks-node-monitoring-agent": "default",
    }


@pytest.mark.parametrize(
    ("nodes", "pods", "prefix"),
    [(64, 110, 19), (73, 110, 19), (74, 110, 18), (1, 1, 29), (1, 2, 29), (1, 3, 28), (10, 110, 21), (9, 110, 22)],
)
def test_a_private_subnet_is_the_smallest_that_holds_its_nodes_and_their_pods(
    nodes: int, pods: int, prefix: int, content: dict[str, Any], load: Load
) -> None:
    content["network"]["vpc"] |= {"nodes": nodes, "podsPerNode": pods, "cidr": "10.0.0.0/16"}
    content["network"]["vpc"]["availabilityZones"] = ["us-west-2a", "us-west-2b"]
    vpc = load(content).network.vpc
    assert vpc
    assert vpc.private_subnet_prefix == prefix
    # 5 addresses of every subnet are AWS's own (Amazon VPC user guide, subnet-sizing).
    assert 2 ** (32 - prefix) - 5 >= nodes * (1 + pods) > 2 ** (32 - prefix - 1) - 5


@pytest.mark.parametrize("cidr", ["172.20.0.0/16", "172.20.128.0/20"])
def test_services_may_not_lie_in_the_vpc_by_default_either(cidr: str, content: dict[str, Any], load: Load) -> None:
    content["network"]["vpc"] |= {"cidr": cidr, "nodes": 2}
    with pytest.raises(ConfigurationError, match=r"172\.20\.0\.0/16 overlaps .*; use 10\.100\.0\.0/16"):
        load(content)


def test_an_existing_vpc_is_found_by_ids(content: dict[str, Any], load: Load) -> None:
    content["network"] = {"region": "us-west-2", "existing": EXISTING}
    network = load(content).network
    assert network.by_ids
    assert network.cidr == "10.0.0.0/16"


def test_the_longest_cluster_name_leaves_room_for_every_name_made_from_it(content: dict[str, Any], load: Load) -> None:
    content["cluster"]["name"] = "c" * 40
    name = load(content).cluster.name
    assert len(f"KarpenterControllerRole-{name}") <= 64
    assert len(f"KarpenterNodeRole-{name}") <= 64
    assert len(f"KarpenterControllerResourceDiscoveryPolicy-{name}") <= 128
