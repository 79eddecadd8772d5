"""Upstream's charts as tools: downloaded once, and refused when they are not what is pinned. With a `go` of our own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal.tools import ConsoleProgress, ToolError
from rehearsal.tools.cache import Cache
from rehearsal.tools.charts import UpstreamChart, get_chart

CHART = UpstreamChart("some", "example.org/some", "v1.2.3", "h1:right=", "deploy/some")
QUIET = ConsoleProgress(Console(quiet=True))


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """The module as Go keeps it."""
    folder = tmp_path / "module"
    (folder / CHART.folder / "templates").mkdir(parents=True)
    (folder / CHART.folder / "Chart.yaml").write_text("name: some\n")
    (folder / CHART.folder / "templates" / "one.yaml").write_text("kind: One\n")
    (folder / "main.go").write_text("package main\n")
    return folder


@pytest.fixture
def go(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a `go` on PATH whose downloads have a checksum; what it was asked goes to a file."""

    def put(checksum: str) -> Path:
        asked, answer = tmp_path / "asked", tmp_path / "answer.json"
        answer.write_text(json.dumps({"Path": CHART.module, "Dir": str(module), "Sum": checksum}))
        program = tmp_path / "bin" / "go"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            f'#!/bin/sh\nif [ "$1" = version ]; then echo "go version go1.99.0 linux/amd64"; exit; fi\n'
            f'echo "$@" >> {asked}\necho "go: downloading it" >&2\ncat {answer}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return asked

    return put


def test_a_chart_is_downloaded_once_and_nothing_but_the_chart_is_kept(
    tmp_path: Path, go: Callable[[str], Path]
) -> None:
    asked, cache = go(CHART.checksum), Cache(tmp_path / "tools")
    folder = get_chart(CHART, QUIET, cache=cache)
    assert (folder / "templates" / "one.yaml").read_text() == "kind: One\n"
    assert not list((tmp_path / "tools").rglob("main.go"))
    assert get_chart(CHART, QUIET, cache=cache) == folder
    assert asked.read_text().splitlines() == ["mod download -json example.org/some@v1.2.3"]


def test_a_module_that_is_not_the_pinned_one_is_refused(tmp_path: Path, go: Callable[[str], Path]) -> None:
    go("h1:wrong=")
    with pytest.raises(ToolError, match=r"checksum is h1:wrong=, and h1:right= is pinned"):
        get_chart(CHART, QUIET, cache=Cache(tmp_path / "tools"))
    assert not list((tmp_path / "tools").glob("chart-*/"))
