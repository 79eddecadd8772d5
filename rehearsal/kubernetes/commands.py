"""Command lines of the control plane's programs. Every port that is opened is on loopback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Command = Sequence[str | Path]

_IN_CLUSTER_AUDIENCE = "https://kubernetes.default.svc"
_WEBHOOK_CACHE = "2s"
"""Short, so that a deleted access entry is felt at once."""


@dataclass(frozen=True)
class Etcd:
    """One etcd member that keeps nothing safe: its data dies with the run, so it never waits for the disk."""

    folder: Path
    client_port: int
    peer_port: int

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self.client_port}"

    def command(self, program: Path) -> Command:
        """The command line."""
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            program,
            f"--data-dir={self.folder}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ]


@dataclass(frozen=True)
class ApiServer:
    """The API server, as EKS runs it where that can be seen from outside.

    That is: Node and RBAC authorisation, a token webhook for IAM identities, service-account tokens of the cluster's
    OIDC issuer.
    """

    port: int
    etcd_url: str
    ca: Path
    certificate: Path
    certificate_key: Path
    service_account_key: Path
    service_account_issuer: str
    service_cidr: str
    token_webhook: Path

    def command(self, program: Path) -> Command:
        """The command line."""
        return [
            program,
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            # Loopback must not be advertised to pods, and nobody here reads the Endpoints of the Service kubernetes.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--etcd-servers={self.etcd_url}",
            f"--client-ca-file={self.ca}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.certificate_key}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--authentication-token-webhook-config-file={self.token_webhook}",
            "--authentication-token-webhook-version=v1",
            f"--authentication-token-webhook-cache-ttl={_WEBHOOK_CACHE}",
            f"--service-account-issuer={self.service_account_issuer}",
            f"--service-account-key-file={self.service_account_key}",
            f"--service-account-signing-key-file={self.service_account_key}",
            f"--api-audiences={self.service_account_issuer},{_IN_CLUSTER_AUDIENCE}",
            f"--service-cluster-ip-range={self.service_cidr}",
            "--profiling=false",
        ]


def scheduler(program: Path, kubeconfig: Path) -> Command:
    """The scheduler, without a port."""
    return [program, f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0", "--profiling=false"]


def controller_manager(
    program: Path, kubeconfig: Path, *, cluster: str, ca: Path, service_account_key: Path
) -> Command:
    """The controller manager, without a port; nodes come and go by an external cloud provider, as on EKS."""
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
        # Its 34 controllers make a service account each at their start; the default of 20 calls/s costs 4 s there.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--cluster-name={cluster}",
        "--cloud-provider=external",
        "--use-service-account-credentials=true",
        f"--root-ca-file={ca}",
        f"--service-account-private-key-file={service_account_key}",
    ]
