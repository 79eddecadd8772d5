"""One object, one resource; and what outlives what when everything is deleted."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import pytest

from configuration import Environment
from tests.unit.assembly import MANIFEST, Assembly, flatten, objects_in

Objects = Mapping[str, dict[str, Any]]
Node = tuple[str, str]

CLUSTER_SCOPED = {
    *("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
    *("NodePool", "EC2NodeClass"),
}


def test_every_object_is_a_resource_of_its_own_named_after_it(assembly: Assembly, manifests: Objects) -> None:
    resources = assembly.resources(MANIFEST)
    # Karpenter's 14, the device plugin's 21, four node classes and four pools.
    assert len(manifests) == len(resources) == 43
    for logical_id, resource in resources.items():
        (found,) = objects_in(resource)
        metadata = found["metadata"]
        name = found["kind"] + metadata.get("namespace", "") + metadata["name"]
        assert re.fullmatch(re.sub(r"[^A-Za-z0-9]", "", name) + "[0-9A-F]{8}", logical_id)


def test_logical_ids_stay_as_they_are(assembly: Assembly) -> None:
    # With another id CloudFormation creates the object before it deletes the old one, which is the same object.
    assert set(assembly.resources(MANIFEST, "node-pools")) >= {
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


def test_s0_9_what_registers_gpus_tolerates_every_taint_of_every_gpu_pool(manifests: Objects) -> None:
    pods = [found["spec"]["template"]["spec"] for name, found in manifests.items() if name.startswith("DaemonSet/")]
    pools = [found["spec"]["template"] for found in manifests.values() if found["kind"] == "NodePool"]
    labels = [pool.get("metadata", {}).get("labels", {}) for pool in pools]
    with_gpus = [pool["spec"] for pool, own in zip(pools, labels, strict=True) if "nvidia.com/gpu.present" in own]
    assert len(pods) == 4
    assert len(with_gpus) == 2
    for taint in (taint for pool in with_gpus for taint in pool["taints"]):
        for pod in pods:
            assert {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} in pod["tolerations"]


def test_s0_5_the_node_class_selects_by_the_tag_that_subnets_and_group_carry(manifests: Objects) -> None:
    spec = manifests["EC2NodeClass/default"]["spec"]
    assert spec["subnetSelectorTerms"] == spec["securityGroupSelectorTerms"]
    assert spec["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": "training-on-eks"}}]


# What Karpenter needs to drain and terminate the nodes of a pool that is deleted, in every environment.
NEEDED = {
    "Custom::AWSCDK-EKS-HelmChart",  # without the definitions, the API server forgets the pools and claims at once
    "AWS::IAM::Role",
    "AWS::IAM::ManagedPolicy",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::Events::Rule",
    "AWS::EKS::AccessEntry",  # of the nodes, and of the kubectl handler
    "AWS::EKS::Nodegroup",  # where Karpenter runs
    "AWS::EKS::Cluster",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::NatGateway",  # Karpenter's way to the AWS APIs
    "AWS::EC2::Route",
    "AWS::EC2::InternetGateway",
    "AWS::Lambda::Function",
}
# What gives the controller its role: one of these.
CREDENTIALS = ({"AWS::IAM::OIDCProvider"}, {"AWS::EKS::PodIdentityAssociation", "AWS::EKS::Addon"})


def closures_of(assembly: Assembly) -> Mapping[Node, set[Node]]:
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


@pytest.fixture(scope="module")
def closures(assembly: Assembly) -> Mapping[Node, set[Node]]:
    return closures_of(assembly)


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


def test_pools_and_node_classes_go_before_anything_that_karpenter_needs_to_end_their_nodes(
    every_assembly: Assembly,
) -> None:
    closures = closures_of(every_assembly)
    resources = _all_resources(every_assembly)
    kinds = {node: objects_in(resources[node])[0]["kind"] for node in resources if _is_manifest(resources[node])}
    below = {node for node in resources if node[0] in ("network", "cluster", "karpenter")}
    on_nodes = {node for node, kind in kinds.items() if node[0] == "node-pools" and kind not in POOL_KINDS}
    ending = [node for node, kind in kinds.items() if kind in POOL_KINDS]
    assert ending
    assert on_nodes
    for node in ending:
        assert below <= closures[node], node
        assert on_nodes <= closures[node], node
        outlive = {resources[other]["Type"] for other in closures[node]}
        assert outlive >= NEEDED
        assert any(outlive >= credentials for credentials in CREDENTIALS)


POOL_KINDS = ("NodePool", "EC2NodeClass")


def _is_manifest(resource: dict[str, Any]) -> bool:
    return resource["Type"] == MANIFEST


def test_a_pool_goes_before_its_node_class(assembly: Assembly, closures: Mapping[Node, set[Node]]) -> None:
    pool, node_class = _node(assembly, "NodePoolgpupool"), _node(assembly, "EC2NodeClassdefault")
    assert node_class in closures[pool]
    assert pool not in closures[node_class]


def test_karpenters_pods_come_last_in_their_stack_and_go_first(every_assembly: Assembly) -> None:
    (deployment,) = [
        ("karpenter", logical_id)
        for logical_id in every_assembly.resources(MANIFEST, "karpenter")
        if logical_id.startswith("Deployment")
    ]
    everything = {("karpenter", logical_id) for logical_id in every_assembly.templates["karpenter"]["Resources"]}
    assert len(everything) > 20
    # An alarm watches; nothing needs it.
    alarms = {("karpenter", logical_id) for logical_id in every_assembly.resources("AWS::CloudWatch::Alarm")}
    assert everything - {deployment} - alarms <= closures_of(every_assembly)[deployment]


def test_a_renamed_pool_changes_no_other_resource(
    assembly: Assembly, synthesise: Callable[[Environment], Assembly], content: dict[str, Any]
) -> None:
    content["gpuPools"][1]["name"] = "renamed"
    changed = synthesise(Environment.model_validate({**content, "name": "workshop"}, by_name=False))
    before, after = (_all_resources(each) for each in (assembly, changed))
    differ = {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}
    assert {(stack, logical_id[:-8]) for stack, logical_id in differ} == {
        ("node-pools", "NodePoolgpu"),
        ("node-pools", "NodePoolrenamed"),
    }


def _all_resources(assembly: Assembly) -> dict[Node, dict[str, Any]]:
    return {
        (stack, logical_id): resource
        for stack, template in assembly.templates.items()
        for logical_id, resource in template["Resources"].items()
    }


def test_namespaces_come_before_what_is_in_them(every_assembly: Assembly) -> None:
    closures = closures_of(every_assembly)
    resources = _all_resources(every_assembly)
    objects = {node: objects_in(found)[0] for node, found in resources.items() if _is_manifest(found)}
    made = {found["metadata"]["name"]: node for node, found in objects.items() if found["kind"] == "Namespace"}
    within = {node: found["metadata"].get("namespace") for node, found in objects.items()}
    charts = [node for node, found in resources.items() if found["Type"] == "Custom::AWSCDK-EKS-HelmChart"]
    within |= {node: flatten(resources[node]["Properties"]["Namespace"]) for node in charts}
    inside = {node: made[namespace] for node, namespace in within.items() if namespace in made}
    assert len(inside) > 10
    for node, namespace in inside.items():
        assert namespace in closures[node], node


def test_stacks_are_named_after_the_cluster_and_stand_on_each_other(assembly: Assembly) -> None:
    assert list(assembly.templates) == ["network", "cluster", "karpenter", "node-pools"]
    assert assembly.stack_dependencies["cluster"] == ["network"]
    assert assembly.stack_dependencies["karpenter"] == ["cluster"]
    assert set(assembly.stack_dependencies["node-pools"]) == {"cluster", "karpenter"}
