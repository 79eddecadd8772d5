"""Asks both judges of a spec, the types and the API server, and keeps account of what was reached."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from configuration.api import EC2NodeClassSpec, NodePoolSpec
from tests.differential.api_server import ApiServer, Verdict
from tests.differential.schema import CONSTRAINTS, Schema, path_of, paths_in, spec_of

MODELS: Final[Mapping[str, type[BaseModel]]] = {"NodePool": NodePoolSpec, "EC2NodeClass": EC2NodeClassSpec}


def refused_by_types(kind: str, spec: Any) -> str:
    """Say why the types refuse a spec; empty where they take it."""
    try:
        MODELS[kind].model_validate(spec, by_name=False)
    except ValidationError as error:
        return str(error)
    return ""


@dataclass
class Account:
    """What was reached of one kind's schema.

    Attributes:
        asked: Specs that both were asked of.
        accepted: Those that the API server would take.
        fields: Paths that an accepted spec set.
        breaches: Constraints that a spec was refused for, as path and name.
        broken_rules: Rules that a spec was refused for, as path and message.
        disagreements: Specs of which the types and the API server say different things, with both sides' words.
    """

    asked: int = 0
    accepted: int = 0
    fields: set[str] = field(default_factory=set[str])
    breaches: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    broken_rules: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    disagreements: list[str] = field(default_factory=list[str])


class Comparison:
    """Compares verdicts on specs of one kind.

    Args:
        server: The API server.
        kind: `NodePool` or `EC2NodeClass`.
    """

    def __init__(self, server: ApiServer, kind: str) -> None:
        self._server = server
        self.kind = kind
        self.schema: Schema = spec_of(server.crds[kind])
        self.account = Account()

    def ask(self, spec: Any) -> Verdict:
        """Ask both of a spec that would be created."""
        return self._note(spec, refused_by_types(self.kind, spec), lambda: self._server.try_create(self.kind, spec))

    def _note(self, spec: Any, ours: str, ask: Callable[[], Verdict]) -> Verdict:
        verdict = ask()
        account = self.account
        account.asked += 1
        if verdict.accepted:
            account.accepted += 1
            account.fields |= set(paths_in(self.schema, spec))
        else:
            self.reached(verdict)
        if verdict.accepted is bool(ours):
            account.disagreements.append(
                f"{spec!r}\n  the API server: {verdict.message or 'accepts'}\n  the types: {ours or 'accept'}"
            )
        return verdict

    def reached(self, verdict: Verdict) -> None:
        """Note what a refusal was for."""
        for where, message in verdict.causes:
            path = path_of(self.schema, where)
            for constraint, words in CONSTRAINTS.items():
                if re.search(words, message):
                    self.account.breaches.add((path, constraint))
            said = message.removeprefix("Invalid value: ").partition(": ")[2]
            self.account.broken_rules.add((path, said.rpartition(" evaluating rule: ")[2]))
