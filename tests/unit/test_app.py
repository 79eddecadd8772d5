"""The app as the CDK CLI runs it: a process of its own."""

import filecmp
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.assembly import Assembly

ROOT = Path(__file__).parents[2]


def _run(outdir: Path, **context: str | bool) -> subprocess.CompletedProcess[str]:
    """Run the app with what the CDK CLI puts into its environment."""
    variables = {**os.environ, "CDK_OUTDIR": str(outdir), "CDK_CONTEXT_JSON": json.dumps(context)}
    return subprocess.run([sys.executable, "app.py"], cwd=ROOT, env=variables, capture_output=True, text=True)


def test_two_runs_write_the_same_bytes_and_the_workshop_is_the_default(assembly: Assembly, tmp_path: Path) -> None:
    # What the CLI itself adds to the context must not change a template either.
    result = _run(tmp_path, **{"aws:cdk:enable-path-metadata": True, "aws:cdk:version-reporting": True})
    assert result.returncode == 0, result.stderr
    compared = filecmp.dircmp(assembly.folder, tmp_path)
    assert not compared.left_only
    assert not compared.right_only
    names = [path.name for path in tmp_path.iterdir() if path.is_file()]
    _, different, unread = filecmp.cmpfiles(assembly.folder, tmp_path, names, shallow=False)
    assert not different
    assert not unread


def test_an_environment_that_cannot_be_built_is_one_message_and_no_templates(tmp_path: Path) -> None:
    outdir = tmp_path / "cdk.out"
    result = _run(outdir, environment="staging")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"there is no environment 'staging' in {ROOT / 'environments'}",
        "  those that exist: workshop",
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
