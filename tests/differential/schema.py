"""What a CRD's schema says: its fields, its constraints and its rules, each with a path of its own.

A path is `template.spec.requirements[].key`: `[]` stands for any item of a list, `{}` for any value of a mapping.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

Schema = Mapping[str, Any]

CONSTRAINTS: Final[Mapping[str, str]] = {
    "pattern": "should match",
    "enum": "Unsupported value",
    "minimum": "should be greater than or equal to",
    "maximum": "should be less than or equal to",
    "minItems": "should have at least",
    "maxItems": "Too many",
    "minLength": "should be at least",
    "maxLength": "Too long",
    "maxProperties": "Too many",
    "required": "Required value",
    "set": "Duplicate value",
    "type": "must be of type|Invalid value",
    "format": "must be of type date-time|must be of type int",
}
"""By constraint: how the API server words its breach."""


def spec_of(crd: Mapping[str, Any]) -> Schema:
    """Return the schema of `spec` in the CRD's version v1."""
    (version,) = [found for found in crd["spec"]["versions"] if found["name"] == "v1"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Give every part of a schema with its path; the whole has the empty path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def rules(schema: Schema) -> list[tuple[str, str, bool]]:
    """Give every CEL rule: where, its message, and whether it compares with the object as it was."""
    return [
        (path, rule["message"], "oldSelf" in rule["rule"])
        for path, node in nodes(schema)
        for rule in node.get("x-kubernetes-validations", [])
    ]


def constraints(schema: Schema) -> set[tuple[str, str]]:
    """Give every constraint beside the rules: where, and which of :data:`CONSTRAINTS`."""
    found: set[tuple[str, str]] = set()
    for path, node in nodes(schema):
        found |= {(path, name) for name in CONSTRAINTS if name not in ("required", "set", "type") and name in node}
        found |= {(f"{path}.{name}" if path else name, "required") for name in node.get("required", [])}
        if node.get("x-kubernetes-list-type") == "set":
            found.add((f"{path}[]", "set"))
        if "type" in node or node.get("x-kubernetes-int-or-string"):
            found.add((path, "type"))
    return found


def paths_in(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Give the path of everything that a value sets."""
    yield path
    if isinstance(value, list) and "items" in schema:
        for item in cast("list[Any]", value):
            yield from paths_in(schema["items"], item, f"{path}[]")
    elif isinstance(value, dict):
        for name, child in cast("dict[str, Any]", value).items():
            known = schema.get("properties", {}).get(name)
            if known is not None:
                yield from paths_in(known, child, f"{path}.{name}" if path else name)
            elif "additionalProperties" in schema:
                yield from paths_in(schema["additionalProperties"], child, f"{path}{{}}")


def path_of(schema: Schema, field: str) -> str:
    """Turn the field of an API server's answer into a path.

    Args:
        schema: Of the spec.
        field: Such as `spec.limits.nvidia.com/gpu` or `spec.template.spec.requirements[0].key`.
    """
    rest, path = re.sub(r"^\.?spec\.?", "", field), ""
    while rest:
        if isinstance(schema.get("additionalProperties"), dict):
            return f"{path}{{}}"  # a mapping's keys may have dots, and its values here have no parts
        index = re.match(r"\[(\d+|Key: .*?)\]\.?", rest)
        if index:
            schema, path, rest = schema["items"], f"{path}[]", rest[index.end() :]
            continue
        name = re.match(r"[^.\[]+", rest)
        if name is None or name[0] not in schema.get("properties", {}):
            return f"{path}?{rest}"
        schema, path = schema["properties"][name[0]], f"{path}.{name[0]}" if path else name[0]
        rest = rest[name.end() :].removeprefix(".")
    return path
