"""A registry for Helm charts that answers under the name of public ECR.

The helm handler's Lambda pulls ``oci://public.ecr.aws/...`` with the real helm. Its connection goes through the proxy
here (``HTTPS_PROXY``), which answers for the registries that it holds with a certificate of the run's own authority
(``SSL_CERT_FILE``) and refuses every other host: nothing leaves the machine. The charts come out of pinned Go modules.

Protocol: OCI distribution specification 1.1, the part that a pull needs; media types of Helm's documentation,
"Use OCI-based registries".
"""

from __future__ import annotations

import hashlib
import json
import ssl
import subprocess
import tarfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from rehearsal.aws.events import EventLog

PUBLIC_ECR = "public.ecr.aws"


@dataclass(frozen=True)
class Chart:
    """A chart that the registry answers for.

    Args:
        repository: path in the registry, for example ``karpenter/karpenter-crd``.
        version: the tag, and the version written into the chart. The folder's own is not used: the charts inside
            Karpenter's modules carry the version of the release before (karpenter-provider-aws v1.14.1,
            ``hack/release/common.sh`` sets it at publication).
        folder: the chart, unpacked.
    """

    repository: str
    version: str
    folder: Path

    def pack(self, helm: Path, into: Path) -> Path:
        """Pack the chart with the real helm; returns the archive.

        Raises:
            RuntimeError: helm refused, with its words.
        """
        command: list[str | Path] = [helm, "package", self.folder, "--destination", into]
        command += ["--version", self.version, "--app-version", self.version]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"helm could not pack the chart {self.folder}: {done.stderr.strip()}")
        return into / f"{self.repository.rpartition('/')[2]}-{self.version}.tgz"


class Registry:
    """The charts as manifests and blobs.

    Args:
        charts: what can be pulled.
        helm: packs them.
        folder: where the archives are written.
    """

    def __init__(self, charts: Iterable[Chart], helm: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._blobs: dict[str, bytes] = {}
        self._manifests: dict[tuple[str, str], str] = {}
        for chart in charts:
            archive = chart.pack(helm, folder)
            layer = self._blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive.read_bytes())
            config = self._blob("application/vnd.cncf.helm.config.v1+json", json.dumps(_metadata(archive)).encode())
            manifest = json.dumps(
                {
                    "schemaVersion": 2,
                    "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": config,
                    "layers": [layer],
                }
            ).encode()
            digest = self._blob("", manifest)["digest"]
            self._manifests[chart.repository, chart.version] = digest
            self._manifests[chart.repository, digest] = digest

    def manifest(self, repository: str, reference: str) -> tuple[str, bytes] | None:
        """Digest and content of a manifest, by tag or digest; None where there is none."""
        digest = self._manifests.get((repository, reference))
        return (digest, self._blobs[digest]) if digest else None

    def blob(self, digest: str) -> bytes | None:
        """Content of a blob; None where there is none."""
        return self._blobs.get(digest)

    def holdings(self) -> list[str]:
        """What can be pulled, as ``repository:tag``."""
        return sorted(f"{name}:{tag}" for name, tag in self._manifests if not tag.startswith("sha256:"))

    def _blob(self, media_type: str, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._blobs[digest] = content
        return {"mediaType": media_type, "digest": digest, "size": len(content)}


class Proxy:
    """The only way out of a Lambda of the run, and it leads to the registry alone.

    Args:
        registry: answers for public ECR.
        tls: server context whose certificate is for public ECR.
        log: the run's events; every refused host and missing chart is written there.
    """

    def __init__(self, registry: Registry, tls: ssl.SSLContext, log: EventLog) -> None:
        self._server = _Server(registry, tls, log)
        self._thread = threading.Thread(target=self._server.serve_forever, name="registry-proxy", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Value for ``HTTPS_PROXY``."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """The proxy's socket, and what its handlers work with."""

    daemon_threads = True

    def __init__(self, registry: Registry, tls: ssl.SSLContext, log: EventLog) -> None:
        super().__init__(("127.0.0.1", 0), _ProxyHandler)
        self.registry = registry
        self.tls = tls
        self.log = log


class _Handler(BaseHTTPRequestHandler):
    """What both handlers share."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - always started by ours

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what matters is written to the run's events."""


class _ProxyHandler(_Handler):
    """One CONNECT: to the registry, or refused."""

    def do_CONNECT(self) -> None:
        """Answer as the named host, or refuse it."""
        host = self.path.partition(":")[0]
        if host != PUBLIC_ECR:
            said = f"a Lambda function tried to reach {self.path}: a rehearsal has no internet"
            self.server.log.write("host-refused", said)
            self.send_error(502, f"no internet in a rehearsal: {host}")
            return
        self.send_response(200, "Connection established")
        self.end_headers()
        with self.server.tls.wrap_socket(self.connection, server_side=True) as connection:
            _RegistryHandler(connection, self.client_address, self.server)
        self.close_connection = True


class _RegistryHandler(_Handler):
    """Requests to the registry, on a connection that the proxy has decrypted."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Answer without a body."""
        self._answer(with_body=False)

    def do_GET(self) -> None:
        """Answer."""
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        status, body, media_type, digest = self._find(path)
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _find(self, path: str) -> tuple[int, bytes, str, str]:
        """Status, body, media type and digest of what stands at a path."""
        registry = self.server.registry
        repository, kind, reference = _parts(path)
        if path.rstrip("/") == "/v2":
            return 200, b"{}", "application/json", ""
        if kind == "manifests":
            found = registry.manifest(repository, reference)
            if found:
                return 200, found[1], "application/vnd.oci.image.manifest.v1+json", found[0]
            asked, held = f"{PUBLIC_ECR}/{repository}:{reference}", ", ".join(registry.holdings())
            self.server.log.write("chart-missing", f"a rehearsal has no {asked}; it has: {held}")
        blob = registry.blob(reference) if kind == "blobs" else None
        if blob is not None:
            return 200, blob, "application/octet-stream", reference
        error = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": f"not in this rehearsal: {path}"}]}
        return 404, json.dumps(error).encode(), "application/json", ""


def _metadata(archive: Path) -> dict[str, Any]:
    """Chart.yaml of a packed chart."""
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"):
                file = packed.extractfile(member)
                if file is not None:
                    return yaml.safe_load(file)
    raise RuntimeError(f"no Chart.yaml in {archive}")


def _parts(path: str) -> tuple[str, str, str]:
    """``/v2/<repository>/<kind>/<reference>`` in its parts; empty ones where it is something else."""
    for kind in ("manifests", "blobs"):
        head, separator, reference = path.rpartition(f"/{kind}/")
        if separator and head.startswith("/v2/"):
            return head.removeprefix("/v2/"), kind, reference
    return "", "", ""
