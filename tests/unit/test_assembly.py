"""A cloud assembly is read as the CDK writes it, and refused with a reason where it cannot be rehearsed."""

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal.assembly import Assembly, AssemblyError


def _assembly(folder: Path, **environments: str) -> Path:
    artifacts: dict[str, Any] = {"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}}
    for name, environment in environments.items():
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": environment,
            "properties": {"templateFile": f"{name}.template.json", "stackName": f"the-{name}"},
        }
    (folder / "manifest.json").write_text(json.dumps({"version": "48.0.0", "artifacts": artifacts}))
    return folder


def test_stacks_have_their_cloudformation_name_and_template(tmp_path: Path) -> None:
    assembly = Assembly.read(_assembly(tmp_path, network="aws://unknown-account/us-west-2"))
    assert [(stack.name, stack.template) for stack in assembly.stacks] == [
        ("the-network", tmp_path / "network.template.json")
    ]


def test_an_assembly_for_any_account_gets_the_rehearsals_own(tmp_path: Path) -> None:
    assembly = Assembly.read(_assembly(tmp_path, a="aws://unknown-account/unknown-region"))
    assert (assembly.account, assembly.region) == ("123456789012", "us-west-2")


def test_an_assembly_for_one_account_keeps_it(tmp_path: Path) -> None:
    assembly = Assembly.read(_assembly(tmp_path, a="aws://210987654321/eu-central-1"))
    assert (assembly.account, assembly.region) == ("210987654321", "eu-central-1")


def test_several_places_are_refused(tmp_path: Path) -> None:
    folder = _assembly(tmp_path, a="aws://123456789012/us-west-2", b="aws://123456789012/us-east-1")
    with pytest.raises(AssemblyError, match="123456789012/us-east-1, 123456789012/us-west-2"):
        Assembly.read(folder)


def test_a_folder_that_is_no_assembly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match=r"no manifest.json. Make one with `cdk synth`"):
        Assembly.read(tmp_path)


def test_an_assembly_without_stacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match="has no stacks"):
        Assembly.read(_assembly(tmp_path))


def _cluster(version: object) -> dict[str, Any]:
    return {"Type": "AWS::EKS::Cluster", "Properties": {"Version": version}}


def _with_resources(folder: Path, **resources: dict[str, Any]) -> Assembly:
    assembly = Assembly.read(
        _assembly(folder, network="aws://unknown-account/us-west-2", cluster="aws://unknown-account/us-west-2")
    )
    (folder / "network.template.json").write_text(json.dumps({"Resources": {"Vpc": {"Type": "AWS::EC2::VPC"}}}))
    (folder / "cluster.template.json").write_text(json.dumps({"Resources": resources}))
    return assembly


def test_the_kubernetes_version_is_the_clusters_own(tmp_path: Path) -> None:
    assert _with_resources(tmp_path, Cluster=_cluster("1.36")).kubernetes_version() == "1.36"


def test_the_kubernetes_version_of_the_first_eks_module_is_read_too(tmp_path: Path) -> None:
    old = {"Type": "Custom::AWSCDK-EKS-Cluster", "Properties": {"Config": {"version": "1.33"}}}
    assert _with_resources(tmp_path, Cluster=old).kubernetes_version() == "1.33"


def test_an_assembly_without_a_cluster_has_no_kubernetes_version(tmp_path: Path) -> None:
    assert _with_resources(tmp_path).kubernetes_version() is None


def test_clusters_of_two_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match=r"1\.33, 1\.36"):
        _with_resources(tmp_path, A=_cluster("1.33"), B=_cluster("1.36")).kubernetes_version()


def test_a_version_that_is_only_known_later_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssemblyError, match="does not say its Kubernetes version as text"):
        _with_resources(tmp_path, A=_cluster({"Ref": "Version"})).kubernetes_version()
