"""What a pull request shows of the Kubernetes objects."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stacks.manifests import OBJECT_METADATA
from stacks.review import write_manifests
from tests.unit.assembly import MANIFEST, Assembly


def _template(*objects: Mapping[str, Any]) -> str:
    resources = {f"Object{index}": {"Metadata": {OBJECT_METADATA: found}} for index, found in enumerate(objects)}
    return json.dumps({"Resources": {**resources, "Role": {"Type": "AWS::IAM::Role"}}})


def _found(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **more}}


def test_every_object_is_a_file_that_says_what_the_template_has(
    assembly: Assembly, manifests: Mapping[str, dict[str, Any]]
) -> None:
    files = list((assembly.folder / "manifests").glob("*/*.yaml"))
    assert len(files) == len(assembly.resources(MANIFEST)) == len(manifests)
    for path in files:
        found = yaml.safe_load(path.read_text())
        metadata = found["metadata"]
        assert path.stem == f"{found['kind'].lower()}-{metadata['name']}"
        parts = (found["kind"], metadata.get("namespace"), metadata["name"])
        deployed = manifests["/".join(part for part in parts if part)]
        assert json.loads(_no_references(json.dumps(found))) == json.loads(_no_references(json.dumps(deployed)))


def _no_references(text: str) -> str:
    """Both ways of writing a reference: `${Role.Arn}` for reviewers, `<Role.Arn>` in these tests."""
    return re.sub(r"\$\{[^}]*\}|<[^>]*>", "REFERENCE", text)


def test_a_pool_is_read_where_a_reviewer_looks_for_it(assembly: Assembly) -> None:
    (pool,) = (assembly.folder / "manifests").glob("*/nodepool-gpu-pool.yaml")
    assert "  limits:\n    cpu: 1000\n    nvidia.com/gpu: 8\n" in pool.read_text()


def test_files_of_an_earlier_synth_are_gone(tmp_path: Path) -> None:
    template = tmp_path / "a.template.json"
    template.write_text(_template(_found("Pod", "old")))
    write_manifests(tmp_path)
    template.write_text(_template(_found("Pod", "new")))
    assert write_manifests(tmp_path) == [tmp_path / "manifests" / "a" / "pod-new.yaml"]
    assert [path.name for path in tmp_path.rglob("*.yaml")] == ["pod-new.yaml"]


def test_two_of_one_name_are_told_apart_by_their_namespace(tmp_path: Path) -> None:
    objects = [_found("Role", "reader", namespace=where) for where in ("a", "b")]
    (tmp_path / "a.template.json").write_text(_template(*objects, _found("ClusterRole", "system:reader")))
    names = [path.name for path in write_manifests(tmp_path)]
    assert names == ["clusterrole-system_reader.yaml", "role-a-reader.yaml", "role-b-reader.yaml"]


def test_what_cloudformation_fills_in_is_named(tmp_path: Path) -> None:
    reference = {"Ref": "Queue"}
    joined = {"Fn::Join": ["", ["https://", {"Fn::GetAtt": ["Cluster", "Endpoint"]}]]}
    other = {"Fn::Select": [1, {"Fn::Split": ["/", reference]}]}
    found = _found("ConfigMap", "facts", annotations={"queue": reference, "endpoint": joined, "other": other})
    (tmp_path / "a.template.json").write_text(_template(found))
    (path,) = write_manifests(tmp_path)
    assert yaml.safe_load(path.read_text())["metadata"]["annotations"] == {
        "queue": "${Queue}",
        "endpoint": "https://${Cluster.Endpoint}",
        "other": '${Fn::Select([1, "${Fn::Split([\\"/\\", \\"${Queue}\\"])}"])}',
    }
