# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""The one place that touches MiniStack's insides. Everything else talks to AWS's API, as any client would.

What is touched is listed in :mod:`rehearsal.aws.emulator.contract` and checked when the emulator starts.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.aws.events import EventLog

JsonOperation = Callable[[str, dict[str, Any]], dict[str, Any]]
"""Operation name and request -> answer, of a service with the protocol AWS JSON 1.1."""


@dataclass(frozen=True)
class Place:
    """Where the emulation is and whom it serves.

    Args:
        port: on loopback.
        account: twelve digits; also the access key id of its root.
        secret: the root's secret access key.
        region: default region.
        temporary: folder for what Lambda functions write.
    """

    port: int
    account: str
    secret: str
    region: str
    temporary: Path

    @property
    def url(self) -> str:
        """Endpoint for AWS clients. By name: clients put bucket names before it, which an address does not bear."""
        return f"http://localhost:{self.port}"


def prepare(place: Place, lambda_environment: Mapping[str, str]) -> None:
    """Set what MiniStack reads from the environment; before anything imports it.

    Args:
        place: see :class:`Place`.
        lambda_environment: more variables for Lambda functions, which run as local processes and inherit these.
    """
    outbox = place.temporary / "lambda"
    outbox.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        {
            "GATEWAY_PORT": str(place.port),
            "MINISTACK_HOST": "localhost",
            "MINISTACK_REGION": place.region,
            "MINISTACK_ACCOUNT_ID": place.account,
            "AUTH": "true",
            "AWS_ACCESS_KEY_ID": place.account,
            "AWS_SECRET_ACCESS_KEY": place.secret,
            "AWS_DEFAULT_REGION": place.region,
            "LAMBDA_EXECUTOR": "local",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "TMPDIR": str(place.temporary),
            # The kubectl handler writes its files there; the default, /tmp, would be shared by all runs.
            "TEST_OUTDIR": str(outbox),
            **lambda_environment,
        }
    )
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        os.environ.pop(name, None)


def check_contract() -> None:
    """Refuse a MiniStack whose insides have moved.

    Raises:
        RuntimeError: with everything that is not where it was.
    """
    from rehearsal.aws.emulator import contract

    breaches = contract.breaches()
    if breaches:
        raise RuntimeError("this version of MiniStack is not the one that was read: " + "; ".join(breaches))


def add_json_service(name: str, operations: JsonOperation) -> None:
    """Serve one more AWS JSON 1.1 service under its signing name."""
    from ministack import app

    async def handle(
        method: str, path: str, headers: Mapping[str, str], body: bytes, query_params: Mapping[str, Any]
    ) -> tuple[int, dict[str, str], bytes]:
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        answer = await asyncio.to_thread(operations, operation, json.loads(body or b"{}"))
        return 200, {"Content-Type": "application/x-amz-json-1.1"}, json.dumps(answer).encode()

    app.SERVICE_HANDLERS[name] = handle


async def serve(listener: socket.socket, ready: Callable[[], None], stopped: Awaitable[Any], log: EventLog) -> None:
    """Serve the emulation until ``stopped`` is done.

    Args:
        listener: a bound socket on loopback.
        ready: called when requests are answered.
        stopped: ends the serving.
        log: the run's events.
    """
    from hypercorn.asyncio import serve as hypercorn_serve
    from hypercorn.config import Config
    from ministack.app import app

    from rehearsal.aws.emulator import authorisation, iam, pod_identity, sts

    authorisation.install(log)
    iam.install(log)
    sts.install(log)
    pod_identity.install(log)
    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.keep_alive_timeout = 75
    config.graceful_timeout = 1
    config.accesslog = None

    async def until_stopped() -> None:
        await stopped

    async def announce() -> None:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            except OSError:
                await asyncio.sleep(0.02)
                continue
            writer.close()
            ready()
            # What a deploy asks first, loaded while the client that asks for it starts.
            for service in ("iam", "s3", "ecr", "ssm", "lambda_svc", "sqs", "eventbridge", "cloudwatch_logs", "kms"):
                await asyncio.to_thread(importlib.import_module, f"ministack.services.{service}")
            return

    announcement = asyncio.create_task(announce())
    await hypercorn_serve(app, config, shutdown_trigger=until_stopped)  # pyright: ignore[reportArgumentType]
    announcement.cancel()
