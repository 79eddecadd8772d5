"""The types of `configuration.api` and the API server say the same of every NodePool and EC2NodeClass.

The API server has the CRDs of the pinned release, and is asked by server-side dry runs with strict field validation.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configuration import load_environment
from configuration.api import EC2NodeClassSpec, NodePoolSpec
from configuration.pools import dump
from tests.differential.api_server import ApiServer
from tests.differential.comparison import Comparison, refused_by_types
from tests.differential.mutations import candidates, changed, places
from tests.differential.samples import TEXTS, TOGETHER, VALID
from tests.differential.schema import Schema, constraints, nodes, rules

KINDS: Final = ("NodePool", "EC2NodeClass")
ROOT: Final = Path(__file__).parents[2]

EXAMPLES: Final = 1500
"""Specs of each kind that are made up from several changes at once."""

WITHOUT_EFFECT: Final[Mapping[str, Mapping[tuple[str, str], str]]] = {
    "NodePool": {
        ("disruption.budgets[].nodes", "required"): "it has a default, which is filled in first",
        ("template.spec.requirements[].values", "pattern"): "it stands at the list, where it says nothing of its texts",
        ("template.spec.requirements[].values", "maxLength"): "it stands at the list, where it says nothing",
    },
    "EC2NodeClass": {},
}
"""Constraints of the CRDs that no object can be refused for, and why."""

POOL: Final = VALID["NodePool"][0]
CLASS: Final = VALID["EC2NodeClass"][0]


@pytest.fixture(scope="module")
def comparisons(server: ApiServer) -> Mapping[str, Comparison]:
    """Both kinds' comparisons, after a walk over every place of every valid object with all that may be tried there."""
    made = {kind: Comparison(server, kind) for kind in KINDS}
    for kind, comparison in made.items():
        for content in (*VALID[kind], *TOGETHER[kind]):
            comparison.ask(content)
        for content in VALID[kind]:
            for path, way, node, there in places(comparison.schema, content):
                for value in candidates(node, path, there):
                    comparison.ask(changed(content, way, value))
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_one_change_of_a_valid_object_gets_the_same_verdict(kind: str, comparisons: Mapping[str, Comparison]) -> None:
    account = comparisons[kind].account
    print(f"{kind}: {account.asked} specs with one change, {account.accepted} of them accepted")
    assert account.accepted > 1000
    assert account.asked - account.accepted > 1000
    assert account.disagreements == []


@pytest.mark.parametrize(("kind", "count"), [("NodePool", 47), ("EC2NodeClass", 91)])
def test_every_field_is_set_in_an_accepted_object(kind: str, count: int, comparisons: Mapping[str, Comparison]) -> None:
    comparison = comparisons[kind]
    fields = {path for path, _ in nodes(comparison.schema)}
    print(f"{kind}: {len(fields)} fields, items and values")
    assert fields - comparison.account.fields == set()
    assert len(fields) == count


@pytest.mark.parametrize("kind", KINDS)
def test_every_constraint_is_felt(kind: str, comparisons: Mapping[str, Comparison]) -> None:
    comparison = comparisons[kind]
    there = constraints(comparison.schema)
    print(f"{kind}: {len(there)} constraints, {len(WITHOUT_EFFECT[kind])} of them without effect")
    assert there - comparison.account.breaches == WITHOUT_EFFECT[kind].keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_is_broken_once(kind: str, server: ApiServer, comparisons: Mapping[str, Comparison]) -> None:
    comparison = comparisons[kind]
    for before, after in CHANGES[kind]:
        # Rules on a change say nothing of an object alone, so that the types, which see one object, accept both.
        verdict = server.try_update(kind, before, after)
        assert not verdict.accepted
        assert not refused_by_types(kind, after)
        comparison.reached(verdict)
    there = rules(comparison.schema)
    print(f"{kind}: {len(there)} rules, {sum(on_change for *_, on_change in there)} of them on a change")
    assert len({rule[:2] for rule in there}) == len(there)
    assert [rule for rule in there if rule[:2] not in comparison.account.broken_rules] == []


def _pool(**reference: str) -> Mapping[str, Any]:
    """A pool whose node class is referred to in another way."""
    return changed(
        POOL, ("template", "spec", "nodeClassRef"), {**POOL["template"]["spec"]["nodeClassRef"], **reference}
    )


CHANGES: Final[Mapping[str, Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]]] = {
    "NodePool": [
        (POOL, {**POOL, "replicas": 1}),
        (POOL, _pool(group="example.com")),
        (POOL, _pool(kind="OtherNodeClass")),
    ],
    "EC2NodeClass": [],
}
"""Objects before and after a change that a rule of the CRD forbids."""


def _several_changes(schema: Schema, kind: str) -> st.SearchStrategy[Any]:
    """Valid objects with up to three changes: what the walk tries, and texts and numbers of any kind."""

    @st.composite
    def build(draw: st.DrawFn) -> Any:
        content: Any = draw(st.sampled_from(VALID[kind]))
        spots = [spot for spot in places(schema, content) if spot[1]]
        for path, way, node, there in draw(st.lists(st.sampled_from(spots), max_size=3)):
            values = [st.sampled_from([*candidates(node, path, there)])]
            if node.get("type") == "string":
                values.append(st.text(st.sampled_from("aZ09-._/@%+:*m hGi\n\té"), max_size=12))
                values.append(st.tuples(*[st.sampled_from(TEXTS)] * 2).map("".join))
            if node.get("type") == "integer":
                values.append(st.integers(-(2**64), 2**64))
            content = changed(content, way, draw(st.one_of(values)))
        return content

    return build()


@pytest.mark.parametrize("kind", KINDS)
def test_several_changes_of_a_valid_object_get_the_same_verdict(kind: str, server: ApiServer) -> None:
    comparison = Comparison(server, kind)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(_several_changes(comparison.schema, kind))
    def compare(spec: Any) -> None:
        comparison.ask(spec)
        assert comparison.account.disagreements == []

    compare()
    account = comparison.account
    print(f"{kind}: {account.asked} specs with several changes, {account.accepted} of them accepted")
    assert account.accepted > EXAMPLES / 20


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("NodePool", {**POOL, "weight": 1.0}),
        ("NodePool", {**POOL, "limits": {"cpu": None}}),
        ("NodePool", changed(VALID["NodePool"][1], ("template", "spec", "taints", 0, "timeAdded"), [])),
        ("EC2NodeClass", {**CLASS, "tags": {"team": None}}),
        ("EC2NodeClass", None),
    ],
    ids=["a whole number with a point", "a limit without a value", "a list as a time", "a tag without a value", "none"],
)
def test_what_the_types_alone_refuse_is_known(kind: str, spec: Any, server: ApiServer) -> None:
    assert server.try_create(kind, spec).accepted
    assert refused_by_types(kind, spec)


@pytest.mark.parametrize("path", sorted((ROOT / "environments").glob("*.yaml")), ids=lambda path: path.name)
def test_the_api_server_takes_the_pools_and_node_classes_of_every_environment(path: Path, server: ApiServer) -> None:
    environment = load_environment(path.stem, path.parent)
    pools: list[NodePoolSpec] = [pool.spec() for pool in environment.pools]
    classes: list[EC2NodeClassSpec] = [node_class.spec() for node_class in environment.node_classes.values()]
    for pool in pools:
        assert server.try_create("NodePool", dump(pool)).message == ""
    for node_class in classes:
        assert server.try_create("EC2NodeClass", dump(node_class)).message == ""
