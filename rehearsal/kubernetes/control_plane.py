"""Starts and stops the control plane of one cluster.

What EKS gives a cluster at its birth is here: the four default namespaces, RBAC's bootstrap roles, a scheduler and a
controller manager with identities of their own. What EKS installs into a new cluster unless told otherwise (Amazon VPC
CNI, kube-proxy, CoreDNS) is not: pods have no network here, because every process stands on this machine. There is no
connection to a kubelet either, so that ``kubectl logs`` and ``kubectl exec`` do not work.
"""

from __future__ import annotations

import http.client
import ipaddress
import os
import ssl
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rehearsal.kubernetes import commands, kubeconfig, rbac
from rehearsal.kubernetes.api import KubeApi, Manifest
from rehearsal.kubernetes.authority import Authority, Identity, write_private
from rehearsal.processes import Run, free_port, spawn, stop, tail
from rehearsal.tools.toolbox import Toolbox

_READY_WITHIN_S = 60.0
"""Seconds a control plane may take; on two idle cores it takes about two."""


class ControlPlaneError(Exception):
    """The control plane could not be started, or died; the message ends with the tail of the log that explains it."""


@dataclass(frozen=True)
class ControlPlaneSpec:
    """What a control plane is made from.

    Args:
        name: the cluster's name; names its folder and its logs.
        authentication_webhook_url: asked with a TokenReview (v1) for each bearer token that is no service account's.
        service_account_issuer: ``iss`` of service-account tokens; the cluster's OIDC issuer on EKS.
        service_account_key_pem: RSA private key that signs them; the issuer's keys document has its public half.
        service_cidr: addresses of Services.
    """

    name: str
    authentication_webhook_url: str
    service_account_issuer: str
    service_account_key_pem: bytes
    service_cidr: str = "172.20.0.0/16"


