"""What `uv build` makes of the project, for people who put it on a cluster of their own."""

import subprocess
import zipfile

from tests.unit.conftest import ROOT

PACKAGES = ("charts", "configuration", "eks_gpu", "rehearsal", "stacks")


def test_it_has_every_file_of_every_package_and_its_types(wheel: zipfile.ZipFile) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {line.removeprefix("constructs/") for line in tracked.splitlines()}
    wanted = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert wanted <= set(wheel.namelist())
    for package in PACKAGES:
        assert f"{package}/py.typed" in wheel.namelist()
    top = {name.partition("/")[0] for name in wheel.namelist()}
    assert top - set(PACKAGES) == {"eks_gpu-0.1.0.dist-info"}
