"""The environment files that are committed, their schema, and the matrix of releases."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from configuration import Environment
from configuration.releases import incompatibility
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


@pytest.mark.parametrize(
    ("kubernetes", "oldest", "too_old"),
    [
        ("1.30", "0.37.0", "0.36.2"),
        ("1.31", "1.0.5", "1.0.4"),
        ("1.32", "1.2.0", "1.1.3"),
        ("1.33", "1.5.0", "1.4.0"),
        ("1.34", "1.6.0", "1.5.6"),
        ("1.35", "1.9.0", "1.8.8"),
        ("1.36", "1.13.0", "1.12.2"),
    ],
)
def test_s0_2_each_kubernetes_version_has_an_oldest_karpenter(kubernetes: str, oldest: str, too_old: str) -> None:
    assert incompatibility(karpenter=oldest, kubernetes=kubernetes) is None
    refused = incompatibility(karpenter=too_old, kubernetes=kubernetes)
    assert refused is not None
    assert f"Karpenter {too_old} does not support Kubernetes {kubernetes}" in refused


def test_s0_2_a_kubernetes_version_that_karpenter_does_not_know_is_refused() -> None:
    assert incompatibility(karpenter="1.14.1", kubernetes="1.37") == (
        "no Karpenter release is known to support Kubernetes 1.37; use one of 1.30, 1.31, 1.32, 1.33, 1.34, 1.35, 1.36"
    )
