"""The janitor of a run: waits until the run's cloud is gone, however it went, and ends what it left running.

Its standard input is a pipe that only the cloud holds open. The kernel closes it when the cloud ends, also when it is
killed, so nothing has to be polled and nothing can be forgotten.
"""

from __future__ import annotations

import signal
import sys

from rehearsal.processes import end_all


def main() -> None:
    """Wait for the end of standard input, then end every process that carries the mark of the run named in ``argv``."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    end_all(sys.argv[1])


if __name__ == "__main__":
    main()
