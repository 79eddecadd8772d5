"""The control plane's files and command lines, and RBAC kept equal to a set; nothing is started here."""

from __future__ import annotations

import base64
import stat
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from rehearsal.kubernetes import commands, kubeconfig, rbac
from rehearsal.kubernetes.api import KubeApi, KubeError, Manifest
from rehearsal.kubernetes.authority import Authority


def test_client_certificate_carries_user_and_groups() -> None:
    identity = Authority("ca").client("kubernetes-admin", ["system:masters"])

    subject = x509.load_pem_x509_certificate(identity.certificate_pem).subject

    assert [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["kubernetes-admin"]
    assert [name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


def test_server_certificate_is_signed_by_the_authority() -> None:
    authority = Authority("ca")
    identity = authority.server("api", ["localhost"], ["127.0.0.1"])

    certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate_pem))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


def test_kubeconfig_is_private_and_names_its_cluster(tmp_path: Path) -> None:
    path = kubeconfig.by_token_file(
        tmp_path / "config", name="demo", endpoint="https://localhost:1", ca_pem=b"ca", token_file=tmp_path / "token"
    )

    document = yaml.safe_load(path.read_text())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert document["current-context"] == "demo"
    assert base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]) == b"ca"
    assert document["users"][0]["user"] == {"tokenFile": str(tmp_path / "token")}


def test_every_port_of_the_control_plane_is_on_loopback_or_closed() -> None:
    path = Path("/x")
    etcd = commands.Etcd(path, client_port=1, peer_port=2).command(path)
    server = commands.ApiServer(3, "http://127.0.0.1:1", path, path, path, path, "http://issuer", "10.0.0.0/16", path)
    api = server.command(path)
    manager = commands.controller_manager(path, path, cluster="demo", ca=path, service_account_key=path)

    assert all("127.0.0.1" in str(part) for part in etcd if "listen" in str(part))
    assert "--bind-address=127.0.0.1" in api
    assert "--api-audiences=http://issuer,https://kubernetes.default.svc" in api
    for command in (manager, commands.scheduler(path, path)):
        assert "--secure-port=0" in command


class FakeApi:
    """An API server that remembers RBAC objects and refuses to change a binding's role, as the real one does."""

    def __init__(self, namespaces: list[str]) -> None:
        self.namespaces = namespaces
        self.objects: dict[tuple[str, str | None, str], Manifest] = {}

    def find(self, kind: str, name: str) -> Manifest | None:
        """Only namespaces can be found."""
        return {} if kind == "Namespace" and name in self.namespaces else None

    def apply(self, manifest: Manifest) -> None:
        """Server-side apply."""
        metadata = manifest["metadata"]
        key = (manifest["kind"], metadata.get("namespace"), metadata["name"])
        old = self.objects.get(key)
        if old and old.get("roleRef") != manifest.get("roleRef"):
            raise KubeError(422, "roleRef is immutable")
        self.objects[key] = manifest

    def list(self, kind: str, *, labels: dict[str, str]) -> list[Manifest]:
        """By label."""
        return [
            found
            for (of_kind, _, _), found in self.objects.items()
            if of_kind == kind and labels.items() <= found["metadata"]["labels"].items()
        ]

    def delete(self, kind: str, name: str, namespace: str | None) -> None:
        """Of one that exists."""
        del self.objects[(kind, namespace, name)]


def binding(name: str, role: str, namespace: str | None = None) -> Manifest:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {"kind": kind, "metadata": metadata, "roleRef": {"name": role}}


def test_reconcile_adds_replaces_and_prunes_only_its_own() -> None:
    api = FakeApi(["default"])
    client = cast("KubeApi", api)
    api.apply({"kind": "ClusterRoleBinding", "metadata": {"name": "theirs", "labels": {}}, "roleRef": {}})

    waiting = rbac.reconcile(client, [binding("a", "view"), binding("b", "edit", "later")], "eks=managed")
    assert waiting == ["later"]
    assert rbac.reconcile(client, [binding("a", "edit"), binding("c", "edit", "default")], "eks=managed") == []
    roles = {key[2]: found["roleRef"].get("name") for key, found in api.objects.items()}
    assert roles == {"theirs": None, "a": "edit", "c": "edit"}

    rbac.reconcile(client, [], "eks=managed")
    assert [name for _, _, name in api.objects] == ["theirs"]


def test_reconcile_refuses_other_kinds_and_labels_without_value() -> None:
    client = cast("KubeApi", FakeApi([]))

    with pytest.raises(ValueError, match="not an RBAC object: Pod x"):
        rbac.reconcile(client, [{"kind": "Pod", "metadata": {"name": "x"}}], "eks=managed")
    with pytest.raises(ValueError, match="key=value"):
        rbac.reconcile(client, [], "managed")
