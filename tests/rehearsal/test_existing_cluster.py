"""The example app, whose cluster is somebody else's, told like the product's own environments."""

from __future__ import annotations

import subprocess
from pathlib import Path

from .conftest import PROJECT, SCRIPTS, Rehearse


def test_a_gpu_is_bought_on_a_cluster_that_somebody_else_made(rehearse: Rehearse, tmp_path: Path) -> None:
    assembly = tmp_path / "cdk.out"
    command = [SCRIPTS / "cdk", "synth", "--quiet", "--output", assembly]
    subprocess.run(command, cwd=PROJECT / "examples" / "existing-cluster", check=True)
    outcome = rehearse("--assembly", assembly)
    assert outcome.failed() == []
    assert outcome.code == 0
    assert "NodePool inference" in outcome.output
    (bought,) = outcome.record["instances"]
    assert bought["type"].partition(".")[0] in ("g5", "g6")
