"""The EC2 query protocol: flat form parameters in, XML out, both by botocore's own model of the API.

Parsing and serialising are moto's (``moto.core.parse``, ``moto.core.serialize``), which read botocore's shapes; its
service emulations are not loaded. This is the one module that knows moto's classes.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast
from xml.sax.saxutils import escape

from botocore.utils import parse_timestamp
from moto.core.parse import EC2QueryParser
from moto.core.serialize import EC2Serializer, SerializationContext
from moto.core.utils import get_service_model

from rehearsal.compute.ec2.errors import Ec2Error, NotSimulatedError

T = TypeVar("T")

CONTENT_TYPE = "text/xml;charset=UTF-8"

# Sent by every client; no operation's input has them as members.
_ENVELOPE = frozenset({"Action", "Version", "AWSAccessKeyId", "Signature", "SignatureMethod", "SignatureVersion"})


class _Read(dict[str, str]):
    """Form parameters that remember which of them were read."""

    def __init__(self, params: Mapping[str, Sequence[str]]) -> None:
        super().__init__({name: values[0] for name, values in params.items() if values})
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)


@cache
def _operation_model(operation: str) -> Any:
    return get_service_model("ec2").operation_model(operation)


def parse(operation: str, params: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Read a request's parameters into the operation's input shape.

    Args:
        operation: for example ``RunInstances``.
        params: name to values, as :func:`urllib.parse.parse_qs` gives them.

    Returns:
        Member names to values; lists, structures, numbers, booleans and aware datetimes.

    Raises:
        Ec2Error: ``UnknownParameter``, for what the operation does not have; ``InvalidParameterValue``, for a value
            that is not of its parameter's type.
    """
    read = _Read(params)
    parser = EC2QueryParser(_operation_model(operation), timestamp_parser=parse_timestamp)
    try:
        request = parser.parse(cast("Any", {"values": read}))
    except ValueError as error:
        raise Ec2Error("InvalidParameterValue", f"A parameter's value is malformed: {error}") from error
    unknown = sorted(set(read) - read.seen - _ENVELOPE)
    if unknown:
        raise Ec2Error("UnknownParameter", f"The parameter {unknown[0]} is not recognized")
    return request


def serialise(operation: str, result: Mapping[str, Any]) -> bytes:
    """Write a result as the operation's XML answer."""
    context = SerializationContext(str(uuid.uuid4()))
    body = EC2Serializer(_operation_model(operation), context).serialize(result)["body"]
    return body if isinstance(body, bytes) else body.encode()


def serialise_error(error: Ec2Error) -> bytes:
    """Write an error as EC2 does."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Response><Errors><Error><Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message></Error>"
        f"</Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    ).encode()


def only(operation: str, request: Mapping[str, Any], *known: str) -> None:
    """Refuse members of a request that are not simulated.

    Raises:
        NotSimulatedError: names the first such member.
    """
    for name in request:
        if name not in known:
            raise NotSimulatedError(operation, f"the parameter {name}")


def items(request: Mapping[str, Any], name: str) -> list[Any]:
    """A list member of a request; empty when it was not sent."""
    return request.get(name) or []


def section(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A structure member of a request; empty when it was not sent."""
    return request.get(name) or {}


def page(request: Mapping[str, Any], listing: Sequence[T], default: int = 1000) -> tuple[list[T], str | None]:
    """One page of a listing by the request's ``MaxResults`` and ``NextToken``.

    Args:
        request: the parsed request.
        listing: the whole listing, in an order that does not change between calls.
        default: items of a page when the request does not say.

    Returns:
        The page, and the token of the next one or ``None``.

    Raises:
        Ec2Error: ``InvalidNextToken``, for a token that this service did not give.
    """
    start = 0
    if token := request.get("NextToken"):
        try:
            start = int(base64.urlsafe_b64decode(token))
        except ValueError as error:
            raise Ec2Error("InvalidNextToken", f"The token '{token}' is invalid.") from error
    end = start + (request.get("MaxResults") or default)
    following = base64.urlsafe_b64encode(str(end).encode()).decode() if end < len(listing) else None
    return list(listing[start:end]), following


Reader = Callable[[Any], Sequence[str]]
"""Gives the values that one filter compares, of one item."""


def select(
    operation: str, listing: Iterable[T], filters: Sequence[Mapping[str, Any]], readers: Mapping[str, Reader]
) -> list[T]:
    """The items that pass a request's filters: any value of each filter, ``*`` and ``?`` as wildcards.

    ``tag:<key>`` is answered by the reader named ``tag:``, which gives ``key=value`` texts.

    Raises:
        NotSimulatedError: a filter without a reader.
    """
    for wanted in filters:
        name: str = wanted.get("Name", "")
        if name not in readers and not (name.startswith("tag:") and "tag:" in readers):
            raise NotSimulatedError(operation, f"the filter {name}")
    return [item for item in listing if all(_passes(item, wanted, readers) for wanted in filters)]


def _passes(item: Any, wanted: Mapping[str, Any], readers: Mapping[str, Reader]) -> bool:
    name: str = wanted.get("Name", "")
    values: list[str] = items(wanted, "Values")
    if name.startswith("tag:"):
        prefix = f"{name.removeprefix('tag:')}="
        have = [text.removeprefix(prefix) for text in readers["tag:"](item) if text.startswith(prefix)]
    else:
        have = readers[name](item)
    return any(_like(text, pattern) for pattern in values for text in have)


def _like(text: str, pattern: str) -> bool:
    return text == pattern or (("*" in pattern or "?" in pattern) and bool(_glob(pattern).fullmatch(text)))


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern), re.DOTALL)


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as EC2 lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def tag_map(tags: Sequence[Mapping[str, str]] | None) -> dict[str, str]:
    """Tags of a request as a mapping; a tag without a value has an empty one."""
    return {tag["Key"]: tag.get("Value") or "" for tag in tags or []}


TAG_READERS: dict[str, Reader] = {
    "tag:": lambda item: [f"{key}={value}" for key, value in item.tags.items()],
    "tag-key": lambda item: list(item.tags),
    "tag-value": lambda item: list(item.tags.values()),
}
"""Filters over the ``tags`` of an item."""
