"""The cloud of a run: one process that serves the local AWS and owns everything that runs behind it.

Started by the command line with the run's folder as its argument; ended by SIGTERM, by the end of its standard input
(whoever started it is gone) unless the word ``keep`` came first, or by a failure, and then it leaves nothing running.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, cast

import boto3

from rehearsal.aws import emulator
from rehearsal.aws.cli import AwsCli
from rehearsal.aws.emulator import Place
from rehearsal.aws.events import EventLog
from rehearsal.aws.registry import PUBLIC_ECR, Chart, Proxy, Registry
from rehearsal.aws.resources import Resources
from rehearsal.compute import AwsAccess, ClusterAccess, DataPlane, Notice
from rehearsal.compute.ec2 import Ec2Service, get_products
from rehearsal.kubernetes.authority import Authority
from rehearsal.kubernetes.control_plane import ControlPlane, ControlPlaneSpec
from rehearsal.processes import Run, spawn
from rehearsal.tools.toolbox import Toolbox

KEEP = b"keep\n"
"""Written to the cloud's standard input before it is closed, it makes the cloud outlive whoever started it."""

BOOT_S, SHUTDOWN_S = 0.5, 0.5
"""Seconds that a simulated instance takes to run and to be gone; tens of seconds on AWS."""


@dataclass(frozen=True)
class Request:
    """What a cloud is asked to be.

    Args:
        run: the run's id.
        account: twelve digits.
        region: default region of the local AWS.
        tools: what it runs.
    """

    FILE: ClassVar[str] = "request.json"

    run: str
    account: str
    region: str
    tools: Toolbox

    def write(self, folder: Path) -> None:
        """Leave the request in the run's folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.FILE).write_text(json.dumps(asdict(self), default=str, indent=2))

    @classmethod
    def read(cls, folder: Path) -> Request:
        """The request in the run's folder."""
        data: dict[str, Any] = json.loads((folder / cls.FILE).read_text())
        versions = {"kubernetes_version", "karpenter_version"}
        tools: dict[str, Any] = data.pop("tools")
        tools = {name: value if name in versions else Path(value) for name, value in tools.items()}
        return cls(tools=Toolbox(**tools), **data)


@dataclass(frozen=True)
class Access:
    """How a client reaches a running cloud.

    Args:
        endpoint: for ``AWS_ENDPOINT_URL``.
        account: twelve digits; the access key id of the root.
        secret: the root's secret access key.
        region: default region.
        pid: process id of the cloud.
    """

    FILE: ClassVar[str] = "access.json"

    endpoint: str
    account: str
    secret: str
    region: str
    pid: int

    def session(self) -> boto3.Session:
        """A session of the account's root."""
        return boto3.Session(self.account, self.secret, region_name=self.region)

    def client(self, service: str) -> Any:
        """A client of one service, as the account's root. Untyped: boto3's types need each name written out."""
        return _client(self, service)

    def environment(self) -> dict[str, str]:
        """What makes AWS clients talk to this cloud and to nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.account,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @classmethod
    def read(cls, folder: Path) -> Access | None:
        """The access that a cloud has left in its run's folder, or None while it is not ready."""
        file = folder / cls.FILE
        return cls(**json.loads(file.read_text())) if file.exists() else None


