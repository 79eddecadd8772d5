"""``python -m rehearsal.tools``: get everything ready, and say where it is."""

import dataclasses
import sys

from rehearsal.tools import ConsoleProgress, ToolError, get_tools, golang
from rehearsal.tools.commands import end_on_sigterm


def main() -> None:
    """Print one line per field of the toolbox of each Kubernetes version that is pinned."""
    end_on_sigterm()
    try:
        toolboxes = [get_tools(ConsoleProgress(), kubernetes=minor) for minor in golang.kubernetes_minors()]
    except ToolError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    for toolbox in toolboxes:
        print(f"Kubernetes {toolbox.kubernetes_minor}")
        for field in dataclasses.fields(toolbox):
            print(f"  {field.name}: {getattr(toolbox, field.name)}")


if __name__ == "__main__":
    main()
