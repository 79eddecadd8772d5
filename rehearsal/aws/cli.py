"""The AWS CLI for the kubectl and helm handlers: the real one (PyPI ``awscli``), loaded once and forked for each call.

The handlers call ``aws`` twice for every object that they apply, and starting it costs more than everything else that
they do. So a run has a server that has imported the CLI, and an ``aws`` on the Lambda functions' PATH that hands its
arguments, environment, folder and open files to a fork of it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from rehearsal.processes import Run, spawn, tail

START_WITHIN_S = 20
MODELS = ("eks", "sts", "ecr-public")
"""Services that the handlers call; their models are loaded before the first call."""

_PROGRAM = """#!{python} -IS
# The AWS CLI of one rehearsal: a fork of its server runs the call. See rehearsal/aws/cli.py.
import json, os, socket, struct, sys

call = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
socket.send_fds(server, [struct.pack("!I", len(call))], [0, 1, 2])
server.sendall(call)
answer = server.recv(4, socket.MSG_WAITALL)
sys.exit(struct.unpack("!I", answer)[0] if len(answer) == 4 else "the server of the AWS CLI did not answer")
"""


class AwsCli:
    """The server of one run and the program that calls it.

    Args:
        run: whose it is.
    """

    def __init__(self, run: Run) -> None:
        self.folder = run.folder / "bin"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = run.logs / "aws-cli.log"
        # In Linux's abstract namespace, because a path may be too long for a socket's address and outlives a crash.
        address = f"\0eks-gpu-aws-{run.id}"
        program = self.folder / "aws"
        program.write_text(_PROGRAM.format(python=sys.executable, address=address))
        program.chmod(0o755)
        self._process: subprocess.Popen[bytes] = spawn(
            run, "aws-cli", [sys.executable, "-m", "rehearsal.aws.cli", run.id]
        )
        self._address = address

    def await_ready(self) -> None:
        """Return when calls are answered.

        Raises:
            RuntimeError: the server did not start; with the end of its log.
        """
        deadline = time.monotonic() + START_WITHIN_S
        while not _answers(self._address):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the AWS CLI could not be loaded:\n{tail(self._log)}")
            time.sleep(0.02)


def _answers(address: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(address) == 0


def serve(run_id: str) -> None:
    """Load the CLI, then fork for every call, until the process ends."""
    from awscli.clidriver import create_clidriver  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    driver: Any = create_clidriver()
    loader = driver.session.get_component("data_loader")
    for service in MODELS:
        for model in ("service-2", "endpoint-rule-set-1"):
            loader.load_service_model(service, model)
    for data in ("endpoints", "partitions", "sdk-default-configuration", "_retry"):
        loader.load_data(data)
    # Children are never waited for: each answers its caller by itself.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0eks-gpu-aws-{run_id}")
        listener.listen(64)
        while True:
            caller, _ = listener.accept()
            with caller:
                if os.fork() == 0:
                    listener.close()
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _serve_call(driver, caller)


def _serve_call(driver: Any, caller: socket.socket) -> None:
    """Be the CLI for one caller, and end this process."""
    code = 255
    try:
        head, files, _, _ = socket.recv_fds(caller, 4, 3)
        # Anybody on this machine can reach an abstract socket; only the owner of the run may use it.
        _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if len(files) != 3 or user != os.getuid():
            os._exit(code)
        arguments, environment, folder = json.loads(_read(caller, struct.unpack("!I", head)[0]))
        for standard, given in enumerate(files):
            os.dup2(given, standard)
            os.close(given)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        code = _run(driver, arguments)
    finally:
        caller.sendall(struct.pack("!I", code))
        os._exit(code)


def _run(driver: Any, arguments: Sequence[str]) -> int:
    """The CLI's exit code; what it printed is written out."""
    try:
        code = driver.main(list(arguments))
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else 0 if code is None else 1


def _read(caller: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = caller.recv(size - len(content))
        if not part:
            raise ConnectionError("the caller went away")
        content += part
    return content


if __name__ == "__main__":
    serve(sys.argv[1])
