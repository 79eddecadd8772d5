"""The tools of a rehearsal: pinned, built or unpacked once per user, and handed over as paths."""

from rehearsal.tools.errors import ToolError
from rehearsal.tools.everything import get_tools, missing_tools
from rehearsal.tools.machine import preflight
from rehearsal.tools.progress import ConsoleProgress, Progress
from rehearsal.tools.toolbox import Toolbox

__all__ = ["ConsoleProgress", "Progress", "ToolError", "Toolbox", "get_tools", "missing_tools", "preflight"]
