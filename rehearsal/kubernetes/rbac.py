"""RBAC objects kept equal to a given set, as the EKS service does for its access policies."""

from __future__ import annotations

from collections.abc import Sequence

from rehearsal.kubernetes.api import KubeApi, KubeError, Manifest

_KINDS = ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding")


def reconcile(api: KubeApi, objects: Sequence[Manifest], label: str) -> list[str]:
    """Make the RBAC objects that carry a label exactly these.

    Args:
        api: the cluster, as an administrator.
        objects: ClusterRoles, Roles, ClusterRoleBindings and RoleBindings, as manifests; the label is added to each.
        label: ``key=value``; objects that carry it and are not given are deleted, all others are left alone.

    Returns:
        Namespaces that do not exist yet and whose objects therefore could not be made; call again when they do. (On AWS
        an access policy with a namespace scope works from the moment the namespace exists.)

    Raises:
        ValueError: an object of another kind, or a label without a value.
        KubeError: the API server refused an object.
    """
    key, separator, value = label.partition("=")
    if not separator:
        raise ValueError(f"label must be key=value, is {label!r}")
    wanted: set[tuple[str, str, str]] = set()
    waiting: set[str] = set()
    for given in objects:
        if given["kind"] not in _KINDS:
            raise ValueError(f"not an RBAC object: {given['kind']} {given['metadata']['name']}")
        labels = {**given["metadata"].get("labels", {}), key: value}
        wanted.add(_identity(given))
        namespace = given["metadata"].get("namespace", "")
        if namespace and api.find("Namespace", namespace) is None:
            waiting.add(namespace)
        else:
            _apply(api, {**given, "metadata": {**given["metadata"], "labels": labels}})
    for kind in _KINDS:
        for found in api.list(kind, labels={key: value}):
            if _identity({**found, "kind": kind}) not in wanted:
                api.delete(kind, found["metadata"]["name"], found["metadata"].get("namespace"))
    return sorted(waiting)


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace") or "", metadata["name"]


def _apply(api: KubeApi, manifest: Manifest) -> None:
    """Apply one object; a binding whose role changes is replaced, because ``roleRef`` cannot be changed."""
    try:
        api.apply(manifest)
    except KubeError as error:
        if error.code != 422 or "roleRef" not in manifest:
            raise
        api.delete(manifest["kind"], manifest["metadata"]["name"], manifest["metadata"].get("namespace"))
        api.apply(manifest)
