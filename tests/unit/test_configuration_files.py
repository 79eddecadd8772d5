"""The environment files that are committed, their schema, and the matrix of releases."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from configuration import Environment
from configuration.schema import schema_text

ROOT = Path(__file__).parents[2]


def test_the_committed_schema_is_the_models_own() -> None:
    committed = (ROOT / "environments" / "schema.json").read_text()
    assert committed == schema_text(), "run: python -m configuration > environments/schema.json"


@pytest.mark.parametrize("path", sorted((ROOT / "environments").glob("*.yaml")), ids=lambda path: path.name)
def test_every_environment_file_names_its_schema(path: Path) -> None:
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=schema.json"


def test_an_environment_cannot_be_changed_after_it_is_read(environment: Environment) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        environment.cluster.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_configuration_needs_neither_cdk_nor_cdk8s() -> None:
    program = "import sys, configuration; sys.exit(any(m in sys.modules for m in ('jsii', 'aws_cdk', 'cdk8s')))"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)
