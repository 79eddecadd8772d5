"""From user data to Node: what nodeadm reads, what a kubelet reserves, and why an instance does not join."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from rehearsal.compute import joining, node, nodeadm
from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.nodegroups import node_config, profile_name

CLUSTER = ClusterAccess("demo", "https://localhost:6443", b"the ca", Path("/nowhere"))
CA = base64.b64encode(b"the ca").decode()

# As Karpenter 1.14.1 writes it: pkg/providers/amifamily/bootstrap/nodeadm.go and mime/mime.go.
KARPENTER = f"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/sh
echo mine
--//
Content-Type: application/node.eks.aws

# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {{}}
spec:
  cluster:
    apiServerEndpoint: https://localhost:6443
    certificateAuthority: {CA}
    cidr: 172.20.0.0/16
    name: demo
  containerd: {{}}
  instance:
    localStorage: {{}}
  kubelet:
    config:
      clusterDNS:
      - 172.20.0.10
      maxPods: 58
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
    flags:
    - --node-labels="karpenter.k8s.aws/ec2nodeclass=gpu,karpenter.sh/capacity-type=spot,nvidia.com/gpu.present=true"

--//--
"""

M5_LARGE: dict[str, Any] = {
    "InstanceType": "m5.large",
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 8192},
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
    "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10},
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def machine(config: nodeadm.NodeConfig | None = None, kind: dict[str, Any] = M5_LARGE) -> node.Machine:
    return node.Machine(
        instance={
            "InstanceId": "i-1",
            "InstanceType": kind["InstanceType"],
            "PrivateDnsName": "ip-10-0-0-1.us-west-2.compute.internal",
            "PrivateIpAddress": "10.0.0.1",
            "Placement": {"AvailabilityZone": "us-west-2a"},
        },
        type=kind,
        image=nodeadm.EksImage("x86_64", "standard", "1.33"),
        config=config or nodeadm.parse(encoded(KARPENTER)),
        zone_id="usw2-az1",
        root_gib=20,
        region="us-west-2",
        kubernetes_version="1.33.13",
    )


def test_karpenters_user_data_is_read() -> None:
    config = nodeadm.parse(encoded(KARPENTER))

    assert (config.cluster_name, config.endpoint, config.cidr) == ("demo", "https://localhost:6443", "172.20.0.0/16")
    assert config.kubelet_config["maxPods"] == 58
    assert config.labels == {
        "karpenter.k8s.aws/ec2nodeclass": "gpu",
        "karpenter.sh/capacity-type": "spot",
        "nvidia.com/gpu.present": "true",
    }


def test_parts_are_merged_and_flags_appended() -> None:
    part = """--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config: {maxPods: 20, podsPerCore: 4}
    flags: ["--node-labels=mine=1"]
"""
    text = KARPENTER.replace("--//\nContent-Type: application", part + "--//\nContent-Type: application", 1)

    config = nodeadm.parse(encoded(text))

    assert config.kubelet_config["maxPods"] == 58, "the later part wins"
    assert config.kubelet_config["podsPerCore"] == 4
    assert config.labels["mine"] == "1"
    assert len(config.labels) == 4


def test_what_eks_writes_for_a_node_group_is_read_back() -> None:
    group = {
        "nodegroupName": "ng-arm",
        "labels": {"team": "ml"},
        "taints": [{"key": "dedicated", "value": "ml", "effect": "NO_SCHEDULE"}],
    }

    config = nodeadm.parse(encoded(nodeadm.render(node_config(CLUSTER, group, "ami-1", "172.20.0.0/16"))))

    assert joining.mismatch(CLUSTER, config) is None
    assert config.labels["eks.amazonaws.com/nodegroup"] == "ng-arm"
    assert config.labels["team"] == "ml"
    assert config.kubelet_config["registerWithTaints"][0]["effect"] == "NoSchedule"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\n/etc/eks/bootstrap.sh demo", "no NodeConfig"),
        ("", "no NodeConfig"),
        (KARPENTER.replace("    cidr: 172.20.0.0/16\n", ""), r"spec\.cluster\.cidr is missing"),
        (KARPENTER.replace("metadata: {}", "metadata: {"), "not YAML"),
    ],
)
def test_user_data_that_nodeadm_refuses(text: str, message: str) -> None:
    with pytest.raises(nodeadm.NodeConfigError, match=message):
        nodeadm.parse(encoded(text))


