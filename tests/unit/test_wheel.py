"""What `uv build` makes of the project, for people who put it on a cluster of their own."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("charts", "configuration", "eks_gpu", "rehearsal", "stacks")


@pytest.fixture(scope="module")
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


def test_it_has_every_file_of_every_package_and_its_types(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {line.removeprefix("constructs/") for line in tracked.splitlines()}
    wanted = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert wanted <= set(wheel.namelist())
    for package in PACKAGES:
        assert f"{package}/py.typed" in wheel.namelist()
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert top - set(PACKAGES) == {"eks_gpu-0.1.0.dist-info"}


def test_the_example_is_built_with_the_wheel_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    installed = tmp_path / "site"
    wheel.extractall(installed)
    example = tmp_path / "app.py"
    # What an import found is told by the module itself: the clone is on the path too, behind the wheel.
    told = "\nimport stacks\nprint(stacks.__file__)"
    example.write_text((ROOT / "examples" / "existing-cluster" / "app.py").read_text() + told)
    context = json.dumps({"@aws-cdk/aws-eks:useNativeOidcProvider": True})
    variables = {"CDK_OUTDIR": str(tmp_path / "out"), "PYTHONPATH": str(installed), "CDK_CONTEXT_JSON": context}
    result = subprocess.run(
        [sys.executable, example], cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == str(installed / "stacks" / "__init__.py")
    assert len(list((tmp_path / "out").glob("*.template.json"))) == 3
