"""Karpenter's Deployment: where its pods run, as whom, and what they are told.

Source: karpenter-provider-aws, branch release-v1.14.1, charts/karpenter/templates/deployment.yaml and values.yaml.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

NAME: Final = "karpenter"
"""Name of the Helm release that these objects stand for, and of most of them."""

METRICS_PORT: Final = 8080
HEALTH_PORT: Final = 8081

FEATURE_GATES: Final = {
    "ReservedCapacity": True,
    "SpotToSpotConsolidation": False,
    "NodeRepair": False,
    "NodeOverlay": False,
    "StaticCapacity": False,
    "CapacityBuffer": False,
}
"""The chart's own defaults (values.yaml, settings.featureGates)."""


@dataclass(frozen=True, kw_only=True)
class KarpenterSettings:
    """What the controller is told.

    Attributes:
        version: Release, such as 1.14.1.
        image_digest: `sha256:...` of that release's image.
        namespace: Namespace it runs in.
        service_account: Service account it runs as.
        role_arn: IAM role of that service account.
        replicas: Number of pods.
        cpu: CPU requested and limited per pod, a Kubernetes quantity.
        memory: Memory requested and limited per pod, a Kubernetes quantity.
        node_groups: Managed node groups it may run on.
        region: AWS Region it works in.
        cluster_name: The EKS cluster it buys nodes for.
        cluster_endpoint: URL of that cluster's API server, given to its nodes.
        interruption_queue: Name of the SQS queue it reads interruptions from.
    """

    version: str
    image_digest: str
    namespace: str
    service_account: str
    role_arn: str
    replicas: int
    cpu: str
    memory: str
    node_groups: Sequence[str]
    region: str
    cluster_name: str
    cluster_endpoint: str
    interruption_queue: str


def selector() -> dict[str, str]:
    """Return the labels by which the controller's pods are found."""
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}


def deployment(settings: KarpenterSettings) -> dict[str, Any]:
    """Return the Deployment's `spec`."""
    return {
        "replicas": settings.replicas,
        "revisionHistoryLimit": 10,
        "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": selector()},
        "template": {
            "metadata": {"labels": selector()},
            "spec": {
                "automountServiceAccountToken": True,
                "serviceAccountName": settings.service_account,
                "securityContext": {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
                "priorityClassName": "system-cluster-critical",
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "containers": [_container(settings)],
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "affinity": _affinity(settings.node_groups),
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
    """Keep the controller off the nodes that it may delete, on the managed node groups, one pod a node."""
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"},
                            {"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": sorted(node_groups)},
                        ]
                    }
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector()}}
            ]
        },
    }


def _container(settings: KarpenterSettings) -> dict[str, Any]:
    resources = {"cpu": settings.cpu, "memory": settings.memory}
    return {
        "name": "controller",
        "image": f"public.ecr.aws/karpenter/controller:{settings.version}@{settings.image_digest}",
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
        "env": _environment(settings),
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


def _environment(settings: KarpenterSettings) -> list[dict[str, Any]]:
    """The container's environment, in the order of the chart's own."""
    gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in FEATURE_GATES.items())

    def text(name: str, value: str) -> dict[str, Any]:
        return {"name": name, "value": value}

    def resource(name: str, which: str, divisor: str) -> dict[str, Any]:
        reference = {"containerName": "controller", "divisor": divisor, "resource": which}
        return {"name": name, "valueFrom": {"resourceFieldRef": reference}}

    return [
        text("KUBERNETES_MIN_VERSION", "1.19.0-0"),
        text("KARPENTER_SERVICE", NAME),
        text("LOG_LEVEL", "info"),
        text("LOG_OUTPUT_PATHS", "stdout"),
        text("LOG_ERROR_OUTPUT_PATHS", "stderr"),
        text("METRICS_PORT", str(METRICS_PORT)),
        text("HEALTH_PROBE_PORT", str(HEALTH_PORT)),
        {"name": "SYSTEM_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        resource("CPU_REQUESTS", "requests.cpu", "1m"),
        resource("MEMORY_LIMIT", "limits.memory", "0"),
        text("FEATURE_GATES", gates),
        text("BATCH_MAX_DURATION", "10s"),
        text("BATCH_IDLE_DURATION", "1s"),
        text("PREFERENCE_POLICY", "Respect"),
        text("MIN_VALUES_POLICY", "Strict"),
        text("CLUSTER_NAME", settings.cluster_name),
        text("CLUSTER_ENDPOINT", settings.cluster_endpoint),
        text("VM_MEMORY_OVERHEAD_PERCENT", "0.075"),
        text("INTERRUPTION_QUEUE", settings.interruption_queue),
        text("RESERVED_ENIS", "0"),
        text("IGNORE_DRA_REQUESTS", "true"),
        text("AMI_REFRESH_INTERVAL", "1m"),
        text("SUBNET_REFRESH_INTERVAL", "1m"),
        # The chart leaves the Region to the SDK, whose last resort is the node's metadata service, and Karpenter stops
        # where that is out of reach (karpenter-provider-aws v1.14.1, pkg/operator/operator.go). It is known, so it is
        # said.
        text("AWS_REGION", settings.region),
    ]
