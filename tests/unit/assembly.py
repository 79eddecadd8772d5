"""Reading what `cdk synth` wrote."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configuration import Environment

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"

Resource = dict[str, Any]


@dataclass(frozen=True)
class Assembly:
    """A synthesised app: where it is, and its templates by the last part of the stack's name."""

    folder: Path
    templates: Mapping[str, dict[str, Any]]
    stack_dependencies: Mapping[str, list[str]]

    def resources(self, kind: str, stack: str | None = None) -> dict[str, Resource]:
        """Resources of a CloudFormation type by logical id, of one stack or of all."""
        return {
            logical_id: resource
            for name, template in self.templates.items()
            if stack in (None, name)
            for logical_id, resource in template["Resources"].items()
            if resource["Type"] == kind
        }

    def only(self, kind: str, stack: str | None = None) -> Resource:
        """The properties of the one resource of a CloudFormation type."""
        (resource,) = self.resources(kind, stack).values()
        return resource["Properties"]

    def named(self, kind: str, key: str, value: str) -> Resource:
        """The properties of the one resource whose property `key` has a value."""
        (found,) = [r["Properties"] for r in self.resources(kind).values() if r["Properties"].get(key) == value]
        return found


def objects_in(resource: Resource) -> list[dict[str, Any]]:
    """The Kubernetes objects of a manifest resource, with `<Ref>` in the place of every reference."""
    return json.loads(flatten(resource["Properties"]["Manifest"]))


def flatten(value: Any) -> str:
    """Text of a CloudFormation expression, with the name of what it refers to in angle brackets."""
    if isinstance(value, str):
        return value
    (function, argument), *_ = value.items()
    if function == "Fn::Join":
        return argument[0].join(flatten(part) for part in argument[1])
    if function == "Fn::GetAtt":
        return f"<{'.'.join(argument)}>"
    return f"<{argument}>"


def read_assembly(folder: Path, environment: Environment) -> Assembly:
    prefix = f"{environment.cluster.name}-"
    index = json.loads((folder / "manifest.json").read_text())
    stacks = {
        name.removeprefix(prefix): artifact
        for name, artifact in index["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    templates = {
        name: json.loads((folder / artifact["properties"]["templateFile"]).read_text())
        for name, artifact in stacks.items()
    }
    dependencies = {
        name: [other.removeprefix(prefix) for other in artifact["dependencies"] if not other.endswith(".assets")]
        for name, artifact in stacks.items()
    }
    return Assembly(folder, templates, dependencies)
