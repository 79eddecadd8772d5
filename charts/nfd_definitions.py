"""The kinds of node feature discovery: NodeFeature, NodeFeatureGroup and NodeFeatureRule, group nfd.k8s-sigs.io.

Written from the fields that the API has (node-feature-discovery v0.17.3, api/nfd/v1alpha1), without descriptions.
"""

from typing import Any, Final

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}

_OPERATORS: Final = ["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]
"""How a rule compares a feature's value."""


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(*required: str, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


_MATCH: Final = _object("op", op={**_TEXT, "enum": _OPERATORS}, value=_list(_TEXT))
_FEATURE_MATCHES: Final = _list(
    _object("feature", feature=_TEXT, matchExpressions=_map(_MATCH), matchName=_MATCH),
)
_MATCHES: Final = {
    "matchAny": _list(_object("matchFeatures", matchFeatures=_FEATURE_MATCHES)),
    "matchFeatures": _FEATURE_MATCHES,
}
"""When a rule holds: all of matchFeatures, and any of matchAny."""

_FEATURES: Final = _object(
    attributes=_map(_object("elements", elements=_map(_TEXT))),
    flags=_map(_object("elements", elements=_map({"type": "object"}))),
    instances=_map(_object("elements", elements=_list(_object("attributes", attributes=_map(_TEXT))))),
)
_TAINT: Final = _object(
    "effect",
    "key",
    effect=_TEXT,
    key=_TEXT,
    timeAdded={**_TEXT, "format": "date-time"},
    value=_TEXT,
)
_RULE: Final = _object(
    "name",
    name=_TEXT,
    annotations=_map(_TEXT),
    extendedResources=_map(_TEXT),
    labels=_map(_TEXT),
    labelsTemplate=_TEXT,
    taints=_list(_TAINT),
    vars=_map(_TEXT),
    varsTemplate=_TEXT,
    **_MATCHES,
)
_GROUP_STATUS: Final = _object(
    nodes={
        **_list(_object("name", name=_TEXT)),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
)


def _definition(
    kind: str, *, scope: str, spec: Schema, short_name: str | None = None, status: Schema | None = None
) -> dict[str, Any]:
    singular = kind.lower()
    plural = f"{singular}s"
    names: dict[str, Any] = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular}
    if short_name:
        names["shortNames"] = [short_name]
    parts: dict[str, Schema] = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}, "spec": spec}
    version: dict[str, Any] = {"name": "v1alpha1", "served": True, "storage": True}
    if status:
        parts["status"] = status
        version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": _object("spec", **parts)}
    group = "nfd.k8s-sigs.io"
    return {
        "api_version": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "name": f"{plural}.{group}",
        "body": {"spec": {"group": group, "names": names, "scope": scope, "versions": [version]}},
    }


DEFINITIONS: Final = [
    _definition("NodeFeature", scope="Namespaced", spec=_object(features=_FEATURES, labels=_map(_TEXT))),
    _definition(
        "NodeFeatureGroup",
        scope="Namespaced",
        short_name="nfg",
        spec=_object("featureGroupRules", featureGroupRules=_list(_object("name", name=_TEXT, **_MATCHES))),
        status=_GROUP_STATUS,
    ),
    _definition("NodeFeatureRule", scope="Cluster", short_name="nfr", spec=_object("rules", rules=_list(_RULE))),
]
"""The three definitions, each as what makes an object of it."""
