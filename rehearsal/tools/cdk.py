"""``uv run cdk``: the real CDK command line, at the version that package-lock.json pins."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from rehearsal.tools import npm
from rehearsal.tools.cache import Cache
from rehearsal.tools.commands import end_on_sigterm
from rehearsal.tools.errors import ToolError
from rehearsal.tools.progress import ConsoleProgress, Progress


def cdk_command(folder: Path) -> list[str]:
    """The command that runs the CDK command line, to be followed by its arguments.

    Args:
        folder: of the installed npm package ``aws-cdk``.

    Raises:
        ToolError: Node is missing.
    """
    return [str(npm.node()), str(folder / "bin" / "cdk")]


def get_cdk(progress: Progress, cache: Cache | None = None) -> Path:
    """Folder of the npm package ``aws-cdk``, installed first when it is missing.

    Raises:
        ToolError: it cannot be installed.
    """
    return (cache or Cache()).get(npm.entry(), progress) / npm.PACKAGE


def cdk_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the CDK command line: this Python first on PATH, and quiet unless the user said otherwise.

    The two variables are those of the CLI's documentation (aws-cdk 2.1148.1, README, "Environment"): the version is
    pinned, so that a newer one is no news, and telemetry is for the user to switch on. Security notices stay on.

    Args:
        environment: what the user has; it wins.
    """
    scripts = sysconfig.get_path("scripts")
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    return {
        "CDK_DISABLE_VERSION_CHECK": "1",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        **environment,
        "PATH": os.pathsep.join([scripts, *(folder for folder in path if folder != scripts)]),
    }


def main() -> None:
    """Become the CDK command line, with the arguments of this process."""
    end_on_sigterm()
    try:
        command = cdk_command(get_cdk(ConsoleProgress()))
    except ToolError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    os.execve(command[0], [*command, *sys.argv[1:]], cdk_environment(os.environ))  # noqa: S606 - no shell is meant
