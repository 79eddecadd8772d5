"""The Kubernetes API as this package uses it: objects are plain dictionaries, as in a manifest.

The one place that knows the client library. Its methods are generic over classes of resources that a type checker
cannot follow, so the client is held as ``Any`` here, and everything that leaves this module is typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from lightkube import ApiError, Client, KubeConfig, generic_resource
from lightkube.codecs import from_dict
from lightkube.resources import apps_v1, core_v1, rbac_authorization_v1
from lightkube.types import PatchType

Manifest = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

_GENERIC: Any = generic_resource

_KINDS: Mapping[str, Any] = {
    "ClusterRole": rbac_authorization_v1.ClusterRole,
    "ClusterRoleBinding": rbac_authorization_v1.ClusterRoleBinding,
    "ConfigMap": core_v1.ConfigMap,
    "DaemonSet": apps_v1.DaemonSet,
    "Deployment": apps_v1.Deployment,
    "EC2NodeClass": _GENERIC.create_global_resource("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"),
    "Event": core_v1.Event,
    "Namespace": core_v1.Namespace,
    "Node": core_v1.Node,
    "NodeClaim": _GENERIC.create_global_resource("karpenter.sh", "v1", "NodeClaim", "nodeclaims"),
    "NodePool": _GENERIC.create_global_resource("karpenter.sh", "v1", "NodePool", "nodepools"),
    "NodeStatus": core_v1.NodeStatus,
    "Pod": core_v1.Pod,
    "PodStatus": core_v1.PodStatus,
    "Role": rbac_authorization_v1.Role,
    "RoleBinding": rbac_authorization_v1.RoleBinding,
    "ServiceAccount": core_v1.ServiceAccount,
}

_CLUSTER_SCOPED = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "EC2NodeClass", "Namespace", "Node", "NodeClaim", "NodePool"}
)


class KubeError(Exception):
    """The API server refused a call or could not be reached.

    Attributes:
        code: HTTP status, 0 where no answer came.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def absent(self) -> bool:
        """True where the object, or its namespace, does not exist."""
        return self.code == 404

    @property
    def conflict(self) -> bool:
        """True where the object exists already, or has changed meanwhile."""
        return self.code == 409


class KubeApi:
    """A client of one cluster, safe to share between threads.

    Args:
        kubeconfig: whose identity to use.
        manager: the name that owns the fields this client sets (``metadata.managedFields``).
    """

    def __init__(self, kubeconfig: Path, *, manager: str) -> None:
        # trust_env: a proxy meant for the internet must never see a call to loopback.
        self._client: Any = Client(KubeConfig.from_file(kubeconfig), field_manager=manager, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def list(self, kind: str, *, labels: Mapping[str, str] | None = None) -> list[Manifest]:
        """All objects of a kind, in every namespace."""
        scope = {} if kind in _CLUSTER_SCOPED else {"namespace": "*"}
        return [
            item.to_dict()
            for item in _answered(lambda: list(self._client.list(_KINDS[kind], labels=dict(labels or {}), **scope)))
        ]

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest:
        """One object."""
        return _answered(lambda: self._client.get(_KINDS[kind], name, **_scope(namespace))).to_dict()

    def find(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """One object, or None where it does not exist."""
        try:
            return self.get(kind, name, namespace)
        except KubeError as error:
            if error.absent:
                return None
            raise

    def create(self, manifest: Manifest) -> Manifest:
        """Create an object."""
        return _answered(lambda: self._client.create(_decoded(manifest))).to_dict()

    def apply(self, manifest: Manifest) -> Manifest:
        """Create or change an object by server-side apply, taking over fields that others own."""
        return _answered(lambda: self._client.apply(_decoded(manifest), force=True)).to_dict()

    def patch(self, kind: str, name: str, patch: Manifest, namespace: str | None = None) -> Manifest:
        """Change an object by a strategic merge patch; kinds ``NodeStatus`` and ``PodStatus`` change the status."""
        return _answered(
            lambda: self._client.patch(_KINDS[kind], name, patch, patch_type=PatchType.STRATEGIC, **_scope(namespace))
        ).to_dict()

    def delete(self, kind: str, name: str, namespace: str | None = None, *, grace_period_s: int | None = None) -> None:
        """Delete an object; one that does not exist is as good as deleted."""
        try:
            _answered(lambda: self._client.delete(_KINDS[kind], name, grace_period=grace_period_s, **_scope(namespace)))
        except KubeError as error:
            if not error.absent:
                raise

    def service_account_token(
        self, name: str, namespace: str, *, audience: str | None, lifetime_s: int, pod: Manifest
    ) -> str:
        """A token of a service account, bound to a pod, as a kubelet asks for one (TokenRequest).

        Args:
            name: the service account.
            namespace: its namespace.
            audience: whom the token is meant for; the API server itself when None.
            lifetime_s: seconds of validity; the API server takes no less than 600.
            pod: the pod it stops being valid with.
        """
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        spec: Manifest = {"expirationSeconds": lifetime_s, "boundObjectRef": bound, "audiences": []}
        if audience is not None:
            spec["audiences"] = [audience]
        resource: Any = core_v1.ServiceAccountToken
        request = resource.from_dict({"metadata": {"name": name, "namespace": namespace}, "spec": spec})
        answer: Manifest = _answered(lambda: self._client.create(request, name, namespace=namespace)).to_dict()
        return str(answer["status"]["token"])


def _scope(namespace: str | None) -> dict[str, str]:
    return {} if namespace is None else {"namespace": namespace}


def _decoded(manifest: Manifest) -> Any:
    decode: Any = from_dict
    return decode(manifest)


def _answered(call: Callable[[], Any]) -> Any:
    """Make a call; whatever the client library raises leaves as a :class:`KubeError`."""
    try:
        return call()
    except ApiError as error:
        raise KubeError(int(error.status.code or 0), str(error.status.message)) from error
    except httpx2.HTTPStatusError as error:
        raise KubeError(error.response.status_code, str(error)) from error
    except httpx2.HTTPError as error:
        raise KubeError(0, f"the API server does not answer: {error}") from error