class ControlPlane:
    """A running control plane; made by :meth:`start` alone.

    Attributes:
        endpoint: ``https://localhost:<port>``.
        ca_pem: the certificate with which clients know the API server.
        kubeconfig: an administrator's (group ``system:masters``), by client certificate.
    """

    def __init__(self, run: Run, spec: ControlPlaneSpec, port: int) -> None:
        self._run = run
        self._name = spec.name
        self._port = port
        self._processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self.folder = run.folder / "clusters" / spec.name / "control-plane"
        self.endpoint = f"https://localhost:{port}"
        self._authority = Authority(f"{spec.name} (rehearsal)")
        self.ca_pem = self._authority.certificate_pem
        self._admin = self._authority.client("kubernetes-admin", ["system:masters"])
        self.kubeconfig = self._kubeconfig("admin", self._admin)

    @classmethod
    def start(cls, run: Run, tools: Toolbox, spec: ControlPlaneSpec) -> ControlPlane:
        """Start the four processes and return when the API server is ready and all of them are alive.

        Raises:
            ControlPlaneError: one of them could not be started or died, or the API server was not ready in time;
                nothing is left running then.
        """
        plane = cls(run, spec, free_port())
        try:
            plane._start(tools, spec)
        except BaseException:
            plane.stop()
            raise
        return plane

    def _start(self, tools: Toolbox, spec: ControlPlaneSpec) -> None:
        etcd = commands.Etcd(self.folder / "etcd", client_port=free_port(), peer_port=free_port())
        self._spawn("etcd", etcd.command(tools.etcd))
        ca = write_private(self.folder / "ca.crt", self.ca_pem)
        key = write_private(self.folder / "service-account.key", spec.service_account_key_pem)
        certificate, certificate_key = self._server_identity(spec.service_cidr).save(self.folder, "kube-apiserver")
        webhook = kubeconfig.for_webhook(
            self.folder / "token-webhook.kubeconfig", name=spec.name, url=spec.authentication_webhook_url
        )
        api_server = commands.ApiServer(
            port=self._port,
            etcd_url=etcd.url,
            ca=ca,
            certificate=certificate,
            certificate_key=certificate_key,
            service_account_key=key,
            service_account_issuer=spec.service_account_issuer,
            service_cidr=spec.service_cidr,
            token_webhook=webhook,
        )
        self._spawn("kube-apiserver", api_server.command(tools.kube_apiserver))
        # The controller manager gives up where RBAC's bootstrap roles do not exist; /readyz says that they do.
        self._await_ready()
        for name, command in (
            ("kube-scheduler", commands.scheduler(tools.kube_scheduler, self._component("kube-scheduler"))),
            (
                "kube-controller-manager",
                commands.controller_manager(
                    tools.kube_controller_manager,
                    self._component("kube-controller-manager"),
                    cluster=spec.name,
                    ca=ca,
                    service_account_key=key,
                ),
            ),
        ):
            self._spawn(name, command)
        self._await_controllers()

    def check(self) -> None:
        """Raise :class:`ControlPlaneError` where one of the processes has ended."""
        for name, process in self._processes:
            if process.poll() is not None:
                raise ControlPlaneError(
                    f"{name} of cluster {self._name} ended with exit code {process.returncode}:\n"
                    + tail(self._run.logs / f"{self._log(name)}.log")
                )

    @cached_property
    def api(self) -> KubeApi:
        """The cluster as its administrator."""
        return KubeApi(self.kubeconfig, manager="eks")

    def reconcile(self, objects: Sequence[Manifest], label: str) -> list[str]:
        """Make the RBAC objects that carry ``label`` exactly ``objects``; see :func:`.rbac.reconcile`."""
        return rbac.reconcile(self.api, objects, label)

    def stop(self) -> None:
        """End all processes; none is left when it returns. May be called twice."""
        if "api" in self.__dict__:
            self.api.close()
            del self.__dict__["api"]
        processes = [process for _, process in reversed(self._processes)]
        for process in processes[:-1]:
            if process.poll() is None:
                process.terminate()
        for process in processes:
            # Nothing is worth a slow farewell: the state goes with the run.
            stop(process, grace_s=2)

    def _spawn(self, name: str, command: Sequence[str | Path]) -> None:
        # Clean environment: nothing of the caller's (proxies, AWS credentials) has any business in a control plane.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)}
        try:
            process = spawn(self._run, self._log(name), command, env=environment)
        except OSError as error:
            raise ControlPlaneError(f"{name} of cluster {self._name} cannot be started: {error}") from error
        self._processes.append((name, process))

    def _log(self, name: str) -> str:
        return f"{self._name}-{name}"

    def _kubeconfig(self, name: str, identity: Identity) -> Path:
        path = self.folder / f"{name}.kubeconfig"
        return kubeconfig.by_certificate(
            path, name=self._name, endpoint=self.endpoint, ca_pem=self.ca_pem, identity=identity
        )

    def _component(self, name: str) -> Path:
        return self._kubeconfig(name, self._authority.client(f"system:{name}"))

    def _server_identity(self, service_cidr: str) -> Identity:
        first = next(ipaddress.ip_network(service_cidr).hosts())
        service = "kubernetes.default.svc"
        names = ["localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local"]
        return self._authority.server("kube-apiserver", names, ["127.0.0.1", "::1", str(first)])

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        answer = "no answer"
        while time.monotonic() < deadline:
            self.check()
            status, answer = self._get("/readyz?verbose=true")
            if status == 200:
                return
            time.sleep(0.05)
        raise ControlPlaneError(
            f"the API server of cluster {self._name} was not ready after {_READY_WITHIN_S:.0f} s:\n{answer}\n"
            + tail(self._run.logs / f"{self._log('kube-apiserver')}.log")
        )

    def _await_controllers(self) -> None:
        """Wait for the first thing that each new cluster needs from its controllers: the default service account."""
        deadline = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < deadline:
            self.check()
            status, _ = self._get("/api/v1/namespaces/default/serviceaccounts/default")
            if status == 200:
                self.check()
                return
            time.sleep(0.05)
        raise ControlPlaneError(
            f"the controller manager of cluster {self._name} did nothing for {_READY_WITHIN_S:.0f} s:\n"
            + tail(self._run.logs / f"{self._log('kube-controller-manager')}.log")
        )

    def _get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPSConnection("localhost", self._port, timeout=5, context=self._tls)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode(errors="replace")
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        certificate, key = self._admin.save(self.folder, "admin")
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        context.load_cert_chain(certificate, key)
        return context
