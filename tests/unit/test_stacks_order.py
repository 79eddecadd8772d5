"""One object, one resource; and what outlives what when everything is deleted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from tests.unit.assembly import MANIFEST, Assembly, flatten, objects_in

Objects = Mapping[str, dict[str, Any]]
Node = tuple[str, str]

CLUSTER_SCOPED = {"Namespace", "ClusterRole", "ClusterRoleBinding", "NodePool", "EC2NodeClass"}


def test_every_object_is_a_resource_of_its_own_named_after_it(assembly: Assembly, manifests: Objects) -> None:
    resources = assembly.resources(MANIFEST)
    assert len(manifests) == len(resources) == 18
    for logical_id, resource in resources.items():
        (found,) = objects_in(resource)
        metadata = found["metadata"]
        name = found["kind"] + metadata.get("namespace", "") + metadata["name"]
        assert re.fullmatch(re.sub(r"[^A-Za-z0-9]", "", name) + "[0-9A-F]{8}", logical_id)


def test_logical_ids_stay_as_they_are(assembly: Assembly) -> None:
    # With another id CloudFormation creates the object before it deletes the old one, which is the same object.
    assert set(assembly.resources(MANIFEST, "gpu-pools")) == {
        "Namespacenvidia1D72C81E",
        "DaemonSetnvidianvidiadevicepluginAD35F1B6",
        "EC2NodeClassdefaultB152F9E4",
        "NodePoolgpupool523194B5",
    }


def test_objects_have_a_namespace_just_where_their_kind_has_one(manifests: Objects) -> None:
    for name, found in manifests.items():
        assert ("namespace" in found["metadata"]) is (found["kind"] not in CLUSTER_SCOPED), name


def test_nothing_is_pruned_or_overwritten(assembly: Assembly) -> None:
    for resource in assembly.resources(MANIFEST).values():
        assert resource["Properties"].keys() == {"ServiceToken", "Manifest", "ClusterName"}


def test_no_token_is_left_unresolved(assembly: Assembly) -> None:
    for path in assembly.folder.glob("*.template.json"):
        assert "${Token[" not in path.read_text(), path.name


def test_s0_9_the_device_plugin_tolerates_every_taint_of_every_pool(manifests: Objects) -> None:
    tolerations = manifests["DaemonSet/nvidia/nvidia-device-plugin"]["spec"]["template"]["spec"]["tolerations"]
    pools = [found for found in manifests.values() if found["kind"] == "NodePool"]
    taints = [taint for pool in pools for taint in pool["spec"]["template"]["spec"]["taints"]]
    assert taints
    for taint in taints:
        assert {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} in tolerations


def test_s0_5_the_node_class_selects_by_the_tag_that_subnets_and_group_carry(manifests: Objects) -> None:
    spec = manifests["EC2NodeClass/default"]["spec"]
    assert spec["subnetSelectorTerms"] == spec["securityGroupSelectorTerms"]
    assert spec["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "training-on-eks"}}]


# What Karpenter needs to drain and terminate the nodes of a pool that is deleted: of each type, how many.
NEEDED = {
    "Custom::AWSCDK-EKS-HelmChart": 1,  # without the definitions, the API server forgets the pools and claims at once
    "AWS::IAM::Role": 7,  # controller, nodes, cluster, two node groups, and the kubectl handler's two
    "AWS::IAM::ManagedPolicy": 6,
    "AWS::IAM::OIDCProvider": 1,
    "AWS::SQS::Queue": 1,
    "AWS::SQS::QueuePolicy": 1,
    "AWS::Events::Rule": 5,
    "AWS::EKS::AccessEntry": 2,  # nodes, and the kubectl handler
    "AWS::EKS::Nodegroup": 2,  # where Karpenter runs
    "AWS::EKS::Cluster": 1,
    "AWS::EC2::SecurityGroupIngress": 3,
    "AWS::EC2::NatGateway": 1,  # Karpenter's way to the AWS APIs
    "AWS::EC2::Route": 6,
    "AWS::EC2::InternetGateway": 1,
    "AWS::Lambda::Function": 2,
}


@pytest.fixture(scope="module")
def closures(assembly: Assembly) -> Mapping[Node, set[Node]]:
    """Everything that outlives each resource: by its own dependencies, and by those of its stack."""
    edges = {
        (stack, logical_id): set(_needs(assembly, stack, resource))
        for stack, template in assembly.templates.items()
        for logical_id, resource in template["Resources"].items()
    }

    def reach(start: Node) -> set[Node]:
        seen, todo = set[Node](), [start]
        while todo:
            new = edges[todo.pop()] - seen
            seen |= new
            todo.extend(new)
        return seen

    return {node: reach(node) for node in edges}


def _needs(assembly: Assembly, stack: str, resource: dict[str, Any]) -> Iterator[Node]:
    own = assembly.templates[stack]["Resources"]
    yield from ((stack, name) for name in resource.get("DependsOn", []))
    yield from ((stack, name) for name in _references(resource["Properties"]) if name in own)
    for other in assembly.stack_dependencies[stack]:
        yield from ((other, name) for name in assembly.templates[other]["Resources"])


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _references(item)
    elif isinstance(value, dict):
        expression = cast("dict[str, Any]", value)
        if isinstance(expression.get("Ref"), str):
            yield expression["Ref"]
        if "Fn::GetAtt" in expression:
            yield expression["Fn::GetAtt"][0]
        for item in expression.values():
            yield from _references(item)


def _node(assembly: Assembly, name: str) -> Node:
    """The manifest resource whose logical id begins with a name."""
    (found,) = [
        (stack, logical_id)
        for stack in assembly.templates
        for logical_id in assembly.resources(MANIFEST, stack)
        if logical_id[:-8] == name
    ]
    return found


@pytest.mark.parametrize("name", ["NodePoolgpupool", "EC2NodeClassdefault"])
def test_pools_and_node_classes_go_before_anything_that_karpenter_needs_to_end_their_nodes(
    name: str, assembly: Assembly, closures: Mapping[Node, set[Node]]
) -> None:
    outlive = closures[_node(assembly, name)]
    kinds = [assembly.templates[stack]["Resources"][logical_id]["Type"] for stack, logical_id in outlive]
    assert {kind: kinds.count(kind) for kind in NEEDED} == NEEDED
    karpenter = {("karpenter", logical_id) for logical_id in assembly.resources(MANIFEST, "karpenter")}
    assert len(karpenter) == 14
    assert karpenter <= outlive
    assert _node(assembly, "DaemonSetnvidianvidiadeviceplugin") in outlive


def test_a_pool_goes_before_its_node_class(assembly: Assembly, closures: Mapping[Node, set[Node]]) -> None:
    pool, node_class = _node(assembly, "NodePoolgpupool"), _node(assembly, "EC2NodeClassdefault")
    assert node_class in closures[pool]
    assert pool not in closures[node_class]


def test_karpenters_pods_come_last_in_their_stack_and_go_first(
    assembly: Assembly, closures: Mapping[Node, set[Node]]
) -> None:
    deployment = _node(assembly, "Deploymentkarpenterkarpenter")
    everything = {("karpenter", logical_id) for logical_id in assembly.templates["karpenter"]["Resources"]}
    assert everything - {deployment} <= closures[deployment]


def test_namespaces_come_before_what_is_in_them(assembly: Assembly, closures: Mapping[Node, set[Node]]) -> None:
    namespaces = {"karpenter": _node(assembly, "Namespacekarpenter"), "nvidia": _node(assembly, "Namespacenvidia")}
    checked = 0
    for node, outlive in closures.items():
        resource = assembly.templates[node[0]]["Resources"][node[1]]
        if resource["Type"] == MANIFEST:
            (found,) = objects_in(resource)
            namespace = found["metadata"].get("namespace")
        elif resource["Type"] == "Custom::AWSCDK-EKS-HelmChart":
            namespace = flatten(resource["Properties"]["Namespace"])
        else:
            continue
        if namespace in namespaces:
            assert namespaces[namespace] in outlive, node
            checked += 1
    assert checked == 8


def test_stacks_are_named_after_the_cluster_and_stand_on_each_other(assembly: Assembly) -> None:
    assert list(assembly.templates) == ["network", "cluster", "karpenter", "gpu-pools"]
    assert assembly.stack_dependencies["cluster"] == ["network"]
    assert assembly.stack_dependencies["karpenter"] == ["cluster"]
    assert set(assembly.stack_dependencies["gpu-pools"]) == {"cluster", "karpenter"}
