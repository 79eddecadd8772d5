"""The real CDK command line, run against the cloud of a rehearsal, with its output shown and kept."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rehearsal.processes import RUN_VARIABLE, Run, stop, tail
from rehearsal.report import StepError
from rehearsal.tools.cdk import cdk_environment

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Cdk:
    """The CDK command line of one run.

    Args:
        run: whose folder keeps the logs.
        command: runs the CLI, to be followed by its arguments.
        project: the folder of the app, for ``synth``.
        environment: of the CLI; what is in it decides where it deploys.
    """

    def __init__(self, run: Run, command: Sequence[str], project: Path, environment: Mapping[str, str]) -> None:
        self._run = run
        self._command = command
        self._project = project
        # Without compiled modules, which some machines forbid to keep, the app would start twice as slowly every time.
        left_out = ("AWS_", "PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self._environment = {**cdk_environment(inherited), **environment, RUN_VARIABLE: run.id, "CI": "true"}

    def __call__(self, name: str, arguments: Sequence[str | Path], say: Callable[[str], None]) -> str:
        """Run one command to its end.

        Args:
            name: names the log, ``<run>/logs/cdk-<name>.log``.
            arguments: of the CLI.
            say: told each line that it prints.

        Returns:
            Everything it printed.

        Raises:
            StepError: it ended with an error.
        """
        log = self._run.logs / f"cdk-{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [*self._command, *map(str, arguments), "--no-notices"]
        process = subprocess.Popen(
            command,
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        lines: list[str] = []
        try:
            assert process.stdout is not None  # noqa: S101 - it is a pipe, see above
            with log.open("w", encoding="utf-8") as file:
                for raw in process.stdout:
                    line = _ESCAPES.sub("", raw.decode(errors="replace")).rstrip()
                    file.write(line + "\n")
                    file.flush()
                    lines.append(line)
                    if line:
                        say(_brief(line))
            process.wait()
        finally:
            stop(process)
        if process.returncode:
            said = [line for line in lines if line and "Subprocess exited with error" not in line]
            if said and len(said) < len([line for line in lines if line]):
                # The app refused, and has said why; the CLI only adds that it did.
                raise StepError("\n".join(said[-30:]))
            raise StepError(
                f"`cdk {arguments[0]}` ended with exit code {process.returncode}: {_reason(lines)}", tail(log, 30)
            )
        return "\n".join(lines)


def _brief(line: str) -> str:
    """A progress line of the CLI without its clock: stack, count, status, type, logical id."""
    parts = [part.strip() for part in line.split("|")]
    if len(parts) >= 6:
        return f"{parts[0]} {parts[1]} {parts[3]} {parts[4]} {parts[5].split(' (')[0]}"
    return line.strip()


def _reason(lines: Sequence[str]) -> str:
    """The first line that says why, as the CLI and CloudFormation word it."""
    for line in lines:
        if "_FAILED" in line and "|" in line:
            return " ".join(part.strip() for part in line.split("|")[3:])
    telling = [line for line in lines if re.search(r"error|failed|❌", line, re.IGNORECASE)]
    return telling[0].strip() if telling else next((line for line in reversed(lines) if line), "it printed nothing")
