"""Adding objects to a chart."""

from collections.abc import Mapping
from typing import Any, Final

from cdk8s import ApiObject, ApiObjectMetadata, Chart, JsonPatch

CLUSTERS_OWN_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""Namespaces that every cluster has, and that nobody may delete (Kubernetes, "Initial namespaces")."""


def add_namespace(chart: Chart, name: str) -> None:
    """Add a namespace to a chart, unless it is one of the cluster's own: that would be deleted with the chart.

    Args:
        chart: Where it goes.
        name: The namespace.
    """
    if name not in CLUSTERS_OWN_NAMESPACES:
        add_object(chart, api_version="v1", kind="Namespace", name=name)


def add_object(
    chart: Chart,
    *,
    api_version: str,
    kind: str,
    name: str,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> ApiObject:
    """Add an object to a chart.

    Args:
        chart: Where it goes. It must have no namespace of its own: cdk8s would put it on cluster-scoped objects too.
        api_version: Such as `apps/v1`.
        kind: Such as `Deployment`.
        name: `metadata.name`.
        namespace: `metadata.namespace`; None for objects that belong to the whole cluster.
        labels: `metadata.labels`.
        annotations: `metadata.annotations`.
        body: Everything beside `metadata`: `spec`, `rules`, `subjects` and so on.

    Returns:
        The object.
    """
    scoped = f"{kind}-{namespace}-{name}" if namespace else f"{kind}-{name}"
    added = ApiObject(
        chart,
        scoped,
        api_version=api_version,
        kind=kind,
        metadata=ApiObjectMetadata(name=name, namespace=namespace, labels=labels, annotations=annotations),
    )
    for key, value in (body or {}).items():
        added.add_json_patch(JsonPatch.add(f"/{key}", value))
    return added
