"""``python -m rehearsal.tools``: get everything ready, and say where it is."""

import dataclasses
import sys

from rehearsal.tools import ConsoleProgress, ToolError, get_tools
from rehearsal.tools.commands import end_on_sigterm


def main() -> None:
    """Print one line per field of the toolbox."""
    end_on_sigterm()
    try:
        toolbox = get_tools(ConsoleProgress())
    except ToolError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    for field in dataclasses.fields(toolbox):
        print(f"{field.name}: {getattr(toolbox, field.name)}")


if __name__ == "__main__":
    main()
