"""However a rehearsal ends, nothing of it is left running; and one that is kept can be used, then ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rehearsal.census import listening_ports, open_ports
from rehearsal.cloud import Access
from rehearsal.processes import of_run
from rehearsal.tools import ConsoleProgress, get_tools

from .conftest import PROJECT, SCRIPTS, Rehearse


def _until(held: Callable[[], object], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if held():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(
    ("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_an_interrupted_rehearsal_leaves_no_process_and_no_port(
    ending: signal.Signals, code: int, assembly: Path, tmp_path: Path
) -> None:
    """It is interrupted while the cluster is being deployed, with a control plane and Lambda functions running."""
    process = subprocess.Popen(
        [SCRIPTS / "rehearse", "--assembly", assembly],
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        runs = tmp_path / "eks-gpu" / "runs"
        assert _until(lambda: list(runs.glob("*/clusters/*/control-plane/admin.kubeconfig")), 120)
        (run,) = runs.iterdir()
        assert len(of_run(run.name)) > 3
        ports = listening_ports(run.name)
        assert ports
        assert set(ports.values()) <= {"127.0.0.1", "::1"}
        process.send_signal(ending)
        assert process.wait(60) == code
        assert _until(lambda: not of_run(run.name), 30)
        assert open_ports(ports) == []
    finally:
        process.kill()
        process.wait()


def test_a_kept_rehearsal_can_be_used_by_kubectl_and_ended(rehearse: Rehearse, assembly: Path, state: Path) -> None:
    outcome = rehearse("--assembly", assembly, "--keep")
    run = outcome.record["run"]
    folder = state / "eks-gpu" / "runs" / run
    try:
        assert outcome.code == 0
        (kubeconfig,) = [line for line in outcome.output.splitlines() if line.startswith("export KUBECONFIG=")]
        access = Access.read(folder)
        assert access is not None
        assert f"export AWS_ENDPOINT_URL={access.endpoint}" in outcome.output
        kubectl = get_tools(ConsoleProgress()).kubectl
        listed = subprocess.run(
            [kubectl, "get", "nodepools", "-o", "name"],
            env={"KUBECONFIG": kubeconfig.removeprefix("export KUBECONFIG=")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "nodepool.karpenter.sh/gpu-pool" in listed.stdout.split()
        assert access.client("eks").list_clusters()["clusters"] == ["training-on-eks"]
    finally:
        ended = subprocess.run(
            [SCRIPTS / "rehearse", "down", run],
            env=os.environ | {"XDG_STATE_HOME": str(state)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0
    assert f"ended {run}" in ended.stdout
    assert of_run(run) == []
    assert not folder.exists()


def test_an_environment_that_does_not_exist_is_named_with_those_that_do(rehearse: Rehearse) -> None:
    outcome = rehearse("--environment", "nope")
    assert outcome.code == 1
    assert outcome.failed() == ["synth"]
    assert "nope" in outcome.record["failure"]
    assert "workshop" in outcome.output
    assert "Traceback" not in outcome.output


def test_a_folder_that_is_no_assembly_is_refused_before_anything_starts(rehearse: Rehearse, tmp_path: Path) -> None:
    outcome = rehearse("--assembly", tmp_path)
    assert outcome.code == 1
    assert "is not a cloud assembly" in outcome.output
    assert outcome.failed() == ["synth"]


def test_help_teaches(rehearse: Rehearse) -> None:
    shown = subprocess.run([SCRIPTS / "rehearse", "--help"], capture_output=True, text=True, check=True).stdout
    for flag in ("--environment", "--assembly", "--keep", "--json", "down"):
        assert flag in shown
