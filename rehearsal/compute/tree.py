"""Reading decoded JSON and YAML whose shape others decide: what is absent anywhere on the way is simply absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def at(document: object, *path: str) -> Any:
    """The value at a path of keys, or None."""
    value = document
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, Any]", value).get(key)
    return value


def mapping(document: object, *path: str) -> dict[str, Any]:
    """The mapping at a path, or an empty one."""
    value = at(document, *path)
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


def items(document: object, *path: str) -> list[Any]:
    """The list at a path, or an empty one."""
    value = at(document, *path)
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []
