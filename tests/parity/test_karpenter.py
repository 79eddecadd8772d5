"""Karpenter's objects are those of upstream's chart, in the newest release of every minor version."""

from __future__ import annotations

from typing import Any

import cdk8s
import pytest

from charts import ClusterFacts, KarpenterChart
from configuration import Environment, Karpenter
from configuration.releases import KARPENTER_IMAGE_DIGESTS, numbers
from rehearsal.tools.charts import KARPENTER_CHARTS
from tests.parity.comparison import Meant, compare
from tests.parity.conftest import Render

ROLE = "arn:aws:iam::111122223333:role/controller"
CLUSTER = ClusterFacts(
    name="gpus",
    endpoint="https://cluster.example",
    region="us-west-2",
    interruption_queue="gpus",
    node_groups=["ng-arm", "ng-x86"],
)
FOREIGN = ClusterFacts(
    name="gpus", endpoint="https://cluster.example", region="us-west-2", interruption_queue="", node_groups=[]
)

REGION = "The Region is known, so it is said: without it the controller asks the node's metadata service, one hop off."


def _meant(karpenter: Karpenter) -> list[Meant]:
    """The differences that are meant, with their reasons."""
    tag = "The chart in a tag carries an older release's version; the job that publishes it puts the right one in."
    env = r"spec\.template\.spec\.containers\[0\]\.env\[\d+\]"
    rows = [
        Meant("*", r"metadata\.labels\.helm\.sh/chart", tag, ours=f"karpenter-{karpenter.version}"),
        Meant("*", r"metadata\.labels\.app\.kubernetes\.io/version", tag, ours=karpenter.version),
        Meant("*", r"metadata\.labels\.app\.kubernetes\.io/managed-by", "Helm manages none of these.", ours="cdk8s"),
        Meant("Deployment/*", rf"{env}\.name", REGION, ours="AWS_REGION"),
        Meant("Deployment/*", rf"{env}\.value", REGION, ours=CLUSTER.region),
    ]
    if karpenter.namespace != "kube-system":
        rows.append(Meant("Namespace/*", r"\(object\)", "Helm makes it by a flag; among manifests it has to be one."))
    return rows


CHANGES: dict[str, dict[str, Any]] = {
    "roles for service accounts": {},
    "pod identity in kube-system": {"credentials": "pod-identity", "namespace": "kube-system"},
    "every switch turned": {
        "service_account": "controller",
        "replicas": 3,
        "feature_gates": {
            "spot_to_spot_consolidation": True,
            "node_repair": True,
            "reserved_capacity": False,
            "node_overlay": True,
            "static_capacity": True,
        },
        "settings": {
            "batch_max_duration": "30s",
            "batch_idle_duration": "3s",
            "preference_policy": "Ignore",
            "min_values_policy": "BestEffort",
            "isolated_vpc": True,
            "vm_memory_overhead_percent": 0.0,
            "reserved_enis": 1,
            "log_level": "debug",
        },
    },
    "zonal shift": {"settings": {"enable_zonal_shift": True}},
    "capacity buffers": {"feature_gates": {"capacity_buffer": True}},
    "image from a mirror": {"image_repository": "123456789012.dkr.ecr.us-west-2.amazonaws.com/karpenter/controller"},
    "foreign cluster": {"cpu": "500m", "memory": "512Mi"},
}
SINCE = {"zonal shift": (1, 12), "capacity buffers": (1, 14)}

CASES = [
    pytest.param(version, change, id=f"{version}-{change}")
    for version in KARPENTER_CHARTS
    for change in CHANGES
    if numbers(version) >= SINCE.get(change, (0,))
]


def _values(karpenter: Karpenter, cluster: ClusterFacts, role_arn: str | None) -> dict[str, Any]:
    """What a user of upstream's chart writes for the same. Numbers are quoted: the chart takes a bare 0 for unset."""
    resources = {"cpu": karpenter.cpu, "memory": karpenter.memory}
    gates, settings = karpenter.feature_gates, karpenter.settings
    values: dict[str, Any] = {
        "serviceAccount": {"name": karpenter.service_account},
        "replicas": karpenter.replicas,
        "logLevel": settings.log_level,
        "controller": {
            "image": {
                "repository": karpenter.image_repository,
                "tag": karpenter.version,
                "digest": KARPENTER_IMAGE_DIGESTS[karpenter.version],
            },
            "resources": {"requests": resources, "limits": resources},
        },
        "settings": {
            "clusterName": cluster.name,
            "clusterEndpoint": cluster.endpoint,
            "interruptionQueue": cluster.interruption_queue,
            "featureGates": gates.model_dump(by_alias=True),
            **settings.model_dump(by_alias=True, exclude={"log_level", "vm_memory_overhead_percent", "reserved_enis"}),
            "vmMemoryOverheadPercent": str(settings.vm_memory_overhead_percent),
            "reservedENIs": str(settings.reserved_enis),
        },
    }
    if role_arn:
        values["serviceAccount"]["annotations"] = {"eks.amazonaws.com/role-arn": role_arn}
    if cluster.node_groups:
        expressions = [
            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"},
            {"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": list(cluster.node_groups)},
        ]
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        values["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return values


@pytest.mark.parametrize(("version", "change"), CASES)
def test_the_objects_are_upstreams(version: str, change: str, environment: Environment, render: Render) -> None:
    karpenter = Karpenter.model_validate({**environment.karpenter.model_dump(), "version": version, **CHANGES[change]})
    cluster = FOREIGN if change == "foreign cluster" else CLUSTER
    role = ROLE if karpenter.credentials == "irsa" else None
    chart = KarpenterChart(cdk8s.App(), "karpenter", karpenter=karpenter, cluster=cluster, role_arn=role)
    upstream = render(
        KARPENTER_CHARTS[version],
        release="karpenter",
        namespace=karpenter.namespace,
        values=_values(karpenter, cluster, role),
    )
    compared = compare(chart.to_json(), upstream, _meant(karpenter))
    assert compared.objects == 13
    print(f"{compared.objects} objects, {compared.fields} fields, {compared.meant} meant")
