"""From a chart's objects to resources of a stack."""

from collections.abc import Sequence
from typing import Any, Final, cast

import cdk8s
from aws_cdk import CfnResource
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

OBJECT_METADATA: Final = "eks-gpu:object"
"""Key of a resource's metadata that holds its object as a tree.

The kubectl handler wants the object as one line of JSON, and `cdk diff` shows a changed line whole, twice. Of metadata
it shows the fields that changed.
"""


def apply_chart(scope: Construct, cluster: eks.ICluster, chart: cdk8s.Chart) -> Sequence[eks.KubernetesManifest]:
    """Make every object of a chart a resource of its own.

    So a change of one object is one line of `cdk diff`, and moving an object between files deletes nothing. The
    resource is named after the object's kind, namespace and name: an object that moves to another namespace is another
    resource, and the old one is deleted.

    Args:
        scope: Where the resources go.
        cluster: The cluster they are applied to.
        chart: The objects. CDK tokens in them are kept.

    Returns:
        The resources, in the order of the chart's objects. All but the Namespaces wait for the chart's Namespaces, and
        each waits for what its object depends on in the chart.
    """
    # Every attribute of a construct is a call to another process: each is read once.
    objects = [child for child in chart.node.find_all() if isinstance(child, cdk8s.ApiObject)]
    nodes = [child.node for child in objects]
    manifests = [cast("dict[str, Any]", child.to_json()) for child in objects]
    resources = {
        node.path: _resource(scope, cluster, manifest) for node, manifest in zip(nodes, manifests, strict=True)
    }
    is_namespace = [manifest["kind"] == "Namespace" for manifest in manifests]
    namespaces = [resource for resource, first in zip(resources.values(), is_namespace, strict=True) if first]
    for node, resource, first in zip(nodes, resources.values(), is_namespace, strict=True):
        needed = [resources[other.node.path] for other in node.dependencies]
        before = needed if first else [*namespaces, *needed]
        if before:
            resource.node.add_dependency(*before)
    return list(resources.values())


def _resource(scope: Construct, cluster: eks.ICluster, manifest: dict[str, Any]) -> eks.KubernetesManifest:
    resource = eks.KubernetesManifest(scope, _name(manifest), cluster=cluster, manifest=[manifest])
    custom = resource.node.find_child("Resource").node.default_child
    cast("CfnResource", custom).add_metadata(OBJECT_METADATA, manifest)
    return resource


def _name(manifest: dict[str, Any]) -> str:
    metadata = manifest["metadata"]
    return "-".join(part for part in (manifest["kind"], metadata.get("namespace"), metadata["name"]) if part)
