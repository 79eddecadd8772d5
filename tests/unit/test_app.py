"""The app as the CDK CLI runs it: a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.unit.assembly import Assembly
from tests.unit.conftest import ENVIRONMENTS

ROOT = Path(__file__).parents[2]


NO_NETWORK = ["unshare", "--map-root-user", "--net"]
"""A network namespace of its own: no address, not even a route to this machine."""


def _run(outdir: Path, *before: str, **context: str | bool) -> subprocess.CompletedProcess[str]:
    """Run the app with what the CDK CLI puts into its environment, and no word of AWS."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    variables |= {"CDK_OUTDIR": str(outdir), "CDK_CONTEXT_JSON": json.dumps(context)}
    return subprocess.run([*before, sys.executable, "app.py"], cwd=ROOT, env=variables, capture_output=True, text=True)


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Each environment, synthesised without a network, all at once."""
    if subprocess.run([*NO_NETWORK, "true"], capture_output=True).returncode:
        pytest.skip("this machine does not let its users make network namespaces")
    # What the CLI itself adds to the context must not change a template either. The workshop is the default.
    context = {"aws:cdk:enable-path-metadata": True, "aws:cdk:version-reporting": True}

    def synthesise(name: str) -> Path:
        outdir = tmp_path_factory.mktemp(name)
        which = {} if name == "workshop" else {"environment": name}
        result = _run(outdir, *NO_NETWORK, **context, **which)
        assert result.returncode == 0, result.stderr
        return outdir

    with ThreadPoolExecutor() as threads:
        return dict(zip(ENVIRONMENTS, threads.map(synthesise, ENVIRONMENTS), strict=True))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_synth_without_a_network_gives_the_same_bytes_as_another(
    name: str, offline: Mapping[str, Path], assemblies: Mapping[str, Assembly]
) -> None:
    assert len(_files(offline[name])) > 20
    assert _files(offline[name]) == _files(assemblies[name].folder)


def test_an_environment_that_cannot_be_built_is_one_message_and_no_templates(tmp_path: Path) -> None:
    outdir = tmp_path / "cdk.out"
    result = _run(outdir, environment="staging")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"there is no environment 'staging' in {ROOT / 'environments'}",
        f"  those that exist: {', '.join(ENVIRONMENTS)}",
        "  choose one with -c environment=NAME, or add a file there",
    ]
    assert not list(outdir.glob("*.template.json"))


def test_the_cdk_cli_is_told_the_app_and_the_flags_alone() -> None:
    configuration = json.loads((ROOT / "cdk.json").read_text())
    assert configuration.keys() == {"app", "context"}
    assert configuration["app"] == "python app.py"
    assert all(key.startswith("@aws-cdk") for key in configuration["context"])
    # Exports: CloudFormation itself then refuses to delete a stack that another still uses.
    assert configuration["context"]["@aws-cdk/core:defaultCrossStackReferences"] == "strong"


@pytest.mark.parametrize("package", ["charts", "constructs/eks_gpu", "configuration"])
def test_dependencies_point_one_way(package: str) -> None:
    forbidden = {
        "charts": ("aws_cdk", "eks_gpu", "stacks", "app", "rehearsal"),
        "constructs/eks_gpu": ("cdk8s", "charts", "stacks", "app", "rehearsal"),
        "configuration": ("aws_cdk", "cdk8s", "charts", "eks_gpu", "stacks", "app", "rehearsal"),
    }[package]
    modules = list((ROOT / package).glob("*.py"))
    assert modules
    for module in modules:
        for line in module.read_text().splitlines():
            if line.startswith(("import ", "from ")):
                assert line.split()[1].split(".")[0] not in forbidden, f"{module}: {line}"


def test_the_package_constructs_of_pypi_is_not_shadowed() -> None:
    assert not (ROOT / "constructs" / "__init__.py").exists()
