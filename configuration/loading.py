"""From a YAML file to an `Environment`, or to one message that says what to change."""

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from configuration.api.values import MEANINGS as API_MEANINGS
from configuration.environment import Environment, EnvironmentFile
from configuration.errors import ConfigurationError
from configuration.text import MEANINGS as OWN_MEANINGS


def load_environment(name: str, folder: Path) -> Environment:
    """Read an environment.

    Args:
        name: The file's name without its suffix, such as `workshop`.
        folder: Where the files are.

    Returns:
        The environment, checked as far as it can be without AWS.

    Raises:
        ConfigurationError: There is no such file, it is not YAML, or a value in it is wrong. The message names every
            wrong value at once.
    """
    path = folder / f"{name}.yaml"
    known = sorted(file.stem for file in folder.glob("*.yaml"))
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigurationError(
            f"there is no environment {name!r} in {folder}\n"
            f"  those that exist: {there}\n"
            f"  choose one with -c environment=NAME, or add a file there"
        )
    content = _read(path)
    try:
        EnvironmentFile.model_validate(content, by_name=False)
        environment = Environment.model_validate({**content, "name": name}, by_name=False)
    except ValidationError as error:
        raise ConfigurationError(_message(path, error.errors(include_url=False))) from None
    for other in known:
        if other != name and _cluster_name(folder / f"{other}.yaml") == environment.cluster.name:
            raise ConfigurationError(
                f"{path} cannot be built:\n"
                f"  cluster.name: {environment.cluster.name} is the cluster of {other}.yaml already; stacks and roles "
                f"are named after it, so deploying the one would replace the other: give each a name of its own"
            )
    return environment


def _cluster_name(path: Path) -> Any:
    """What a file calls its cluster; None where the file is not what it should be, which is told when it is built."""
    try:
        return _read(path)["cluster"]["name"]
    except (ConfigurationError, KeyError, TypeError):
        return None


class _Loader(yaml.CSafeLoader):  # in C, since every synth waits for it
    """Like SafeLoader, but a key that is given twice is an error: YAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = cast(Hashable, self.construct_object(key_node, deep=True))  # pyright: ignore[reportUnknownMemberType]
            line = cast(int, key_node.start_mark.line) + 1
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"key {key!r} is given twice, first on line {seen[key]}; keep one",
                    problem_mark=key_node.start_mark,
                )
            seen[key] = line
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - derives from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigurationError(f"{path}{where}: not valid YAML: {error.problem}") from None
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} is empty or not a mapping; copy environments/workshop.yaml and change it")
    return cast(Mapping[str, Any], content)


_MEANINGS: Final[Mapping[str, str]] = {**API_MEANINGS, **OWN_MEANINGS}

_ALLOWED: Final[Mapping[str, str]] = {
    "missing": "this key is needed",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number, without quotes",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
}


def _message(path: Path, errors: list[ErrorDetails]) -> str:
    """Every wrong value on a line of its own: where it is, what is allowed, what was given."""
    problems: dict[tuple[str, str], list[str]] = {}
    for details in _told_once(errors):
        where, problem = _explain(details)
        # A value that may be a number or text is refused twice, at the same place.
        problems.setdefault((where, _given(details)), []).append(problem)
    lines = [f"  {where}: {', or '.join(reasons)}{given}" for (where, given), reasons in problems.items()]
    return "\n".join([f"{path} cannot be built:", *lines])


def _told_once(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without lists that are called too short only because an item in them is wrong."""
    places = [details["loc"] for details in errors]

    def echo(details: ErrorDetails) -> bool:
        here = details["loc"]
        return details["type"] == "too_short" and any(place != here and place[: len(here)] == here for place in places)

    return [details for details in errors if not echo(details)]


def _explain(details: ErrorDetails) -> tuple[str, str]:
    kind, context = details["type"], details.get("ctx", {})
    where = _key_path(details["loc"])
    if kind == "value_error":
        # A check of several keys names the one to change: `cidr: 10.0.0.0/18 is too small`.
        key, colon, rest = str(context["error"]).partition(": ")
        if colon and re.fullmatch(r"[a-zA-Z.\[\]0-9]+", key):
            return ".".join(filter(None, (where, key))), rest
        return where, str(context["error"])
    if kind == "extra_forbidden":
        return where, f"unknown key; allowed here: {', '.join(_keys_beside(details['loc']))}"
    if kind == "string_pattern_mismatch":
        return where, f"must be {_MEANINGS[context['pattern']]}"
    if kind == "too_short":
        return where, f"must have at least {context['min_length']} item(s)"
    if kind == "string_too_long":
        return where, f"is too long: at most {context['max_length']} characters, so that the names made from it fit"
    return where, _ALLOWED.get(kind) or _lower(details["msg"]).replace("input should", "must")


def _given(details: ErrorDetails) -> str:
    given = details["input"]
    return "" if details["type"] == "missing" or isinstance(given, dict | list | tuple) else f" (given: {given!r})"


def _key_path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        # A union's members and a mapping's key show up in the location as words that are not in the file.
        if isinstance(part, int):
            path += f"[{part}]"
        elif part == "[key]" or part in ("int", "str") or part.startswith("constrained-"):
            continue
        else:
            path += f".{part}" if path else part
    return path


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    """The keys that are allowed where an unknown one was found, by following the schema down."""
    schema = EnvironmentFile.model_json_schema()
    node: dict[str, Any] = schema
    for part in location[:-1]:
        node = _resolve(schema, node)
        if isinstance(part, int):
            node = node["items"]
        elif part in node.get("properties", {}):
            node = node["properties"][part]
        elif "patternProperties" in node:  # a mapping by names of the user's own, such as nodeClasses
            node = next(iter(node["patternProperties"].values()))
        else:
            node = node["additionalProperties"]
    return sorted(_resolve(schema, node)["properties"])


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    # What may be left out is `anyOf` of itself and null.
    options = [option for option in node.get("anyOf", []) if option.get("type") != "null"] or [node]
    node = options[0]
    reference = node.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else node


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
