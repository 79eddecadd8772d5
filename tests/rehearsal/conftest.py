"""Rehearsals under test: run as a user runs them, by the command, and judged by what they print and record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent


@dataclass(frozen=True)
class Outcome:
    """What a rehearsal left."""

    code: int
    output: str
    record: dict[str, Any]

    def step(self, name: str) -> dict[str, Any]:
        """One step of the record."""
        return next(step for step in self.record["steps"] if step["name"] == name)

    def failed(self) -> list[str]:
        """Names of the steps that did not hold."""
        return [step["name"] for step in self.record["steps"] if step["outcome"] != "held"]


Rehearse = Callable[..., Outcome]


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the state of these rehearsals, apart from the user's own."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="session")
def rehearse(state: Path) -> Rehearse:
    """Runs ``rehearse`` with the given arguments."""

    def run(*arguments: str | Path, timeout_s: float = 1200) -> Outcome:
        record = state / f"record-{len(list(state.iterdir()))}.json"
        done = subprocess.run(
            [SCRIPTS / "rehearse", *arguments, "--json", record],
            env=os.environ | {"XDG_STATE_HOME": str(state), "COLUMNS": "200"},
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        output = done.stdout + done.stderr
        print(output)
        return Outcome(done.returncode, output, json.loads(record.read_text()) if record.exists() else {})

    return run


def _synthesised(environment: str, folder: Path) -> Path:
    """An environment's cloud assembly, from the command line, as a user gets it."""
    command = [SCRIPTS / "cdk", "synth", "--quiet", "--output", folder, "-c", f"environment={environment}"]
    subprocess.run(command, cwd=PROJECT, check=True)
    return folder


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthesised workshop."""
    return _synthesised("workshop", tmp_path_factory.mktemp("assembly") / "cdk.out")


@pytest.fixture(scope="session")
def production(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The synthesised production environment."""
    return _synthesised("production", tmp_path_factory.mktemp("production") / "cdk.out")


Edit = Callable[[Path, str, Callable[[str], str]], Path]


@pytest.fixture
def edited(tmp_path: Path) -> Edit:
    """Copies an assembly and edits one template's text; a fault as a user could make it."""
    folder = tmp_path / "cdk.out"

    def edit(assembly: Path, stack: str, change: Callable[[str], str]) -> Path:
        shutil.copytree(assembly, folder)
        template = folder / f"{stack}.template.json"
        before = template.read_text()
        after = change(before)
        assert after != before, "the fault must change the template"
        template.write_text(after)
        return folder

    return edit
