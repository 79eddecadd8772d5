"""Changes of a valid object, derived from the CRD's own schema: its limits, one more than them, and other types."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from tests.differential.samples import TEXTS
from tests.differential.schema import Schema

_OTHER_TYPES: Final[tuple[Any, ...]] = ("text", 5, True, [], {}, [{}], ["text"], {"a": "b"}, None)
_NUMBERS: Final = (0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1)


class Missing:
    """Stands for a key that is taken away."""

    def __repr__(self) -> str:
        return "(taken away)"


MISSING: Final = Missing()


def candidates(schema: Schema, path: str, now: Any) -> Iterator[Any]:
    """Give values to try at one place.

    Args:
        schema: Of the place.
        path: Of the place.
        now: What stands there in the valid object.
    """
    yield MISSING
    yield from (other for other in _OTHER_TYPES if not _stricter_here(schema, path, other))
    yield from schema.get("enum", [])
    if schema.get("type") == "integer" or schema.get("x-kubernetes-int-or-string"):
        for limit in (schema.get("minimum"), schema.get("maximum")):
            if limit is not None:
                yield from (limit - 1, limit, limit + 1)
        yield from _NUMBERS
    if schema.get("type") == "string" or schema.get("x-kubernetes-int-or-string"):
        yield from TEXTS
        if "maxLength" in schema:
            yield from ("a" * length for length in (schema["maxLength"], schema["maxLength"] + 1))
    if isinstance(now, list):
        yield from _lists(schema, cast("list[Any]", now))
    if isinstance(now, dict):
        yield from _mappings(schema, cast("dict[str, Any]", now))


def _stricter_here(schema: Schema, path: str, value: Any) -> bool:
    """Whether the types refuse on purpose what the API server takes; a test names each."""
    return (value is None and (path.endswith("{}") or not path)) or (
        isinstance(value, list) and schema.get("format") == "date-time"
    )


def _lists(schema: Schema, now: list[Any]) -> Iterator[Any]:
    yield []
    yield [None]
    yield now * 2
    yield now[::-1]
    if "maxItems" in schema and now:
        for count in (schema["maxItems"], schema["maxItems"] + 1):
            yield (now * count)[:count]


def _mappings(schema: Schema, now: dict[str, Any]) -> Iterator[Any]:
    yield {**now, "unknown": "key"}
    if "additionalProperties" in schema:
        some = next(iter(now.values()))
        yield dict.fromkeys(TEXTS[:8], some)
        for text in TEXTS:
            yield {text: some}
        if "maxProperties" in schema:
            for count in (schema["maxProperties"], schema["maxProperties"] + 1):
                yield {f"key{number}": some for number in range(count)}


def places(schema: Schema, value: Any, path: str = "") -> Iterator[tuple[str, tuple[str | int, ...], Schema, Any]]:
    """Give every place in a valid object: its path, the way to it, its schema and what stands there."""
    yield path, (), schema, value
    if isinstance(value, list):
        items = cast("list[Any]", value)
        for index, item in enumerate(items):
            for below, way, node, there in places(schema["items"], item, f"{path}[]"):
                yield below, (index, *way), node, there
    elif isinstance(value, dict):
        for name, child in cast("dict[str, Any]", value).items():
            known = schema.get("properties", {}).get(name)
            here = f"{path}{{}}" if known is None else f"{path}.{name}" if path else name
            for below, way, node, there in places(known or schema["additionalProperties"], child, here):
                yield below, (name, *way), node, there


def changed(content: Mapping[str, Any], way: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy with another value at one place; unchanged where another change took the place away."""
    copied: Any = copy.deepcopy(content)
    if not way:
        return {} if value is MISSING else value
    node: Any = copied
    for step in way[:-1]:
        if not _has(node, step):
            return copied
        node = node[step]
    if isinstance(node, dict) and isinstance(way[-1], str):
        if value is MISSING:
            cast("dict[str, Any]", node).pop(way[-1], None)
        else:
            node[way[-1]] = value
    elif _has(node, way[-1]):
        if value is MISSING:
            del node[way[-1]]
        else:
            node[way[-1]] = value
    return copied


def _has(node: Any, step: str | int) -> bool:
    if isinstance(node, dict):
        return step in node
    return isinstance(node, list) and isinstance(step, int) and step < len(cast("list[Any]", node))