class Cloud:
    """The composition: local AWS, clusters, registry.

    Args:
        run: identity and folder of the run.
        request: what is asked for.
    """

    def __init__(self, run: Run, request: Request) -> None:
        self._run = run
        self._request = request
        self._tools = request.tools
        self._log = EventLog(run.folder / "events.jsonl")
        self._prices: dict[str, float] = json.loads(request.tools.on_demand_prices.read_text())

    async def serve(self) -> None:
        """Serve until SIGTERM, SIGINT or the end of standard input; everything is stopped when it returns."""
        loop = asyncio.get_running_loop()
        stopped = asyncio.Event()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, stopped.set)
        threading.Thread(target=_await_lifeline, args=(loop, stopped), daemon=True, name="lifeline").start()
        with ExitStack() as exits, socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            place = Place(
                port=listener.getsockname()[1],
                account=self._request.account,
                secret="rehearsal",  # noqa: S106 - guards nothing: loopback, and gone with the run
                region=self._request.region,
                temporary=Path(tempfile.gettempdir()),
            )
            cli = AwsCli(self._run)
            emulator.prepare(place, self._lambda_environment(exits, cli.folder))
            clusters = self._assemble(place)
            cli.await_ready()
            try:
                await emulator.serve(listener, lambda: self._announce(place), stopped.wait(), self._log)
            finally:
                await asyncio.to_thread(clusters.stop)

    def _assemble(self, place: Place) -> Any:
        emulator.check_contract()
        # Imported late: these read the environment that was just prepared.
        from rehearsal.aws.emulator import cloudformation, ec2, eks

        service = partial(Ec2Service, prices=self._prices, boot_seconds=BOOT_S, shutdown_seconds=SHUTDOWN_S)
        ec2.install(service, self._log, place.account, place.region, self._tools.kubernetes_minor)
        clusters = eks.Clusters(place.url, self._start_cluster(place), self._log)
        clusters.install()
        cloudformation.install(Resources(_access(place).client))
        emulator.add_json_service("pricing", lambda _, asked: get_products(asked, {place.region: self._prices}))
        emulator.add_json_service("ecr-public", _authorisation_token)
        return clusters

    def _start_cluster(self, place: Place) -> Any:
        from rehearsal.aws.emulator.eks import ClusterSpec

        def start(spec: ClusterSpec) -> Cluster:
            ours = self._tools.kubernetes_minor
            if spec.version != ours:
                raise ValueError(
                    f"the template asks for Kubernetes {spec.version}, this rehearsal has the control plane of {ours}"
                )
            plane = ControlPlane.start(
                self._run,
                self._tools,
                ControlPlaneSpec(
                    name=spec.name,
                    authentication_webhook_url=spec.token_webhook,
                    service_account_issuer=spec.issuer,
                    service_account_key_pem=spec.signing_key_pem,
                    service_cidr=spec.service_cidr,
                ),
            )
            data = DataPlane(
                self._run,
                self._tools,
                ClusterAccess(spec.name, plane.endpoint, plane.ca_pem, plane.kubeconfig),
                AwsAccess(place.url, spec.region, spec.account, place.account, place.secret),
                self._notice,
            )
            try:
                data.start()
            except BaseException:
                plane.stop()
                raise
            return Cluster(plane, data)

        return start

    def _notice(self, notice: Notice) -> None:
        self._log.write(notice.kind, notice.text, **notice.data)

    def _lambda_environment(self, exits: ExitStack, aws: Path) -> dict[str, str]:
        chart = Chart("karpenter/karpenter-crd", self._tools.karpenter_version, self._tools.karpenter_crd_chart)
        registry = Registry([chart], self._tools.helm, self._run.folder / "registry")
        authority = Authority("public registries (rehearsal)")
        certificate, key = authority.server(PUBLIC_ECR, [PUBLIC_ECR], []).save(self._run.folder / "registry", "server")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        proxy = Proxy(registry, tls, self._log)
        exits.callback(proxy.stop)
        trust = self._run.folder / "registry" / "ca.crt"
        trust.write_bytes(authority.certificate_pem)
        # The interpreter's own folder holds node. On AWS the handlers find the other three in their layers.
        path = [
            aws,
            self._tools.kubectl.parent,
            self._tools.helm.parent,
            Path(sys.executable).parent,
        ]
        return {
            "PATH": os.pathsep.join([*map(str, path), os.environ.get("PATH", os.defpath)]),
            "HTTPS_PROXY": proxy.url,
            "NO_PROXY": "localhost,127.0.0.1",
            "SSL_CERT_FILE": str(trust),
            "HOME": str(self._run.folder / "home"),
        }

    def _announce(self, place: Place) -> None:
        part = self._run.folder / f"{Access.FILE}.part"
        part.write_text(json.dumps(asdict(_access(place)), indent=2))
        part.rename(self._run.folder / Access.FILE)


class Cluster:
    """A control plane and the data plane behind it, as EKS holds them together."""

    def __init__(self, plane: ControlPlane, data: DataPlane) -> None:
        self._plane = plane
        self._data = data
        self.endpoint = plane.endpoint
        self.ca_pem = plane.ca_pem
        self.kubeconfig = plane.kubeconfig

    def namespaces(self) -> Sequence[str]:
        """Names of the cluster's namespaces."""
        return [namespace["metadata"]["name"] for namespace in self._plane.api.list("Namespace")]

    def reconcile(self, objects: Sequence[dict[str, Any]], label: str) -> object:
        """Make these RBAC objects so; see :meth:`ControlPlane.reconcile`."""
        return self._plane.reconcile(objects, label)

    def stop(self) -> None:
        """Stop the data plane, then the control plane."""
        self._data.stop()
        self._plane.stop()


@cache
def _client(access: Access, service: str) -> Any:
    # Kept: the model of a service takes longer to load than most calls take to answer.
    return cast("Any", access.session()).client(service, endpoint_url=access.endpoint)


def _access(place: Place) -> Access:
    return Access(place.url, place.account, place.secret, place.region, os.getpid())


def _authorisation_token(operation: str, _: dict[str, Any]) -> dict[str, Any]:
    """``GetAuthorizationToken`` of ECR Public: a token that the run's registry, which is open, never looks at."""
    if operation != "GetAuthorizationToken":
        raise ValueError(f"ECR Public: {operation} is not simulated")
    return {"authorizationData": {"authorizationToken": "QVdTOnJlaGVhcnNhbA==", "expiresAt": 4102444800}}


def _await_lifeline(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    """Stop the cloud when standard input ends, unless the last word on it was to keep it."""
    last = b""
    for line in sys.stdin.buffer:
        last = line
    if last != KEEP:
        loop.call_soon_threadsafe(stopped.set)


def main() -> None:
    """Be the cloud of the run whose folder is the first argument."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s [%(name)s] %(message)s")
    folder = Path(sys.argv[1])
    request = Request.read(folder)
    run = Run(request.run, folder)
    temporary = folder / "tmp"
    for needed in (temporary, folder / "home"):
        needed.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(temporary)
    # The janitor ends what is left when this process is gone; the kernel tells it by closing the pipe.
    janitor = spawn(run, "janitor", [sys.executable, "-m", "rehearsal.janitor", run.id], stdin=subprocess.PIPE)
    asyncio.run(Cloud(run, request).serve())
    logging.info("the cloud has stopped; janitor %d sweeps", janitor.pid)


if __name__ == "__main__":
    main()
