"""``uv run rehearse``: the command line."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from rehearsal.perform import Options, down, rehearse

app = App(
    name="rehearse",
    help="""Rehearse the whole platform on this machine, with no AWS account.

    The real CDK command line deploys the real templates into a local AWS and a real Kubernetes control plane; the
    real Karpenter buys a simulated GPU node for a pending pod; the node goes when the pod has ended; everything is
    destroyed, and what is left behind is counted. The first run builds its tools once (about 12 minutes on 2 cores);
    later ones start in seconds and take about three minutes.

    Exit code 0 means that every step held.
    """,
    help_format="markdown",
    version_flags=[],
)


@app.default
def default(
    *,
    environment: Annotated[str, Parameter(help="Name of a file of environments/, without its suffix.")] = "workshop",
    assembly: Annotated[
        Path | None,
        Parameter(help="Deploy the cloud assembly in this folder (any CDK EKS app's) instead of synthesising one."),
    ] = None,
    keep: Annotated[
        bool,
        Parameter(
            help="Stop after the deploy, leave everything running and print how to use it; `rehearse down` ends it.",
            negative=(),
        ),
    ] = False,
    json: Annotated[
        Path | None, Parameter(help="Write steps, timings, instances and census to this file, for machines.")
    ] = None,
) -> int:
    """Deploy, scale up for one GPU pod, scale down, destroy, count."""
    return rehearse(Options(environment, assembly, keep, json), Console())


@app.command(name="down")
def end(*runs: str) -> int:
    """End runs that were kept with --keep.

    Args:
        runs: Their ids; all that are running when none is named.
    """
    return down(list(runs), Console())


def main() -> None:
    """Run the command line; SIGTERM ends a rehearsal as Ctrl-C does, also where a shell had it ignore Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, interrupt)
    try:
        sys.exit(app())
    except KeyboardInterrupt:
        sys.exit(130)