def test_kubelet_refuses_reserved_labels() -> None:
    text = KARPENTER.replace("nvidia.com/gpu.present", "node-role.kubernetes.io/gpu")

    with pytest.raises(nodeadm.NodeConfigError, match=r"node-role\.kubernetes\.io/gpu"):
        _ = nodeadm.parse(encoded(text)).labels


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("amazon-eks-node-al2023-x86_64-nvidia-1.33-v20260714", nodeadm.EksImage("x86_64", "nvidia", "1.33")),
        ("amazon-eks-node-al2023-arm64-standard-1.33-v20260714", nodeadm.EksImage("arm64", "standard", "1.33")),
        ("bottlerocket-aws-k8s-1.33-x86_64-v1.54.0", None),
        ("al2023-ami-2023.9.20260101.0-kernel-6.12-x86_64", None),
    ],
)
def test_image_names(name: str, expected: nodeadm.EksImage | None) -> None:
    assert nodeadm.EksImage.of(name) == expected


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (joining.wrong_identity("demo", None, None), "no instance profile"),
        (joining.wrong_identity("demo", "arn:aws:iam::1:role/n", None), "has no access entry in cluster demo"),
        (joining.wrong_identity("demo", "arn:aws:iam::1:role/n", "STANDARD"), "a node needs EC2_LINUX"),
        (joining.wrong_image("", "ami-1", ["x86_64"]), "ami-1 is no EKS optimised AMI"),
        (
            joining.wrong_image("amazon-eks-node-al2023-arm64-standard-1.33-v1", "ami-1", ["x86_64"]),
            "is for arm64, its type runs x86_64",
        ),
    ],
)
def test_reasons_for_not_joining(problem: str | None, says: str) -> None:
    assert problem is not None
    assert says in problem


def test_a_node_that_may_join_has_no_reason() -> None:
    assert joining.wrong_identity("demo", "arn:aws:iam::1:role/n", "EC2_LINUX") is None
    assert joining.wrong_image("amazon-eks-node-al2023-x86_64-standard-1.33-v1", "ami-1", ["x86_64"]) is None


def test_another_clusters_address_is_a_reason() -> None:
    config = nodeadm.parse(encoded(KARPENTER.replace("localhost:6443", "localhost:1")))
    other_ca = nodeadm.parse(encoded(KARPENTER.replace(CA, encoded("other"))))

    assert "names the API server https://localhost:1" in (joining.mismatch(CLUSTER, config) or "")
    assert "certificate authority" in (joining.mismatch(CLUSTER, other_ca) or "")


def test_instances_of_others_are_none_of_our_business() -> None:
    config = nodeadm.parse(encoded(KARPENTER))
    owned = {"Tags": [{"Key": "kubernetes.io/cluster/demo", "Value": "owned"}]}

    assert joining.concerns("demo", {}, config)
    assert not joining.concerns("other", owned, config)
    assert joining.concerns("demo", owned, None)
    assert not joining.concerns("demo", {}, None)


@pytest.mark.parametrize(("millicores", "reserved"), [(1000, 60), (2000, 70), (4000, 80), (8000, 90), (96000, 310)])
def test_reserved_cpu(millicores: int, reserved: int) -> None:
    assert node.reserved_millicores(millicores) == reserved


def test_capacity_and_allocatable() -> None:
    capacity, allocatable = node.resources(machine())

    visible_mib = 8192 - 615
    assert capacity == {
        "cpu": "2",
        "memory": f"{visible_mib * 1024}Ki",
        "ephemeral-storage": "21474836480",
        "pods": "58",
    }
    assert allocatable["cpu"] == "1930m"
    assert allocatable["memory"] == f"{(visible_mib - (255 + 11 * 58) - 100) * 1024}Ki"
    assert allocatable["ephemeral-storage"] == str(20 * 1024**3 - 1024**3 - 2 * 1024**3)


def test_pods_by_addresses_where_nothing_is_said() -> None:
    config = nodeadm.NodeConfig("demo", "e", "ca", "c")

    assert node.resources(machine(config))[0]["pods"] == "29"


def test_node_is_labelled_tainted_and_without_gpus() -> None:
    found = node.manifest(machine())

    labels = found["metadata"]["labels"]
    assert found["spec"]["providerID"] == "aws:///us-west-2a/i-1"
    assert found["spec"]["taints"] == [{"effect": "NoExecute", "key": "karpenter.sh/unregistered"}]
    assert labels["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert labels["node.kubernetes.io/instance-type"] == "m5.large"
    assert labels["kubernetes.io/arch"] == "amd64"
    assert node.GPU not in found["status"]["capacity"]


@pytest.mark.parametrize(("text", "number"), [("100m", 0.1), ("1Gi", 2**30), ("2", 2), ("5k", 5000), (3, 3)])
def test_quantities(text: str | int, number: float) -> None:
    assert node.quantity(text) == pytest.approx(number)


def test_profile_of_a_node_group_is_named_as_eks_names_it() -> None:
    assert profile_name("demo", "ng-x86").startswith("eks-")
    assert profile_name("demo", "ng-x86") == profile_name("demo", "ng-x86") != profile_name("demo", "ng-arm")
