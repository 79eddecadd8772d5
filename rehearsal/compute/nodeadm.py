"""What nodeadm makes of an instance's user data on an EKS optimised AMI of Amazon Linux 2023.

After awslabs/amazon-eks-ami, ``nodeadm/internal/configprovider/userdata.go`` (where the NodeConfig is found),
``internal/api/{merge,validation}.go`` (how several become one, what must be there) and the kubelet's own check of
``--node-labels`` (k8s.io/kubernetes, ``cmd/kubelet/app/options``).
"""

from __future__ import annotations

import base64
import binascii
import email
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from rehearsal.compute.tree import at, items, mapping

_MEDIA_TYPE = "application/node.eks.aws"
_API_GROUP = "node.eks.aws/"
_IMAGE_NAME = re.compile(
    r"^amazon-eks-node-al2023-(?P<arch>x86_64|arm64)-(?P<variant>[a-z]+)-(?P<kubernetes>\d+\.\d+)-v\d+$"
)
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    }
)
_KUBELET_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")


class NodeConfigError(Exception):
    """nodeadm or the kubelet would stop at this user data; the message says why."""


@dataclass(frozen=True)
class EksImage:
    """What the name of an EKS optimised AMI of Amazon Linux 2023 says.

    Args:
        architecture: ``x86_64`` or ``arm64``.
        variant: ``standard``, ``nvidia`` (has the driver) or ``neuron``.
        kubernetes: minor version of its kubelet, for example ``1.33``.
    """

    architecture: str
    variant: str
    kubernetes: str

    @classmethod
    def of(cls, name: str) -> EksImage | None:
        """Read a name; None where it is not such an image, so that there is no nodeadm on it."""
        match = _IMAGE_NAME.match(name)
        return None if match is None else cls(match["arch"], match["variant"], match["kubernetes"])


@dataclass(frozen=True)
class NodeConfig:
    """The NodeConfig of an instance, merged from all parts of its user data."""

    cluster_name: str
    endpoint: str
    certificate_authority: str
    cidr: str
    kubelet_config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kubelet_flags: Sequence[str] = ()
    local_storage: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every ``--node-labels`` flag, later ones first in rank.

        Raises:
            NodeConfigError: the kubelet would refuse one of them.
        """
        found: dict[str, str] = {}
        for flag in self.kubelet_flags:
            name, _, value = flag.partition("=")
            if name == "--node-labels":
                # systemd takes the quotes away, as a shell would.
                for pair in filter(None, "".join(shlex.split(value)).split(",")):
                    key, separator, label = pair.partition("=")
                    if not separator:
                        raise NodeConfigError(f"--node-labels: {pair!r} is not key=value")
                    found[key] = label
        refused = sorted(key for key in found if not _kubelet_may_set(key))
        if refused:
            raise NodeConfigError(f"the kubelet may not set the labels {', '.join(refused)} with --node-labels")
        return found


def parse(user_data: str) -> NodeConfig:
    """Read an instance's user data as nodeadm does.

    Args:
        user_data: base64, as DescribeInstanceAttribute answers it.

    Raises:
        NodeConfigError: there is no NodeConfig in it, or it lacks what nodeadm requires.
    """
    documents = [document for document in map(_decoded, _node_configs(user_data)) if document]
    if not documents:
        raise NodeConfigError("no NodeConfig (node.eks.aws) in its user data, so that nodeadm has nothing to do")
    merged: dict[str, Any] = {}
    flags: list[str] = []
    for document in documents:
        spec = mapping(document, "spec")
        flags.extend(str(flag) for flag in items(spec, "kubelet", "flags"))
        merged = _merge(merged, spec)
    cluster = mapping(merged, "cluster")
    for key in ("name", "apiServerEndpoint", "certificateAuthority", "cidr"):
        if not cluster.get(key):
            raise NodeConfigError(f"spec.cluster.{key} is missing in its NodeConfig")
    return NodeConfig(
        cluster_name=str(cluster["name"]),
        endpoint=str(cluster["apiServerEndpoint"]),
        certificate_authority=str(cluster["certificateAuthority"]),
        cidr=str(cluster["cidr"]),
        kubelet_config=mapping(merged, "kubelet", "config"),
        kubelet_flags=tuple(flags),
        local_storage=at(merged, "instance", "localStorage", "strategy"),
    )


def render(config: NodeConfig) -> str:
    """Write user data that :func:`parse` reads, as EKS does for managed node groups: one MIME part, not yet base64."""
    document = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": config.cluster_name,
                "apiServerEndpoint": config.endpoint,
                "certificateAuthority": config.certificate_authority,
                "cidr": config.cidr,
            },
            "kubelet": {"config": dict(config.kubelet_config), "flags": list(config.kubelet_flags)},
        },
    }
    return (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
        f"--//\nContent-Type: {_MEDIA_TYPE}\n\n{yaml.safe_dump(document, sort_keys=False)}\n--//--\n"
    )


def _node_configs(user_data: str) -> list[str]:
    """The parts that are a NodeConfig; the whole of it where it is not MIME multipart."""
    try:
        text = base64.b64decode(user_data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise NodeConfigError(f"its user data cannot be decoded: {error}") from error
    message = email.message_from_string(text)
    if not message.is_multipart():
        return [text]
    parts = [part for part in message.walk() if part.get_content_type() == _MEDIA_TYPE]
    return [str(part.get_payload()) for part in parts]


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        document: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NodeConfigError(f"its user data is not YAML: {error}") from error
    found = mapping(document)
    is_one = str(found.get("apiVersion", "")).startswith(_API_GROUP) and found.get("kind") == "NodeConfig"
    return found if is_one else None


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge; lists and scalars of ``over`` win."""
    merged = dict(base)
    for key, value in over.items():
        both = mapping(base, key) and mapping(over, key)
        merged[key] = _merge(mapping(base, key), mapping(over, key)) if both else value
    return merged


def _kubelet_may_set(label: str) -> bool:
    namespace, separator, _ = label.rpartition("/")
    if not separator or not re.search(r"(^|\.)(kubernetes\.io|k8s\.io)$", namespace):
        return True
    return label in _KUBELET_LABELS or any(
        namespace == allowed or namespace.endswith("." + allowed) for allowed in _KUBELET_NAMESPACES
    )
