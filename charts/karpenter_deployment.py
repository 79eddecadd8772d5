"""Karpenter's Deployment: where its pods run, as whom, and what they are told.

Source: karpenter-provider-aws v1.8.0 to v1.14.1, charts/karpenter/templates/deployment.yaml and values.yaml.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from configuration import Karpenter
from configuration.releases import (
    CAPACITY_BUFFER_SINCE,
    KARPENTER_IMAGE_DIGESTS,
    REFRESH_INTERVALS_SINCE,
    numbers,
)

NAME: Final = "karpenter"
"""Name of the Helm release that these objects stand for, and of most of them."""

METRICS_PORT: Final = 8080
HEALTH_PORT: Final = 8081

_REFRESH_INTERVAL: Final = "1m"
"""How often images and subnets are looked up: the chart's default, and the least that it allows."""


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """The cluster that Karpenter buys nodes for, as far as its controller must know it.

    Attributes:
        name: The EKS cluster.
        endpoint: URL of its API server, given to its nodes; may be a CDK token.
        region: AWS Region it is in.
        interruption_queue: Name of the SQS queue that interruptions are read from, may be a CDK token; empty to read
            none.
        node_groups: Managed node groups that the controller may run on; empty where they are not known, and then it
            may run on every node that it did not buy itself.
    """

    name: str
    endpoint: str
    region: str
    interruption_queue: str
    node_groups: Sequence[str]


def selector() -> dict[str, str]:
    """Return the labels by which the controller's pods are found."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}


def deployment(karpenter: Karpenter, cluster: ClusterFacts) -> dict[str, Any]:
    """Return the Deployment's `spec`."""
    return {
        "replicas": karpenter.replicas,
        "revisionHistoryLimit": 10,
        "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": selector()},
        "template": {
            "metadata": {"labels": selector()},
            "spec": {
                "automountServiceAccountToken": True,
                "serviceAccountName": karpenter.service_account,
                "securityContext": {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                "priorityClassName": "system-cluster-critical",
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "containers": [_container(karpenter, cluster)],
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "affinity": _affinity(cluster.node_groups),
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "topology.kubernetes.io/zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": selector()},
                    }
                ],
                "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
            },
        },
    }


def _affinity(node_groups: Sequence[str]) -> dict[str, Any]:
    """Keep the controller off the nodes that it may delete, on the known node groups, one pod a node."""
    expressions: list[dict[str, Any]] = [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
    if node_groups:
        expressions.append({"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": sorted(node_groups)})
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                # In one term: all must hold.
                "nodeSelectorTerms": [{"matchExpressions": expressions}]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector()}}
            ]
        },
    }


def _container(karpenter: Karpenter, cluster: ClusterFacts) -> dict[str, Any]:
    version = karpenter.version
    resources = {"cpu": karpenter.cpu, "memory": karpenter.memory}
    return {
        "name": "controller",
        "image": f"{karpenter.image_repository}:{version}@{KARPENTER_IMAGE_DIGESTS[version]}",
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "capabilities": {"drop": ["ALL"]},
        },
        "env": _environment(karpenter, cluster),
        "ports": [
            {"name": "http-metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "http", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": {
            "initialDelaySeconds": 30,
            "timeoutSeconds": 30,
            "httpGet": {"path": "/healthz", "port": "http"},
        },
        "readinessProbe": {
            "initialDelaySeconds": 5,
            "timeoutSeconds": 30,
            "httpGet": {"path": "/readyz", "port": "http"},
        },
        "resources": {"requests": resources, "limits": resources},
    }


def _environment(karpenter: Karpenter, cluster: ClusterFacts) -> list[dict[str, Any]]:
    """The container's environment, in the order of the chart's own."""

    def resource(name: str, which: str, divisor: str) -> dict[str, Any]:
        reference = {"containerName": "controller", "divisor": divisor, "resource": which}
        return {"name": name, "valueFrom": {"resourceFieldRef": reference}}

    fixed = {
        "KUBERNETES_MIN_VERSION": "1.19.0-0",
        "KARPENTER_SERVICE": NAME,
        "LOG_LEVEL": karpenter.settings.log_level,
        "LOG_OUTPUT_PATHS": "stdout",
        "LOG_ERROR_OUTPUT_PATHS": "stderr",
        "METRICS_PORT": str(METRICS_PORT),
        "HEALTH_PROBE_PORT": str(HEALTH_PORT),
    }
    return [
        *_texts(fixed),
        {"name": "SYSTEM_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        resource("CPU_REQUESTS", "requests.cpu", "1m"),
        resource("MEMORY_LIMIT", "limits.memory", "0"),
        *_texts(_settings(karpenter, cluster)),
    ]


def _settings(karpenter: Karpenter, cluster: ClusterFacts) -> dict[str, str]:
    """What the environment decides. What is off or empty is left out, as the chart does."""
    settings, release = karpenter.settings, numbers(karpenter.version)
    refresh = _REFRESH_INTERVAL if release >= REFRESH_INTERVALS_SINCE else ""
    told = {
        "FEATURE_GATES": ",".join(f"{gate}={str(on).lower()}" for gate, on in _feature_gates(karpenter).items()),
        "BATCH_MAX_DURATION": settings.batch_max_duration,
        "BATCH_IDLE_DURATION": settings.batch_idle_duration,
        "PREFERENCE_POLICY": settings.preference_policy,
        "MIN_VALUES_POLICY": settings.min_values_policy,
        "CLUSTER_NAME": cluster.name,
        "CLUSTER_ENDPOINT": cluster.endpoint,
        "ISOLATED_VPC": "true" if settings.isolated_vpc else "",
        # Zero is said too: the chart would leave the number 0 out, and the controller fall back to 0.075.
        "VM_MEMORY_OVERHEAD_PERCENT": str(settings.vm_memory_overhead_percent),
        "INTERRUPTION_QUEUE": cluster.interruption_queue,
        "ENABLE_ZONAL_SHIFT": "true" if settings.enable_zonal_shift else "",
        "RESERVED_ENIS": str(settings.reserved_enis),
        "IGNORE_DRA_REQUESTS": "true",
        "AMI_REFRESH_INTERVAL": refresh,
        "SUBNET_REFRESH_INTERVAL": refresh,
        # The chart leaves the Region to the SDK, whose last resort is the node's metadata service, and Karpenter stops
        # where that is out of reach (karpenter-provider-aws v1.14.1, pkg/operator/operator.go). It is known, so it is
        # said.
        "AWS_REGION": cluster.region,
    }
    return {name: value for name, value in told.items() if value}


def _feature_gates(karpenter: Karpenter) -> dict[str, bool]:
    """The gates of the release, in the order of the chart's own."""
    gates = karpenter.feature_gates
    switched = {
        "ReservedCapacity": gates.reserved_capacity,
        "SpotToSpotConsolidation": gates.spot_to_spot_consolidation,
        "NodeRepair": gates.node_repair,
        "NodeOverlay": gates.node_overlay,
        "StaticCapacity": gates.static_capacity,
    }
    if numbers(karpenter.version) >= CAPACITY_BUFFER_SINCE:
        switched["CapacityBuffer"] = gates.capacity_buffer
    return switched


def _texts(values: dict[str, str]) -> Iterator[dict[str, str]]:
    return ({"name": name, "value": value} for name, value in values.items())
