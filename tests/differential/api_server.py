"""A real API server that knows Karpenter's CRDs, asked whether it would take an object."""

import base64
import http.client
import json
import re
import ssl
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rehearsal.kubernetes.control_plane import ControlPlane, ControlPlaneSpec
from rehearsal.processes import Run
from rehearsal.tools.toolbox import Toolbox

_ISSUER: Final = "https://issuer.invalid"
"""Of service-account tokens, which nobody here uses."""

_SERVED_WITHIN_S: Final = 30.0

_GROUPS: Final[Mapping[str, tuple[str, str]]] = {
    "NodePool": ("karpenter.sh/v1", "nodepools"),
    "EC2NodeClass": ("karpenter.k8s.aws/v1", "ec2nodeclasses"),
}


@dataclass(frozen=True)
class Verdict:
    """What the API server said to an object.

    Attributes:
        accepted: Whether it would take the object.
        message: Why not; empty where it would.
        causes: Every single reason, by the field that it is about.
    """

    accepted: bool
    message: str
    causes: Sequence[tuple[str, str]]


def read_crds(folder: Path) -> Mapping[str, dict[str, Any]]:
    """Read the CRDs of the chart `karpenter-crd` by kind, without the annotations that its values may add.

    Args:
        folder: The chart, unpacked.
    """
    crds: dict[str, dict[str, Any]] = {}
    for path in sorted((folder / "templates").glob("*.yaml")):
        crd = yaml.safe_load(re.sub(r"^\s*\{\{-.*\}\}\n", "", path.read_text(), flags=re.MULTILINE))
        crds[crd["spec"]["names"]["kind"]] = crd
    return crds


class ApiServer:
    """A control plane with Karpenter's CRDs, and one connection to it.

    Args:
        tools: What it is started from.
        folder: Where its state goes.
    """

    def __init__(self, tools: Toolbox, folder: Path) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        spec = ControlPlaneSpec(
            name="differential",
            authentication_webhook_url="http://127.0.0.1:9",
            service_account_issuer=_ISSUER,
            service_account_key_pem=pem,
        )
        self._plane = ControlPlane.start(Run("differential", folder), tools, spec)
        self._connection = http.client.HTTPSConnection(
            str(urlsplit(self._plane.endpoint).netloc), timeout=30, context=_tls(self._plane.kubeconfig)
        )
        self.crds = read_crds(tools.karpenter_crd_chart)
        for crd in self.crds.values():
            status, answer = self._call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            if status != 201:
                raise RuntimeError(f"a CRD was not taken: {answer}")
        self._await_served()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._plane.stop()

    def try_create(self, kind: str, spec: Any) -> Verdict:
        """Ask whether an object with this spec would be created; nothing is stored."""
        version, plural = _GROUPS[kind]
        return self._verdict("POST", f"/apis/{version}/{plural}", _object(kind, spec))

    def try_update(self, kind: str, before: Any, after: Any) -> Verdict:
        """Ask whether an object with one spec could be given another; it is created and deleted again."""
        version, plural = _GROUPS[kind]
        status, answer = self._call("POST", f"/apis/{version}/{plural}", _object(kind, before))
        if status != 201:
            raise RuntimeError(f"the object to update was not taken: {answer}")
        changed = _object(kind, after)
        changed["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"]
        try:
            return self._verdict("PUT", f"/apis/{version}/{plural}/mine", changed)
        finally:
            self._call("DELETE", f"/apis/{version}/{plural}/mine", None)

    def _verdict(self, method: str, path: str, content: Any) -> Verdict:
        status, answer = self._call(method, f"{path}?dryRun=All&fieldValidation=Strict", content)
        if status in (200, 201):
            return Verdict(True, "", ())
        if status not in (400, 422):
            raise RuntimeError(f"the API server answered {status}: {answer}")
        causes = answer.get("details", {}).get("causes", [])
        return Verdict(False, str(answer["message"]), [(cause["field"], cause["message"]) for cause in causes])

    def _call(self, method: str, path: str, content: Any) -> tuple[int, dict[str, Any]]:
        body = None if content is None else json.dumps(content).encode()
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def _await_served(self) -> None:
        """Wait until both kinds are served; their schemas are compiled after the CRDs are taken."""
        deadline = time.monotonic() + _SERVED_WITHIN_S
        while waiting := [kind for kind in _GROUPS if not self._served(kind)]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not served within {_SERVED_WITHIN_S:.0f} s: {', '.join(waiting)}")
            time.sleep(0.05)

    def _served(self, kind: str) -> bool:
        version, plural = _GROUPS[kind]
        self._connection.request("GET", f"/apis/{version}/{plural}")
        response = self._connection.getresponse()
        response.read()
        return response.status == 200


def _object(kind: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": _GROUPS[kind][0], "kind": kind, "metadata": {"name": "mine"}, "spec": spec}


def _tls(kubeconfig: Path) -> ssl.SSLContext:
    """TLS as the administrator whose kubeconfig this is."""
    content = yaml.safe_load(kubeconfig.read_text())
    (cluster,), (user,) = content["clusters"], content["users"]
    context = ssl.create_default_context(cadata=_decoded(cluster["cluster"]["certificate-authority-data"]).decode())
    with tempfile.NamedTemporaryFile() as both:  # the ssl module reads a client's identity from a file alone
        both.write(_decoded(user["user"]["client-certificate-data"]) + _decoded(user["user"]["client-key-data"]))
        both.flush()
        context.load_cert_chain(both.name)
    return context


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
