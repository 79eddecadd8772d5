"""Everything a rehearsal runs, out of the cache or got ready now."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path

from rehearsal.tools import golang, karpenter, layer, npm
from rehearsal.tools.cache import Cache, Entry
from rehearsal.tools.progress import Progress
from rehearsal.tools.toolbox import Toolbox

KUBERNETES = layer.DEFAULT
"""The minor version of those tools that no deployment chose: the default environment's."""


def missing_tools(cache: Cache, kubernetes: str | None = None, archive: Path | None = None) -> list[Entry]:
    """The tools that are not ready yet; reads a few small files and starts nothing.

    Args:
        cache: the folder of tools.
        kubernetes: minor version that is to be rehearsed; the default environment's when left out.
        archive: zip of the kubectl layer to take kubectl and helm from; see :func:`get_tools`.

    Raises:
        ToolError: no control plane is pinned for that version; the message names those that are.
    """
    entries = (*_unpacked(kubernetes, archive), *_from_go(kubernetes, None))
    return [entry for entry in entries if not cache.has(entry)]


def get_tools(
    progress: Progress, *, kubernetes: str | None = None, archive: Path | None = None, cache: Cache | None = None
) -> Toolbox:
    """Everything a rehearsal runs; what is missing is got ready first, which takes minutes the first time.

    Args:
        progress: told what is done, and how far it is; nothing is said when all is there.
        kubernetes: minor version of the control plane, for example ``1.36``; the default environment's when left out.
        archive: zip of the kubectl layer that the handlers are deployed with; that of the installed Python package when
            left out.
        cache: the folder of tools; the user's own when left out.

    Raises:
        ToolError: a tool cannot be had; what was got ready before it stays ready.
    """
    cache = cache or Cache()
    toolchain, go = _compiler(cache, kubernetes)
    total = len(toolchain) + len(missing_tools(cache, kubernetes, archive))
    if total:
        progress.say(
            f"{total} tools of the rehearsal are missing. They are got ready once, from pinned and checksummed "
            f"sources, and kept in {cache.root}; with none there it takes 6 to 12 minutes on 2 cores."
        )
    numbers = count(1)
    folders: dict[str, Path] = {}

    def get(entries: list[Entry]) -> None:
        for entry in entries:
            number = 0 if cache.has(entry) else next(numbers)
            folders[entry.name] = cache.get(entry, progress, number=number, of=total)

    get(_unpacked(kubernetes, archive))
    get(toolchain)
    get(_from_go(kubernetes, go))
    return _toolbox(folders, golang.kubernetes(kubernetes or KUBERNETES).version)


def _unpacked(kubernetes: str | None, archive: Path | None) -> list[Entry]:
    """The tools that need no compiler, the quick ones."""
    programs = layer.entry(kubernetes or KUBERNETES) if archive is None else layer.entry_of(archive)
    return [npm.entry(), programs]


def _from_go(kubernetes: str | None, go: Path | None) -> list[Entry]:
    """The tools that come out of Go modules. The compiler decides nothing about where a tool is found."""
    tools = golang.go_tools(kubernetes or KUBERNETES)
    return [karpenter.entry(go), *(golang.entry(tool, go) for tool in tools)]


def _compiler(cache: Cache, kubernetes: str | None) -> tuple[list[Entry], Path | None]:
    """The Go toolchain, when something that is missing needs it: what must be installed for it, and its ``go``."""
    if all(cache.has(entry) for entry in _from_go(kubernetes, None)):
        return [], None
    found = golang.go_on_path(golang.needed_go())
    if found:
        return [], found
    entry = golang.toolchain_entry()
    return [] if cache.has(entry) else [entry], cache.folder(entry) / golang.TOOLCHAIN_PROGRAM


def _toolbox(folders: Mapping[str, Path], kubernetes_version: str) -> Toolbox:
    return Toolbox(
        etcd=folders["etcd"] / "etcd",
        kube_apiserver=folders["kubernetes"] / "kube-apiserver",
        kube_controller_manager=folders["kubernetes"] / "kube-controller-manager",
        kube_scheduler=folders["kubernetes"] / "kube-scheduler",
        karpenter=folders["karpenter"] / "karpenter",
        kwok=folders["kwok"] / "kwok",
        kubectl=folders["kubectl-helm"] / "kubectl",
        helm=folders["kubectl-helm"] / "helm",
        cdk=folders["aws-cdk"] / npm.PACKAGE,
        karpenter_crd_chart=folders["karpenter-data"] / karpenter.CHART,
        on_demand_prices=folders["karpenter-data"] / karpenter.PRICES,
        kubernetes_version=kubernetes_version,
        karpenter_version=golang.KARPENTER.version,
    )
