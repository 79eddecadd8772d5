"""Comparing objects with upstream's, field by field, against a table of the differences that are meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, cast

ABSENT: Final = "(absent)"
"""Stands for a field, or a whole object, that one side does not have."""

OBJECT: Final = "(object)"
"""The path of a difference that is a whole object."""

_EMPTY_IS_ABSENT: Final = ("annotations", "securityContext")
"""Fields that upstream's templates write as an empty mapping where nothing is in them; to Kubernetes it is the same."""


@dataclass(frozen=True)
class Meant:
    """A difference that is meant.

    Args:
        objects: pattern of ``Kind/name`` or ``Kind/namespace/name``, as a shell matches file names.
        path: regular expression of the field's whole path, such as ``spec.template.spec.hostPID``.
        why: the reason.
        ours: the value that we must have, where there is one for all.
    """

    objects: str
    path: str
    why: str
    ours: Any = None

    def covers(self, found: Found) -> bool:
        """Whether a difference is this one."""
        return (
            fnmatchcase(found.object, self.objects)
            and re.fullmatch(self.path, found.path) is not None
            and (self.ours is None or found.ours == self.ours)
        )


@dataclass(frozen=True)
class Found:
    """A difference that was found."""

    object: str
    path: str
    upstream: Any
    ours: Any

    def __str__(self) -> str:
        return f"{self.object} {self.path}: upstream {self.upstream!r}, ours {self.ours!r}"


@dataclass(frozen=True)
class Compared:
    """What was compared.

    Args:
        objects: how many objects both sides have.
        fields: how many fields of them were looked at, on either side.
        meant: how many differences the table explains.
    """

    objects: int
    fields: int
    meant: int


def compare(
    ours: Iterable[Mapping[str, Any]], upstream: Iterable[Mapping[str, Any]], table: Sequence[Meant]
) -> Compared:
    """Compare two sets of objects.

    Args:
        ours: what we write.
        upstream: what the chart renders.
        table: the differences that are meant; each must be there, so that none outlives its reason.

    Raises:
        AssertionError: a difference is not in the table, or a row of the table explains none.
    """
    left, right = _by_name(ours), _by_name(upstream)
    both = left.keys() & right.keys()
    fields = {(name, path) for name in both for path in left[name].keys() | right[name].keys()}
    differences = [
        *(Found(name, OBJECT, ABSENT, "an object") for name in sorted(left.keys() - both)),
        *(Found(name, OBJECT, "an object", ABSENT) for name in sorted(right.keys() - both)),
        *_differences(left, right, sorted(fields)),
    ]
    unexplained = [str(found) for found in differences if not any(row.covers(found) for row in table)]
    stale = [f"{row.objects} {row.path}" for row in table if not any(row.covers(found) for found in differences)]
    assert not unexplained, "these differences are not in the table:\n" + "\n".join(unexplained)
    assert not stale, "these rows of the table explain no difference any more:\n" + "\n".join(stale)
    return Compared(len(both), len(fields), len(differences))


Fields = Mapping[str, Any]


def _differences(
    left: Mapping[str, Fields], right: Mapping[str, Fields], fields: Iterable[tuple[str, str]]
) -> Iterator[Found]:
    for name, path in fields:
        here, there = left[name].get(path, ABSENT), right[name].get(path, ABSENT)
        if here != there or type(here) is not type(there):
            yield Found(name, path, there, here)


def _by_name(objects: Iterable[Mapping[str, Any]]) -> dict[str, Fields]:
    named: dict[str, Fields] = {}
    for found in objects:
        metadata = found["metadata"]
        name = "/".join(part for part in (found["kind"], metadata.get("namespace"), metadata["name"]) if part)
        assert name not in named, f"{name} is there twice"
        named[name] = dict(_flat("", found))
    return named


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every field that holds no others, with its path. A field that is null is not there, as Kubernetes takes it."""
    if isinstance(value, dict) and value:
        for key, inner in cast(dict[str, Any], value).items():
            yield from _flat(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list) and value:
        for index, inner in enumerate(cast(list[Any], value)):
            yield from _flat(f"{path}[{index}]", inner)
    elif value is not None and not (value == {} and path.rpartition(".")[2] in _EMPTY_IS_ABSENT):
        yield path, value
