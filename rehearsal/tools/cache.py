"""The cache of tools: per user, one folder per tool, named after what the tool was built from.

It stands in the user's cache folder (``~/.cache/eks-gpu/tools`` on Linux, or below ``XDG_CACHE_HOME``) and is shared
between clones. It may be removed whenever no rehearsal runs: what is missing is got ready again. Folders of versions
that are no longer pinned are left alone, since another clone may still want them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from rehearsal.tools.errors import ToolError, tool_error
from rehearsal.tools.progress import Progress, Step

METADATA = "built-from.json"
"""In each tool's folder: what it was built from, and when."""


def default_root() -> Path:
    """Folder of this user's tools."""
    return platformdirs.user_cache_path("eks-gpu") / "tools"


@dataclass
class Build:
    """What a recipe is given.

    Args:
        folder: empty folder to build in; it becomes the tool's folder when the recipe returns.
        scratch: empty folder for temporary files, on the same disk; removed afterwards.
        log: where the whole output of commands goes.
        progress: where to say what moves.
        metadata: more to write beside the inputs, for example the version of the compiler.
    """

    folder: Path
    scratch: Path
    log: Path
    progress: Progress
    metadata: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Entry:
    """A tool: how it is called, what it is built from, how, and what must be there afterwards.

    Args:
        name: names the folder, together with version and key.
        version: of the tool, for people.
        title: name and version as the user reads them.
        doing: ``building``, ``installing`` or ``unpacking``.
        inputs: everything that decides the result; a change of any value gives another folder.
        files: relative paths that must exist when the tool is ready.
        recipe: builds it.
    """

    name: str
    version: str
    title: str
    doing: str
    inputs: Mapping[str, str]
    files: tuple[str, ...]
    recipe: Callable[[Build], None]

    @property
    def key(self) -> str:
        """Twelve hexadecimal digits that stand for the inputs and the platform."""
        facts = {**self.inputs, "platform": f"{platform.system()}-{platform.machine()}", "files": list(self.files)}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def folder_name(self) -> str:
        """Name of the tool's folder in the cache."""
        return f"{self.name}-{self.version}-{self.key}"


class Cache:
    """The folder of tools.

    Args:
        root: where; :func:`default_root` when left out.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def folder(self, entry: Entry) -> Path:
        """Where the tool is, or will be."""
        return self.root / entry.folder_name

    def has(self, entry: Entry) -> bool:
        """Whether the tool is ready. Folders appear whole or not at all, so that names are enough to know."""
        folder = self.folder(entry)
        return all((folder / name).exists() for name in (METADATA, *entry.files))

    def get(self, entry: Entry, progress: Progress, *, number: int = 1, of: int = 1) -> Path:
        """The tool's folder, built first when it is missing; of several runs at once one builds and the others wait.

        Args:
            entry: the tool.
            progress: told only when there is something to do.
            number: position among the tools that are missing, from 1.
            of: how many are missing.

        Raises:
            ToolError: the tool cannot be had; nothing half-made is left.
        """
        if self.has(entry):
            return self.folder(entry)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise tool_error(entry.title, f"the folder {self.root} cannot be made", str(error)) from error
        progress.start(Step(number, of, entry.title, entry.doing))
        outcome = "failed"
        try:
            with self._locked(entry, progress):
                if self.has(entry):
                    outcome = "got ready by another run,"
                else:
                    self._build(entry, progress)
                    outcome = "ready"
        except (KeyboardInterrupt, SystemExit):
            outcome = "interrupted"
            raise
        finally:
            progress.finish(outcome)
        return self.folder(entry)

    @contextmanager
    def _locked(self, entry: Entry, progress: Progress) -> Generator[None]:
        """Hold the entry's lock, which the system releases too when this process dies."""
        lock = FileLock(self.root / f"{entry.folder_name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            progress.say(f"Another run is {entry.doing} {entry.title}: waiting for it.")
            lock.acquire(poll_interval=0.2)
        try:
            yield
        finally:
            lock.release()

    def _build(self, entry: Entry, progress: Progress) -> None:
        """Build in a folder beside, then rename; called under the entry's lock, so others are stale."""
        target = self.folder(entry)
        for stale in self.root.glob(f"{entry.folder_name}.tmp-*"):
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f"{entry.folder_name}.tmp-", dir=self.root))
        try:
            build = Build(work / "tool", work / "scratch", self.root / "logs" / f"{entry.folder_name}.log", progress)
            build.folder.mkdir()
            build.scratch.mkdir()
            build.log.parent.mkdir(exist_ok=True)
            build.log.unlink(missing_ok=True)
            began = time.time()
            entry.recipe(build)
            missing = [name for name in entry.files if not (build.folder / name).exists()]
            if missing:
                raise ToolError(f"{entry.title} cannot be got ready: {', '.join(missing)} did not come out of it.")
            facts = {**entry.inputs, **build.metadata, "seconds": str(round(time.time() - began, 1))}
            (build.folder / METADATA).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
            if target.exists():
                target.rename(work / "incomplete")
            build.folder.rename(target)
        except OSError as error:
            raise tool_error(entry.title, "a file cannot be written or read", str(error)) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
