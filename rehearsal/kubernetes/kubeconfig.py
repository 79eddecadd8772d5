"""Kubeconfig files, the form in which every client of a cluster gets its address and its identity."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rehearsal.kubernetes.authority import Identity, write_private


def by_certificate(path: Path, *, name: str, endpoint: str, ca_pem: bytes, identity: Identity) -> Path:
    """Write a kubeconfig whose user is known by a client certificate, and return its path."""
    user = {"client-certificate-data": _base64(identity.certificate_pem), "client-key-data": _base64(identity.key_pem)}
    return _write(path, name, _cluster(endpoint, ca_pem), user)


def by_token_file(path: Path, *, name: str, endpoint: str, ca_pem: bytes, token_file: Path) -> Path:
    """Write a kubeconfig whose user is known by a token in a file (clients read it again as it changes)."""
    return _write(path, name, _cluster(endpoint, ca_pem), {"tokenFile": str(token_file)})


def for_webhook(path: Path, *, name: str, url: str) -> Path:
    """Write the file with which an API server is told where its token webhook listens, and return its path."""
    return _write(path, name, {"server": url}, {})


def _cluster(endpoint: str, ca_pem: bytes) -> Mapping[str, Any]:
    return {"server": endpoint, "certificate-authority-data": _base64(ca_pem)}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _write(path: Path, name: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
