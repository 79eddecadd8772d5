"""One rehearsal from the first check to the last count, and what happens when it is kept, fails or is interrupted."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs
import psutil
from rich.console import Console
from rich.markup import escape

from rehearsal import census
from rehearsal.assembly import Assembly, AssemblyError
from rehearsal.cdk import Cdk
from rehearsal.cloud import KEEP, Access, Request
from rehearsal.processes import Run, end_all, of_run, spawn, tail
from rehearsal.report import Record, Reporter, StepError
from rehearsal.story import Story
from rehearsal.tools import ConsoleProgress, ToolError, get_tools, layer, preflight
from rehearsal.tools.cdk import cdk_command, get_cdk
from rehearsal.tools.toolbox import Toolbox

PROJECT = Path(__file__).resolve().parent.parent
"""The clone, whose ``cdk.json`` says how to synthesise."""

START_WITHIN_S = 60
STOP_WITHIN_S = 30


@dataclass(frozen=True)
class Options:
    """What a user asks of one rehearsal.

    Args:
        environment: name of a file of ``environments/``.
        assembly: a cloud assembly to deploy instead of synthesising one; None to synthesise.
        keep: leave everything running after the deploy.
        json: where the record is written; None for nowhere.
    """

    environment: str = "workshop"
    assembly: Path | None = None
    keep: bool = False
    json: Path | None = None


def runs_folder() -> Path:
    """Folder of all runs of this user, one folder a run."""
    return platformdirs.user_state_path("eks-gpu") / "runs"


def rehearse(options: Options, console: Console) -> int:
    """Rehearse, and tell it on a console.

    Returns:
        Exit code: 0 when every step held, 1 when one did not or something is missing, 130 when interrupted.
    """
    if options.json and not options.json.parent.is_dir():
        console.print(f"[red]--json {options.json}: there is no folder {options.json.parent}[/]")
        return 1
    run = _new_run()
    source = f"assembly {options.assembly}" if options.assembly else f"environment {options.environment}"
    reporter = Reporter(console, Record(run.id, source))
    console.print(f"[bold]Rehearsal of {escape(source)}[/] · local AWS, real Kubernetes, real Karpenter · run {run.id}")
    held = False
    code = 1
    try:
        _perform(run, options, reporter)
        held, code = True, 0
    except StepError as failure:
        reporter.fail(failure, run.logs)
    except (ToolError, AssemblyError) as error:
        reporter.record.failure = str(error)
        console.print(f"[red]{escape(str(error))}[/]")
    except KeyboardInterrupt:
        reporter.record.failure = "interrupted"
        console.print("\n[yellow]interrupted; nothing is left running[/]")
        code = 130
    finally:
        reporter.finish(held=held)
        if options.json:
            reporter.record.write(options.json)
    if held:
        console.print(f"[bold green]Every step held[/] in {reporter.record.seconds:.0f} s.")
        if not options.keep:
            shutil.rmtree(run.folder, ignore_errors=True)
    return code


def _perform(run: Run, options: Options, reporter: Reporter) -> None:
    preflight(run.folder)
    progress = ConsoleProgress()
    with reporter.step("synth", "cdk synth") as step:
        assembly = _assembly(run, options, get_cdk(progress), step.say)
        step.hold(f"{len(assembly.stacks)} stacks for {assembly.account} in {assembly.region}")
    version = assembly.kubernetes_version()
    preflight(run.folder, kubernetes=version)
    tools = get_tools(progress, kubernetes=version, archive=layer.find_archive(assembly.folder))
    with _cloud(run, tools, assembly, reporter) as cloud:
        cdk = Cdk(run, cdk_command(tools.cdk), PROJECT, cloud.access.environment())
        prices: dict[str, float] = json.loads(tools.on_demand_prices.read_text())
        story = Story(run, assembly, cdk, cloud.access, reporter, prices)
        story.deploy()
        if options.keep:
            cloud.keep()
            _say_how_to_use(run, story, reporter)
            return
        story.scale()
        story.destroy()
    with reporter.step("census-machine", "nothing is left running on this machine") as step:
        left = census.processes(run.id)
        ports = census.open_ports(cloud.ports)
        reporter.record.census |= {"processes": left, "ports": [str(port) for port in ports]}
        if left or ports:
            raise StepError(f"still there after the end: processes {left}, ports {ports}")
        step.hold(f"{cloud.processes} processes and {len(cloud.ports)} ports of the run are gone")


def _assembly(run: Run, options: Options, cdk: Path, say: Callable[[str], None]) -> Assembly:
    if options.assembly:
        return Assembly.read(options.assembly.resolve())
    folder = run.folder / "cdk.out"
    command = Cdk(run, cdk_command(cdk), PROJECT, {})
    arguments = ["synth", "--quiet", "--output", folder, "--context", f"environment={options.environment}"]
    command("synth", arguments, say)
    return Assembly.read(folder)


class RunningCloud:
    """A cloud that was started here.

    Args:
        access: how to reach it.
        process: its process.
    """

    def __init__(self, access: Access, process: subprocess.Popen[bytes]) -> None:
        self.access = access
        self.kept = False
        self.ports: dict[int, str] = {}
        self.processes = 0
        self._process = process

    def keep(self) -> None:
        """Let it outlive this process."""
        assert self._process.stdin is not None  # noqa: S101 - it was started with a pipe
        self._process.stdin.write(KEEP)
        self._process.stdin.close()
        self.kept = True


@contextmanager
def _cloud(run: Run, tools: Toolbox, assembly: Assembly, reporter: Reporter) -> Generator[RunningCloud]:
    """A cloud for the time of the block, unless it is kept; nothing of it is left when the block ends."""
    Request(run.id, assembly.account, assembly.region, tools).write(run.folder)
    process = spawn(
        run, "cloud", [sys.executable, "-m", "rehearsal.cloud", run.folder], stdin=subprocess.PIPE, cwd=PROJECT
    )
    cloud: RunningCloud | None = None
    try:
        with reporter.step("start", "a local AWS starts") as step:
            cloud = RunningCloud(_await_access(run, process), process)
            step.hold(f"{cloud.access.endpoint}, account {cloud.access.account}, region {cloud.access.region}")
        yield cloud
        cloud.ports = census.listening_ports(run.id)
        cloud.processes = len(census.processes(run.id))
    finally:
        if cloud is None or not cloud.kept:
            _stop(run, process)


def _await_access(run: Run, process: subprocess.Popen[bytes]) -> Access:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        access = Access.read(run.folder)
        if access:
            return access
        if process.poll() is not None:
            raise StepError(
                f"the local AWS ended with exit code {process.returncode} before it served",
                tail(run.logs / "cloud.log"),
            )
        time.sleep(0.05)
    raise StepError(f"the local AWS did not serve within {START_WITHIN_S} s", tail(run.logs / "cloud.log"))


def _stop(run: Run, process: subprocess.Popen[bytes]) -> None:
    """End a cloud and whatever it left; an interruption does not interrupt this."""
    if process.stdin and not process.stdin.closed:
        process.stdin.close()  # the lifeline: the cloud stops itself in order
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _await_none(run.id)


def _await_none(run_id: str) -> None:
    """Give the janitor a moment, then do its work."""
    deadline = time.monotonic() + 5
    while of_run(run_id) and time.monotonic() < deadline:
        time.sleep(0.05)
    end_all(run_id)


def _say_how_to_use(run: Run, story: Story, reporter: Reporter) -> None:
    kubeconfigs = [e.data["kubeconfig"] for e in story.events.read() if e.kind == "cluster-active"]
    environment = " ".join(f"{name}={value}" for name, value in story.access.environment().items())
    reporter.say("\nEverything is left running. Use it with kubectl, helm and the AWS CLI:\n")
    for kubeconfig in kubeconfigs:
        reporter.console.print(f"export KUBECONFIG={kubeconfig}", highlight=False, soft_wrap=True, markup=False)
    reporter.console.print(f"export {environment}", highlight=False, soft_wrap=True, markup=False)
    reporter.say(f"\nEnd it with [bold]uv run rehearse down {run.id}[/].\n")


def _new_run() -> Run:
    identifier = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    folder = runs_folder() / identifier
    folder.mkdir(parents=True)
    return Run(identifier, folder)


def down(identifiers: list[str], console: Console) -> int:
    """End runs that were kept, and remove their folders.

    Args:
        identifiers: of the runs; every run that is still running when empty.
        console: told what was ended.

    Returns:
        Exit code: 0, or 1 where a named run does not exist.
    """
    known = {folder.name: folder for folder in sorted(runs_folder().glob("*")) if folder.is_dir()}
    unknown = [identifier for identifier in identifiers if identifier not in known]
    if unknown:
        there = ", ".join(known) or "none"
        console.print(f"[red]no run {', '.join(unknown)}; there is: {there}[/]")
        return 1
    ended = 0
    for identifier in identifiers or known:
        folder = known[identifier]
        if not identifiers and not _kept(identifier, folder):
            continue
        _end(Run(identifier, folder))
        shutil.rmtree(folder)
        console.print(f"ended {identifier}")
        ended += 1
    if not ended:
        console.print("no run was left running")
    return 0


def _kept(identifier: str, folder: Path) -> bool:
    return Access.read(folder) is not None and bool(of_run(identifier))


def _end(run: Run) -> None:
    access = Access.read(run.folder)
    if access and any(process.pid == access.pid for process in of_run(run.id)):
        cloud = psutil.Process(access.pid)
        cloud.terminate()
        psutil.wait_procs([cloud], timeout=STOP_WITHIN_S)
    _await_none(run.id)
