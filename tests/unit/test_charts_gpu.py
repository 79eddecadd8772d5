"""The GPU pool, its node class, and the device plugin that must run on its nodes; without CDK."""

from typing import Any

import cdk8s
import pytest

from charts import DevicePluginChart, GpuPoolsChart, NodePlacement
from configuration import Environment, Taint

PLACEMENT = NodePlacement(cluster_name="gpus", role_name="KarpenterNodeRole-gpus", tags={"team": "vision"})


def _by_kind(chart: cdk8s.Chart) -> dict[str, dict[str, Any]]:
    rendered: list[dict[str, Any]] = chart.to_json()
    assert len({found["kind"] for found in rendered}) == len(rendered)
    return {found["kind"]: found for found in rendered}


def _plugin(*taints: Taint) -> dict[str, Any]:
    chart = DevicePluginChart(cdk8s.App(), "plugin", version="0.18.2", namespace="nvidia", taints=taints)
    return _by_kind(chart)["DaemonSet"]


@pytest.fixture(scope="module")
def pool(environment: Environment) -> dict[str, dict[str, Any]]:
    chart = GpuPoolsChart(
        cdk8s.App(),
        "pools",
        node_classes=environment.node_classes,
        pools=environment.gpu_pools,
        placement=PLACEMENT,
    )
    return _by_kind(chart)


def test_s0_9_the_pool(pool: dict[str, dict[str, Any]]) -> None:
    assert pool["NodePool"] == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu-pool"},
        "spec": {
            "template": {
                "metadata": {"labels": {"nvidia.com/gpu.present": "true"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["g", "p"]},
                        {
                            "key": "karpenter.k8s.aws/instance-gpu-manufacturer",
                            "operator": "In",
                            "values": ["nvidia"],
                        },
                        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]},
                        {
                            "key": "karpenter.k8s.aws/instance-family",
                            "operator": "NotIn",
                            "values": ["g3", "g3s", "g7", "p2"],
                        },
                    ],
                    "taints": [{"key": "gpu-workload", "effect": "NoSchedule"}],
                    "expireAfter": "720h",
                },
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
            "limits": {"cpu": 1000, "nvidia.com/gpu": 8},
        },
    }


def test_s0_9_the_node_class(pool: dict[str, dict[str, Any]]) -> None:
    assert pool["EC2NodeClass"] == {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "KarpenterNodeRole-gpus",
            "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "gpus"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "gpus"}}],
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "volumeSize": "100Gi",
                        "volumeType": "gp3",
                        "encrypted": True,
                        "deleteOnTermination": True,
                    },
                }
            ],
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "tags": {"team": "vision"},
        },
    }


def test_labels_and_taint_values_of_the_users_own_reach_the_pool(environment: Environment) -> None:
    ours = environment.gpu_pools[0].model_copy(
        update={
            "labels": {"nodeType": "nvidia"},
            "taints": (Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
        }
    )
    chart = GpuPoolsChart(
        cdk8s.App(), "pools", node_classes=environment.node_classes, pools=[ours], placement=PLACEMENT
    )
    template = _by_kind(chart)["NodePool"]["spec"]["template"]
    assert template["metadata"]["labels"] == {"nodeType": "nvidia", "nvidia.com/gpu.present": "true"}
    assert template["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def test_the_device_plugin_is_the_charts_daemon_set() -> None:
    daemon_set = _plugin()
    assert daemon_set["metadata"]["name"] == "nvidia-device-plugin"
    assert daemon_set["metadata"]["namespace"] == "nvidia"
    assert daemon_set["metadata"]["labels"]["helm.sh/chart"] == "nvidia-device-plugin-0.18.2"
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["priorityClassName"] == "system-node-critical"
    assert container["name"] == "nvidia-device-plugin-ctr"
    assert container["image"] == "nvcr.io/nvidia/k8s-device-plugin:v0.18.2"
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


def test_the_device_plugin_runs_on_the_nodes_that_pools_label(pool: dict[str, dict[str, Any]]) -> None:
    affinity = _plugin()["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    labels = pool["NodePool"]["spec"]["template"]["metadata"]["labels"]
    assert expression["operator"] == "In"
    assert labels[expression["key"]] in expression["values"]


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_the_device_plugin_tolerates_any_taint_of_a_pool_whatever_its_value(effect: Any) -> None:
    daemon_set = _plugin(Taint(key="gpu-workload", value="training", effect=effect))
    assert daemon_set["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "CriticalAddonsOnly", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "gpu-workload", "operator": "Exists", "effect": effect},
    ]


def test_the_same_taint_of_two_pools_is_tolerated_once() -> None:
    taint = Taint(key="nvidia.com/gpu", effect="NoSchedule")
    assert len(_plugin(taint, taint)["spec"]["template"]["spec"]["tolerations"]) == 2
