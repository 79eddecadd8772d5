"""What an environment as a whole says and makes: warnings, and samples that are deployed with the rest."""

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest

from charts.samples import SAMPLES
from configuration import Environment, load_environment
from configuration.environment import SampleName
from tests.unit.assembly import MANIFEST, Assembly, objects_in
from tests.unit.conftest import ROOT

Content = dict[str, Any]
Synthesise = Callable[[Environment], Assembly]


def _environment(content: Content) -> Environment:
    return Environment.model_validate({**content, "name": "mine"}, by_name=False)


def test_the_samples_that_a_file_may_name_are_those_that_there_are() -> None:
    assert set(get_args(SampleName)) == set(SAMPLES)


def test_samples_are_deployed_by_a_word_and_go_before_the_pools(content: Content, synthesise: Synthesise) -> None:
    content["samples"] = ["one-gpu", "inflate"]
    # Whatever else is worth a word is said of the stack that it is about.
    content["nodeClasses"]["gpu"]["amiSelectorTerms"] = [{"alias": "al2023@latest"}]
    assembly = synthesise(_environment(content))
    objects = [found for each in assembly.resources(MANIFEST, "samples").values() for found in objects_in(each)]
    assert {(found["kind"], found["metadata"]["name"]) for found in objects} == {
        ("Pod", "one-gpu"),
        ("Deployment", "inflate"),
    }
    assert "node-pools" in assembly.stack_dependencies["samples"]
    index = json.loads((assembly.folder / "manifest.json").read_text())["artifacts"]
    assert "eks-gpu:kubernetes-support" in _annotations(assembly, index["training-on-eks-cluster"])
    assert "eks-gpu:node-class-gpu" in _annotations(assembly, index["training-on-eks-node-pools"])


def _annotations(assembly: Assembly, artifact: dict[str, Any]) -> str:
    """The text of what the CDK CLI shows of a stack."""
    file = artifact.get("additionalMetadataFile")
    return json.dumps(artifact.get("metadata", {})) + ((assembly.folder / file).read_text() if file else "")


def test_no_samples_are_deployed_unless_asked_for(every_assembly: Assembly) -> None:
    assert "samples" not in every_assembly.templates


def test_what_is_allowed_and_yet_worth_a_word(content: Content) -> None:
    content["nodeClasses"]["gpu"]["amiSelectorTerms"] = [{"alias": "al2023@latest"}]
    del content["cpuPools"][0]["limits"]
    warnings = _environment(content).warnings()
    assert list(warnings) == ["kubernetes-support", "node-class-gpu", "pool-default"]
    assert "extended support" in warnings["kubernetes-support"]
    assert warnings["node-class-gpu"] == (
        "nodeClasses.gpu: alias al2023@latest: every release of the image replaces every node; pin one, such as "
        "al2023@vYYYYMMDD"
    )
    assert warnings["pool-default"] == (
        "pool default: has neither limits nor spot capacity: nothing bounds what it may cost; add for example cpu: 1000"
    )


def test_production_is_warned_of_nothing() -> None:
    assert not load_environment("production", ROOT / "environments").warnings()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("version", "1.14.1"),
        ("credentials", "pod-identity"),
    ],
)
def test_production_is_what_we_would_run_ourselves(key: str, value: str) -> None:
    environment = load_environment("production", ROOT / "environments")
    assert getattr(environment.karpenter, key) == value
    assert environment.cluster.kubernetes_version == "1.36"
    assert environment.cluster.deletion_protection
    for node_class in environment.node_classes.values():
        assert all(term.alias and "latest" not in term.alias for term in node_class.ami_selector_terms)
    assert all("nvidia.com/gpu" in (pool.limits or {}) for pool in environment.gpu_pools)
    assert {"spot", "on-demand"} <= environment.gpu_pools[0].capacity_types()
