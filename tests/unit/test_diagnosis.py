"""A failed step is explained from what the cluster says: conditions, refusals, taints and tolerations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from rehearsal.aws.events import EventLog
from rehearsal.diagnosis import Diagnosis
from rehearsal.kubernetes.api import KubeApi
from rehearsal.processes import Run

NODE: dict[str, Any] = {
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "gpu-workload", "effect": "NoSchedule"}]},
}


class FakeKube:
    """Objects by kind."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self._objects = objects

    def list(self, kind: str) -> list[dict[str, Any]]:
        """As the client does."""
        return self._objects.get(kind, [])


def _diagnosis(folder: Path, **objects: list[dict[str, Any]]) -> Diagnosis:
    return Diagnosis(Run("r", folder), EventLog(folder / "events.jsonl"), cast("KubeApi", FakeKube(**objects)))


def _plugin(*tolerations: dict[str, str]) -> dict[str, Any]:
    pod = {"containers": [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.18.2"}], "tolerations": list(tolerations)}
    return {"metadata": {"namespace": "nvidia", "name": "plugin"}, "spec": {"template": {"spec": pod}}}


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "gpu-workload", "operator": "Equal", "value": "present"},
        {"key": "gpu-workload", "operator": "Exists", "effect": "NoExecute"},
    ],
)
def test_a_taint_that_the_plugin_does_not_tolerate_is_named(toleration: dict[str, str], tmp_path: Path) -> None:
    (said,) = _diagnosis(tmp_path, DaemonSet=[_plugin(toleration)]).device_plugin(NODE)
    assert "node n1 has the taint gpu-workload:NoSchedule and DaemonSet nvidia/plugin does not tolerate it" in said


@pytest.mark.parametrize(
    "toleration",
    [{"operator": "Exists"}, {"key": "gpu-workload", "operator": "Exists"}, {"key": "gpu-workload"}],
)
def test_a_plugin_that_tolerates_the_taint_is_not_blamed_for_it(toleration: dict[str, str], tmp_path: Path) -> None:
    (said,) = _diagnosis(tmp_path, DaemonSet=[_plugin(toleration)]).device_plugin(NODE)
    assert "tolerates the taints of n1" in said


def test_a_cluster_without_a_plugin_is_told_so(tmp_path: Path) -> None:
    (said,) = _diagnosis(tmp_path).device_plugin(NODE)
    assert "no DaemonSet runs k8s-device-plugin" in said


def test_the_other_programs_of_the_plugins_image_are_not_the_plugin(tmp_path: Path) -> None:
    discovery = _plugin()
    discovery["spec"]["template"]["spec"]["containers"][0]["command"] = ["gpu-feature-discovery"]
    (said,) = _diagnosis(tmp_path, DaemonSet=[discovery]).device_plugin(NODE)
    assert "no DaemonSet runs k8s-device-plugin" in said


def _workload(name: str, spec: dict[str, Any], generation: int = 1, **status: int) -> dict[str, Any]:
    metadata = {"namespace": "nvidia", "name": name, "generation": generation}
    return {"metadata": metadata, "spec": spec, "status": {"observedGeneration": 1, **status}}


def test_workloads_that_are_not_ready_are_named_with_their_pods(tmp_path: Path) -> None:
    diagnosis = _diagnosis(
        tmp_path,
        Deployment=[
            _workload("ready", {"replicas": 1}, readyReplicas=1),
            _workload("half", {"replicas": 2}, readyReplicas=1),
            _workload("unseen", {"replicas": 0}, generation=2),
        ],
        DaemonSet=[
            _workload("nowhere", {}, desiredNumberScheduled=0, numberReady=0),
            _workload("none", {}, desiredNumberScheduled=2),
        ],
    )
    assert diagnosis.unready_workloads() == [
        "Deployment nvidia/half: 1 of 2 pods ready",
        "Deployment nvidia/unseen: 0 of 0 pods ready",
        "DaemonSet nvidia/none: 0 of 2 pods ready",
    ]


def test_pods_that_no_node_takes_are_told_with_the_schedulers_words(tmp_path: Path) -> None:
    def pod(name: str, status: str) -> dict[str, Any]:
        condition = {"type": "PodScheduled", "status": status, "message": "Insufficient memory"}
        return {"metadata": {"namespace": "n", "name": name}, "status": {"conditions": [condition]}}

    diagnosis = _diagnosis(tmp_path, Pod=[pod("a", "True"), pod("b", "False")])
    assert diagnosis.unscheduled() == ["pod n/b: Insufficient memory"]


def test_conditions_that_say_no_are_told_with_their_message(tmp_path: Path) -> None:
    conditions = [
        {"type": "Ready", "status": "False", "message": "not authorised"},
        {"type": "AMIsReady", "status": "True", "message": ""},
    ]
    node_class = {"metadata": {"name": "default"}, "status": {"conditions": conditions}}
    found = _diagnosis(tmp_path, EC2NodeClass=[node_class]).not_ready()
    assert found == ["EC2NodeClass default: Ready is False: not authorised"]


def test_refusals_are_told_once_and_only_since_the_moment(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    for _ in range(2):
        log.write("access-denied", "role was denied ec2:CreateFleet")
    log.write("node-joined", "a node")
    diagnosis = _diagnosis(tmp_path)
    assert diagnosis.refusals(0) == ["role was denied ec2:CreateFleet"]
    assert diagnosis.refusals(10**12) == []


def test_the_log_shows_each_error_once_and_only_since_the_moment(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    entries = [
        {"level": "ERROR", "time": "2026-01-01T00:00:00Z", "message": "old"},
        {"level": "ERROR", "time": "2026-01-02T00:00:00Z", "message": "denied 11111111-2222-3333-4444-555555555555"},
        {"level": "ERROR", "time": "2026-01-02T00:00:01Z", "message": "denied 11111111-2222-3333-4444-666666666666"},
        {"level": "INFO", "time": "2026-01-02T00:00:02Z", "message": "working"},
    ]
    (logs / "karpenter-1.log").write_text("\n".join(json.dumps(entry) for entry in entries))
    shown = _diagnosis(tmp_path).karpenter_log(since=1767312000.0 - 3600)
    assert shown == "ERROR message=denied 11111111-2222-3333-4444-666666666666"
