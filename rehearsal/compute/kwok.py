"""KWOK: the real binary that keeps a cluster's simulated nodes and pods alive, one process a cluster.

What it plays are the stages in ``stages/``: nodes become Ready, bound pods run, those that are meant to end succeed
after five seconds, deleted ones go. It installs nothing into the cluster (no CRDs) and opens no port.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from subprocess import Popen

from rehearsal.processes import Run, spawn

STAGES = ("node-ready", "pod-run", "pod-complete", "pod-delete")
LEASE_S = 40
"""Seconds a node's lease is good for, a kubelet's default; it is renewed four times as often."""


def command(program: Path, kubeconfig: Path, stages: Sequence[Path]) -> list[str | Path]:
    """KWOK's command line for one cluster."""
    arguments: list[str | Path] = [
        program,
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        f"--node-lease-duration-seconds={LEASE_S}",
    ]
    for stage in stages:
        arguments += ["--config", stage]
    return arguments


def start(run: Run, program: Path, cluster: str, kubeconfig: Path, folder: Path) -> Popen[bytes]:
    """Start KWOK for a cluster; its log is ``<cluster>-kwok``.

    Args:
        run: the run it belongs to.
        program: the binary.
        cluster: the cluster's name.
        kubeconfig: an administrator's.
        folder: its home; keeps it away from a configuration of the user's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files("rehearsal.compute") / "stages") as stages:
        paths = [stages / f"{name}.yaml" for name in STAGES]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
        return spawn(run, f"{cluster}-kwok", command(program, kubeconfig, paths), env=environment)
