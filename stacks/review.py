"""Kubernetes objects for people to read in review, beside the templates that carry them."""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml

from stacks.manifests import OBJECT_METADATA

FOLDER: Final = "manifests"

_Dumper: Final = yaml.CSafeDumper
"""libyaml's: Python's own takes a tenth of the whole synth."""


def write_manifests(assembly: Path) -> list[Path]:
    """Write every Kubernetes object of a cloud assembly as YAML: `manifests/<stack>/<kind>-<name>.yaml`.

    What CloudFormation fills in when it deploys stands there as `${...}`. Files of an earlier synth are removed, so the
    folder shows what the templates have and nothing else. The same templates always give the same bytes.

    Args:
        assembly: Folder that `cdk synth` wrote.

    Returns:
        The files, sorted.
    """
    shutil.rmtree(assembly / FOLDER, ignore_errors=True)
    written: list[Path] = []
    for template in sorted(assembly.glob("*.template.json")):
        objects = list(_objects(json.loads(template.read_text(encoding="utf-8"))))
        names = Counter(_name(found) for found in objects)
        for found in objects:
            # Two objects of one kind and name are told apart by what does tell them apart: their namespace.
            name = _name(found, namespace=names[_name(found)] > 1)
            path = assembly / FOLDER / template.name.removesuffix(".template.json") / f"{name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120), encoding="utf-8")
            written.append(path)
    return sorted(written)


def _objects(template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in template.get("Resources", {}).values():
        found = resource.get("Metadata", {}).get(OBJECT_METADATA)
        if found:
            yield _readable(found)


def _name(found: Mapping[str, Any], *, namespace: bool = False) -> str:
    metadata = found["metadata"]
    parts = (found["kind"].lower(), metadata.get("namespace") if namespace else None, metadata["name"])
    # RBAC allows a colon in a name; some file systems do not.
    return "-".join(part for part in parts if part).replace(":", "_")


def _readable(value: Any) -> Any:
    """The value with CloudFormation's functions as text."""
    if isinstance(value, list):
        return [_readable(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    content = cast("dict[str, Any]", value)
    if len(content) == 1:
        ((function, argument),) = content.items()
        if function == "Fn::Join":
            return str(argument[0]).join(str(_readable(part)) for part in argument[1])
        if function == "Fn::GetAtt":
            return f"${{{'.'.join(argument)}}}"
        if function == "Ref":
            return f"${{{argument}}}"
        if function.startswith("Fn::"):
            return f"${{{function}({json.dumps(_readable(argument))})}}"
    return {key: _readable(item) for key, item in content.items()}
