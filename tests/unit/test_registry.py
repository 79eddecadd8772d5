"""The registry answers a pull as the OCI distribution specification says, and the proxy leads nowhere else."""

import hashlib
import http.client
import io
import json
import ssl
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.aws.events import EventLog
from rehearsal.aws.registry import PUBLIC_ECR, Chart, Proxy, Registry
from rehearsal.kubernetes.authority import Authority


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """A registry with one chart, packed by something that stands for helm."""
    chart = tmp_path / "karpenter-crd"
    chart.mkdir()
    archive = tmp_path / "packed" / "karpenter-crd-1.2.3.tgz"
    archive.parent.mkdir()
    content = b"name: karpenter-crd\nversion: 1.2.3\n"
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("karpenter-crd/Chart.yaml")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
    helm = tmp_path / "helm"
    helm.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    helm.chmod(helm.stat().st_mode | stat.S_IEXEC)
    return Registry([Chart("karpenter/karpenter-crd", "1.2.3", chart)], helm, archive.parent)


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(tmp_path / "events.jsonl")


@pytest.fixture
def connection(registry: Registry, log: EventLog, tmp_path: Path) -> Iterator[http.client.HTTPSConnection]:
    """A client that trusts the run's authority and goes through the proxy."""
    authority = Authority("test")
    certificate, key = authority.server(PUBLIC_ECR, [PUBLIC_ECR], []).save(tmp_path, "server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    proxy = Proxy(registry, tls, log)
    port = int(proxy.url.rpartition(":")[2])
    trust = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=5)
    connection.set_tunnel(PUBLIC_ECR, 443)
    yield connection
    connection.close()
    proxy.stop()


def _get(connection: http.client.HTTPSConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def test_the_chart_is_packed_under_the_asked_version(registry: Registry, tmp_path: Path) -> None:
    assert "--version 1.2.3 --app-version 1.2.3" in (tmp_path / "asked").read_text()
    assert registry.holdings() == ["karpenter/karpenter-crd:1.2.3"]


def test_a_pull_gets_manifest_and_blobs_that_match_their_digests(connection: http.client.HTTPSConnection) -> None:
    assert _get(connection, "/v2/")[0] == 200
    status, body = _get(connection, "/v2/karpenter/karpenter-crd/manifests/1.2.3")
    manifest = json.loads(body)
    assert status == 200
    assert manifest["layers"][0]["mediaType"] == "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    for part in (manifest["config"], manifest["layers"][0]):
        status, blob = _get(connection, f"/v2/karpenter/karpenter-crd/blobs/{part['digest']}")
        assert status == 200
        assert f"sha256:{hashlib.sha256(blob).hexdigest()}" == part["digest"]
        assert len(blob) == part["size"]


def test_a_chart_that_is_not_there_is_named_with_those_that_are(
    connection: http.client.HTTPSConnection, log: EventLog
) -> None:
    assert _get(connection, "/v2/karpenter/karpenter-crd/manifests/9.9.9")[0] == 404
    (event,) = log.read()
    assert event.kind == "chart-missing"
    assert "karpenter/karpenter-crd:9.9.9" in event.text
    assert "karpenter/karpenter-crd:1.2.3" in event.text


def test_no_other_host_is_reached(connection: http.client.HTTPSConnection, log: EventLog) -> None:
    connection.set_tunnel("example.com", 443)
    with pytest.raises(OSError, match="no internet in a rehearsal"):
        _get(connection, "/")
    (event,) = log.read()
    assert event.kind == "host-refused"
    assert "example.com:443" in event.text
