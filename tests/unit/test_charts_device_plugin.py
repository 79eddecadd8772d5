"""The device plugin and what comes with it: what it is, and on which nodes it runs; without CDK."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from charts import DcgmExporterChart, DevicePluginChart
from charts.dcgm_exporter import METRICS, counters
from charts.gpu_nodes import classes_with_plugin
from configuration import Environment, GpuPool, NodeClass, Taint, load_environment

Objects = Mapping[str, dict[str, Any]]
Labels = Mapping[str, str]

ENVIRONMENTS = Path(__file__).parents[2] / "environments"
ON_NODES = [
    "nvidia-device-plugin",
    "nvidia-device-plugin-gpu-feature-discovery",
    "nvidia-device-plugin-mps-control-daemon",
    "nvidia-device-plugin-node-feature-discovery-worker",
]
AL2023_NODE = {
    "kubernetes.io/arch": "amd64",
    "karpenter.sh/nodepool": "gpus",
    "karpenter.k8s.aws/ec2nodeclass": "al2023",
    "karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia",
    "nvidia.com/gpu.present": "true",
}
BOTTLEROCKET_NODE = {**AL2023_NODE, "karpenter.k8s.aws/ec2nodeclass": "rocket"}
FOUND_BY_NFD = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def _by_name(chart: cdk8s.Chart) -> Objects:
    rendered: list[dict[str, Any]] = chart.to_json()
    return {
        "/".join(p for p in (o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) if p): o
        for o in rendered
    }


def _plugin(*taints: Taint, discovery: bool = True, with_plugin: Sequence[str] = ("rocket",)) -> Objects:
    return _by_name(
        DevicePluginChart(
            cdk8s.App(),
            "plugin",
            version="0.18.2",
            namespace="nvidia",
            taints=taints,
            feature_discovery=discovery,
            classes_with_plugin=with_plugin,
        )
    )


def _exporter(*taints: Taint) -> Objects:
    return _by_name(DcgmExporterChart(cdk8s.App(), "dcgm", version="4.8.2", namespace="nvidia", taints=taints))


def _pod(objects: Objects, name: str) -> dict[str, Any]:
    return objects[f"DaemonSet/nvidia/{name}"]["spec"]["template"]["spec"]


def _may_run(pod: Mapping[str, Any], labels: Labels) -> bool:
    """Whether the scheduler would let a pod onto a node, as far as labels decide it."""

    def holds(expression: Mapping[str, Any]) -> bool:
        there = labels.get(expression["key"]) in expression["values"]
        return there if expression["operator"] == "In" else not there

    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    selected = all(labels.get(key) == value for key, value in pod.get("nodeSelector", {}).items())
    return selected and any(all(holds(expression) for expression in term["matchExpressions"]) for term in terms)


def _tolerates(pod: Mapping[str, Any], taint: Taint) -> bool:
    def fits(toleration: Mapping[str, str]) -> bool:
        return (
            toleration.get("key") in (None, taint.key)
            and toleration.get("effect") in (None, taint.effect)
            and (toleration["operator"] == "Exists" or toleration.get("value", "") == (taint.value or ""))
        )

    return any(fits(toleration) for toleration in pod["tolerations"])


def test_s2_1_release_0_18_2_with_gpu_feature_discovery_in_namespace_nvidia() -> None:
    objects = _plugin()
    assert sorted(name for name in objects if name.startswith("DaemonSet/")) == [
        f"DaemonSet/nvidia/{name}" for name in ON_NODES
    ]
    images = {
        container["image"]
        for found in objects.values()
        if found["kind"] in ("DaemonSet", "Deployment")
        for part in ("initContainers", "containers")
        for container in found["spec"]["template"]["spec"].get(part, [])
    }
    assert images == {
        "nvcr.io/nvidia/k8s-device-plugin:v0.18.2",
        "registry.k8s.io/nfd/node-feature-discovery:v0.17.3",
    }
    namespaced = {found["metadata"].get("namespace") for found in objects.values()} - {None}
    assert namespaced == {"nvidia"}
    assert "Namespace/nvidia" in objects


def test_s2_1_the_workshop_has_gpu_feature_discovery(environment: Environment) -> None:
    plugin = environment.device_plugin
    assert (plugin.version, plugin.namespace, plugin.gpu_feature_discovery) == ("0.18.2", "nvidia", True)


def test_the_plugin_registers_gpus_with_the_kubelet() -> None:
    pod = _pod(_plugin(), "nvidia-device-plugin")
    (container,) = pod["containers"]
    assert pod["priorityClassName"] == "system-node-critical"
    assert container["name"] == "nvidia-device-plugin-ctr"
    assert container["command"] == ["nvidia-device-plugin"]
    assert {variable["name"]: variable["value"] for variable in container["env"]} == {
        "MPS_ROOT": "/run/nvidia/mps",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"] for volume in pod["volumes"]}
    assert mounts.keys() == paths.keys()
    assert mounts["kubelet-device-plugins-dir"] == "/var/lib/kubelet/device-plugins"
    assert paths["kubelet-device-plugins-dir"] == {"path": "/var/lib/kubelet/device-plugins", "type": "Directory"}


def test_what_gpu_feature_discovery_writes_the_worker_reads() -> None:
    objects = _plugin()
    writer, reader = (_pod(objects, name) for name in (ON_NODES[1], ON_NODES[3]))
    written = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in writer["volumes"]}
    read = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in reader["volumes"]}
    assert written["output-dir"] == read["features-d"].rstrip("/")
    assert (
        "nvidia.com"
        in objects["ConfigMap/nvidia/nvidia-device-plugin-node-feature-discovery-master-conf"]["data"][
            "nfd-master.conf"
        ]
    )


def test_without_feature_discovery_the_plugin_and_the_mps_daemon_are_all() -> None:
    assert sorted(_plugin(discovery=False)) == [
        "DaemonSet/nvidia/nvidia-device-plugin",
        "DaemonSet/nvidia/nvidia-device-plugin-mps-control-daemon",
        "Namespace/nvidia",
    ]


def test_every_daemon_set_finds_its_own_pods_alone() -> None:
    daemon_sets = [found for found in _plugin().values() if found["kind"] in ("DaemonSet", "Deployment")]
    assert len(daemon_sets) == 6
    for selecting in daemon_sets:
        wanted = selecting["spec"]["selector"]["matchLabels"].items()
        found = [other for other in daemon_sets if wanted <= other["spec"]["template"]["metadata"]["labels"].items()]
        assert found == [selecting]


@pytest.mark.parametrize("name", ON_NODES)
@pytest.mark.parametrize(
    ("node", "runs"),
    [
        pytest.param(AL2023_NODE, True, id="AL2023"),
        pytest.param({**AL2023_NODE, **FOUND_BY_NFD}, True, id="AL2023 and labelled"),
        pytest.param(BOTTLEROCKET_NODE, False, id="Bottlerocket"),
        pytest.param({**BOTTLEROCKET_NODE, **FOUND_BY_NFD}, False, id="Bottlerocket and labelled"),
        pytest.param({**AL2023_NODE, "eks.amazonaws.com/compute-type": "auto"}, False, id="Auto Mode"),
        pytest.param({"eks.amazonaws.com/compute-type": "auto", **FOUND_BY_NFD}, False, id="Auto Mode's own"),
        pytest.param({"eks.amazonaws.com/nodegroup": "ng-x86", "kubernetes.io/arch": "amd64"}, False, id="CPU"),
        pytest.param(
            {"karpenter.k8s.aws/ec2nodeclass": "al2023", "karpenter.sh/nodepool": "cpus"}, False, id="CPU pool"
        ),
    ],
)
def test_it_runs_on_gpu_nodes_whose_image_has_no_plugin(name: str, node: Labels, runs: bool) -> None:
    pod = _pod(_plugin(), name)
    # The MPS daemon is wanted on nodes that say so, and there by the same rule.
    labels = {**node, "nvidia.com/mps.capable": "true"} if "mps" in name else node
    assert _may_run(pod, labels) is runs


def test_the_mps_daemon_runs_where_a_node_shares_by_mps_alone() -> None:
    assert not _may_run(_pod(_plugin(), "nvidia-device-plugin-mps-control-daemon"), AL2023_NODE)


def test_where_no_image_has_the_plugin_no_class_is_left_out() -> None:
    pod = _pod(_plugin(with_plugin=[]), "nvidia-device-plugin")
    assert _may_run(pod, BOTTLEROCKET_NODE)
    assert "ec2nodeclass" not in str(pod["affinity"])


def test_bottlerockets_node_classes_are_those_with_the_plugin(environment: Environment) -> None:
    (some,) = [found for name, found in environment.node_classes.items() if name == "default"]

    def node_class(alias: str) -> NodeClass:
        return NodeClass.model_validate({**some.model_dump(), "ami_selector_terms": [{"alias": alias}]})

    classes = {
        "rocket": node_class("bottlerocket@v1.54.0"),
        "plain": node_class("al2023@v20260714"),
        "by-family": some.model_copy(update={"ami_family": "Bottlerocket"}),
    }
    assert classes_with_plugin(classes) == ["by-family", "rocket"]


@pytest.mark.parametrize("name", [*ON_NODES, "dcgm-exporter"])
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_any_taint_of_a_pool_is_tolerated_whatever_its_value(name: str, effect: Any) -> None:
    taint = Taint(key="gpu-workload", value="training", effect=effect)
    pod = _pod({**_plugin(taint), **_exporter(taint)}, name)
    assert pod["tolerations"] == [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "gpu-workload", "operator": "Exists", "effect": effect},
    ]


def test_the_same_taint_of_two_pools_is_tolerated_once() -> None:
    taint = Taint(key="nvidia.com/gpu", effect="NoSchedule")
    assert len(_pod(_plugin(taint, taint), "nvidia-device-plugin")["tolerations"]) == 2


@pytest.mark.parametrize("file", [path.stem for path in sorted(ENVIRONMENTS.glob("*.yaml"))])
def test_every_taint_of_every_gpu_pool_is_tolerated_by_all_that_its_nodes_need(file: str) -> None:
    environment = load_environment(file, ENVIRONMENTS)
    pools: Sequence[GpuPool] = environment.gpu_pools
    taints = [taint for pool in pools for taint in pool.taints]
    objects = {**_plugin(*taints), **_exporter(*taints)}
    for taint in taints:
        for name in (*ON_NODES, "dcgm-exporter"):
            assert _tolerates(_pod(objects, name), taint), (file, taint, name)


def test_the_kinds_of_node_feature_discovery_come_before_what_uses_them() -> None:
    chart = DevicePluginChart(
        cdk8s.App(), "plugin", version="0.18.2", namespace="nvidia", taints=[], feature_discovery=True
    )
    made = [found for found in chart.node.find_all() if isinstance(found, cdk8s.ApiObject)]
    definitions = {found.name for found in made if found.kind == "CustomResourceDefinition"}
    assert definitions == {
        "nodefeatures.nfd.k8s-sigs.io",
        "nodefeaturegroups.nfd.k8s-sigs.io",
        "nodefeaturerules.nfd.k8s-sigs.io",
    }
    workloads = [
        found for found in made if found.kind in ("DaemonSet", "Deployment") and "node-feature-discovery" in found.name
    ]
    assert len(workloads) == 3
    for workload in workloads:
        needed = {str(found.node.id) for found in workload.node.dependencies}
        assert {f"CustomResourceDefinition-{name}" for name in definitions} <= needed
        account = workload.to_json()["spec"]["template"]["spec"]["serviceAccountName"]
        assert f"ServiceAccount-nvidia-{account}" in needed


def test_the_exporter_runs_on_every_gpu_node_bottlerockets_too_and_on_no_other() -> None:
    pod = _pod(_exporter(), "dcgm-exporter")
    assert _may_run(pod, AL2023_NODE)
    assert _may_run(pod, BOTTLEROCKET_NODE)
    assert not _may_run(pod, {**AL2023_NODE, "eks.amazonaws.com/compute-type": "auto"})
    assert not _may_run(pod, {"eks.amazonaws.com/nodegroup": "ng-x86"})


def test_the_exporter_serves_metrics_at_port_9400() -> None:
    objects = _exporter()
    (container,) = _pod(objects, "dcgm-exporter")["containers"]
    assert container["image"] == "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"
    assert container["ports"] == [{"name": "metrics", "containerPort": 9400}]
    service = objects["Service/nvidia/dcgm-exporter"]["spec"]
    assert service["ports"] == [{"name": "metrics", "port": 9400, "targetPort": 9400, "protocol": "TCP"}]
    labels = objects["DaemonSet/nvidia/dcgm-exporter"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    # Prometheus Operator's kind: the API server does not know it where that is not installed.
    assert "ServiceMonitor" not in {found["kind"] for found in objects.values()}


def test_the_exporters_fields_have_three_columns_each() -> None:
    lines = counters().splitlines()
    assert len(lines) == len(METRICS)
    for line in lines:
        field, kind, _meaning = line.split(",")
        assert field.startswith(("DCGM_FI_DEV_", "DCGM_FI_PROF_"))
        assert kind.strip() in ("gauge", "counter")


def test_the_exporter_leaves_a_namespace_alone_that_another_chart_makes() -> None:
    chart = DcgmExporterChart(
        cdk8s.App(), "dcgm", version="4.8.2", namespace="nvidia", taints=[], create_namespace=False
    )
    assert "Namespace/nvidia" not in _by_name(chart)
    assert "Namespace/nvidia" in _exporter()


@pytest.mark.parametrize("namespace", ["kube-system", "default"])
def test_the_clusters_own_namespaces_are_not_made_and_so_not_deleted(namespace: str) -> None:
    app = cdk8s.App()
    plugin = DevicePluginChart(app, "plugin", version="0.18.2", namespace=namespace, taints=[])
    exporter = DcgmExporterChart(app, "dcgm", version="4.8.2", namespace=namespace, taints=[])
    for chart in (plugin, exporter):
        assert "Namespace" not in {found["kind"] for found in chart.to_json()}
