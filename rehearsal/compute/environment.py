"""The environment of a pod's container, as a kubelet makes it of the pod's manifest."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from rehearsal.compute.node import quantity
from rehearsal.compute.tree import at, items, mapping
from rehearsal.kubernetes.api import Manifest

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


class ContainerConfigError(Exception):
    """A container's environment cannot be made; a kubelet would say CreateContainerConfigError."""


def of_container(pod: Manifest, container: Mapping[str, Any], allocatable: Mapping[str, str]) -> dict[str, str]:
    """Variables of a container, in the order in which they are written, so that later ones may refer to earlier ones.

    Args:
        pod: the pod, for ``fieldRef``.
        container: one of its containers, for ``env`` and ``resourceFieldRef``.
        allocatable: of the node, which is what a limit that is not set means.

    Raises:
        ContainerConfigError: a variable comes from where nothing can be read here.
    """
    if items(container, "envFrom"):
        raise ContainerConfigError("envFrom is not simulated")
    found: dict[str, str] = {}
    for variable in items(container, "env"):
        name = str(variable["name"])
        source = mapping(variable, "valueFrom")
        if "fieldRef" in source:
            found[name] = _field(pod, str(at(source, "fieldRef", "fieldPath")))
        elif "resourceFieldRef" in source:
            found[name] = _resource(container, mapping(source, "resourceFieldRef"), allocatable)
        elif source:
            kind = next(iter(source))
            if not at(source, kind, "optional"):
                raise ContainerConfigError(f"variable {name}: {kind} is not simulated")
        else:
            found[name] = _expanded(str(variable.get("value") or ""), found)
    return found


def of_role(service_account: Manifest, token_file: str, region: str) -> dict[str, str]:
    """What EKS's pod identity webhook adds for a service account with an IAM role; nothing without that annotation."""
    role = mapping(service_account, "metadata", "annotations").get(ROLE_ANNOTATION)
    if not role:
        return {}
    return {
        "AWS_ROLE_ARN": str(role),
        "AWS_WEB_IDENTITY_TOKEN_FILE": token_file,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
    }


def _expanded(text: str, known: Mapping[str, str]) -> str:
    """``$(NAME)`` is replaced where NAME is known, ``$$`` stands for a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return known.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def _field(pod: Manifest, path: str) -> str:
    if match := _SUBSCRIPT.match(path):
        return str(mapping(pod, "metadata", match[1]).get(match[2], ""))
    if path not in {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.podIP",
    }:
        raise ContainerConfigError(f"fieldRef {path} is not simulated")
    return str(at(pod, *path.split(".")) or "")


def _resource(container: Mapping[str, Any], reference: Mapping[str, Any], allocatable: Mapping[str, str]) -> str:
    """A request or a limit in units of the divisor, rounded up."""
    kind, _, resource = str(reference.get("resource")).partition(".")
    value = at(container, "resources", kind, resource)
    if value is None and kind == "limits":
        value = allocatable.get(resource)
    divisor = quantity(reference.get("divisor") or "1") or 1.0
    # Rounded before it is rounded up: 0.25 / 0.001 is a little more than 250.
    return str(math.ceil(round(quantity(value or "0") / divisor, 6)))
