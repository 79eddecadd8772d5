"""The workshop environment, synthesised once for all tests; they only read it."""

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from configuration import Environment, load_environment
from tests.unit.assembly import MANIFEST, Assembly, objects_in, read_assembly

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def environment() -> Environment:
    return load_environment("workshop", ROOT / "environments")


@pytest.fixture(scope="session")
def synthesise(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Environment], Assembly]:
    def run(environment: Environment) -> Assembly:
        from app import synthesise  # only here: loading CDK takes seconds, which other tests need not wait for

        folder = tmp_path_factory.mktemp("cdk.out")
        return read_assembly(synthesise(environment, folder), environment)

    return run


@pytest.fixture(scope="session")
def assembly(synthesise: Callable[[Environment], Assembly], environment: Environment) -> Assembly:
    return synthesise(environment)


@pytest.fixture(scope="session")
def manifests(assembly: Assembly) -> Mapping[str, dict[str, Any]]:
    """Every Kubernetes object as `Kind/name` or `Kind/namespace/name`."""

    def pairs() -> Iterator[tuple[str, dict[str, Any]]]:
        for resource in assembly.resources(MANIFEST).values():
            (found,) = objects_in(resource)
            metadata = found["metadata"]
            parts = (found["kind"], metadata.get("namespace"), metadata["name"])
            yield "/".join(part for part in parts if part), found

    return dict(pairs())


@pytest.fixture
def content() -> dict[str, Any]:
    """What workshop.yaml holds, to be changed."""
    return copy.deepcopy(yaml.safe_load((ROOT / "environments" / "workshop.yaml").read_text()))
