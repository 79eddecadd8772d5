"""Upstream's charts, rendered by the helm that the CDK ships. They are downloaded once and kept with the tools."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from configuration import Environment, load_environment
from rehearsal.tools import ConsoleProgress, ToolError
from rehearsal.tools.charts import UpstreamChart, get_chart, get_helm

ROOT = Path(__file__).parents[2]
KUBERNETES = "1.33.0"
"""What the charts are told that the cluster runs: one that has every API which they ask for."""

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def environment() -> Environment:
    return load_environment("workshop", ROOT / "environments")


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Renders a chart as a release of a name, in a namespace, with values."""
    helm = get_helm(ConsoleProgress())
    home = tmp_path_factory.mktemp("helm")

    def run(
        chart: UpstreamChart, *options: str, release: str, namespace: str, values: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        file = home / "values.json"
        file.write_text(json.dumps(values))
        done = subprocess.run(
            [
                *(helm, "template", release, _folder(chart), "--namespace", namespace, "--values", file),
                *("--kube-version", KUBERNETES, *options),
            ],
            env={"HOME": str(home), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [found for found in yaml.safe_load_all(done.stdout) if found]

    return run


def _folder(chart: UpstreamChart) -> Path:
    """The chart's folder. Not every Go proxy has every release, and one that has it not says no at once."""
    try:
        return get_chart(chart, ConsoleProgress())
    except ToolError as error:
        if "is not available" not in str(error) and "404 Not Found" not in str(error):
            raise
        pytest.skip(f"the Go module proxy does not serve {chart.module} {chart.version}")
