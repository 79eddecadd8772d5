"""The workshop environment, synthesised once for all tests; they only read it."""

import copy
import gc
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from configuration import Environment, load_environment
from tests.unit.assembly import MANIFEST, Assembly, objects_in, read_assembly
from tests.unit.platform_environment import platform_content

# The CDK's own check of templates takes seconds a synth; test_templates.py does it once for all.
os.environ["CDK_VALIDATION"] = "false"

# The CDK's classes are hundreds of thousands of objects, which would be looked through again and again.
gc.set_threshold(100_000, 50, 100)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def environment() -> Environment:
    return load_environment("workshop", ROOT / "environments")


@pytest.fixture(scope="session")
def synthesise(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Environment], Assembly]:
    def run(environment: Environment) -> Assembly:
        from app import new_app, synthesise  # only here: loading CDK takes seconds, which other tests need not wait for

        folder = tmp_path_factory.mktemp("cdk.out")
        return read_assembly(synthesise(environment, new_app(folder)), environment)

    return run


@pytest.fixture(scope="session")
def assembly(synthesise: Callable[[Environment], Assembly], environment: Environment) -> Assembly:
    return synthesise(environment)


ENVIRONMENTS = sorted(path.stem for path in (ROOT / "environments").glob("*.yaml"))


@pytest.fixture(scope="session")
def assemblies(
    synthesise: Callable[[Environment], Assembly], assembly: Assembly, environment: Environment
) -> Mapping[str, Assembly]:
    """Every environment of the repository, by name."""
    others = [name for name in ENVIRONMENTS if name != environment.name]
    return {environment.name: assembly} | {
        name: synthesise(load_environment(name, ROOT / "environments")) for name in others
    }


@pytest.fixture(scope="session", params=ENVIRONMENTS)
def every_assembly(request: pytest.FixtureRequest, assemblies: Mapping[str, Assembly]) -> Assembly:
    """Each environment of the repository, one after the other."""
    return assemblies[request.param]


@pytest.fixture(scope="session")
def platform(synthesise: Callable[[Environment], Assembly]) -> Assembly:
    """An environment that asks for everything the AWS side can do."""
    workshop = yaml.safe_load((ROOT / "environments" / "workshop.yaml").read_text())
    return synthesise(Environment.model_validate({**platform_content(workshop), "name": "platform"}, by_name=False))


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


@pytest.fixture(scope="module")
def content_of_workshop() -> dict[str, Any]:
    """What workshop.yaml holds, to be changed for all tests of a module."""
    return yaml.safe_load((ROOT / "environments" / "workshop.yaml").read_text())


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built by the backend that `uv build` calls."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)
