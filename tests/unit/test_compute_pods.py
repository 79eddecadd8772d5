"""Pods: the environment of a real process, which pods are simulated, and when a node offers GPUs."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal.compute import environment, gpus, kubelet, kwok
from rehearsal.compute.node import Machine
from rehearsal.compute.nodeadm import EksImage, NodeConfig
from rehearsal.compute.notices import NodeRefused, Notice, Reporter

POD: dict[str, Any] = {
    "metadata": {
        "name": "karpenter-1",
        "namespace": "kube-system",
        "uid": "u",
        "labels": {"app.kubernetes.io/name": "k"},
    },
    "spec": {"nodeName": "n1", "serviceAccountName": "karpenter", "containers": []},
}
ALLOCATABLE = {"cpu": "1930m", "memory": "1Gi"}


def of(*variables: dict[str, Any], resources: dict[str, Any] | None = None) -> dict[str, str]:
    return environment.of_container(
        POD, {"name": "c", "env": list(variables), "resources": resources or {}}, ALLOCATABLE
    )


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def resource(name: str, divisor: str = "0") -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"resourceFieldRef": {"resource": name, "divisor": divisor}}}


def test_values_may_refer_to_earlier_ones() -> None:
    found = of({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)-$(NONE)-$$(A)"}, {"name": "C"})

    assert found == {"A": "1", "B": "1-$(NONE)-$(A)", "C": ""}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.namespace", "kube-system"),
        ("metadata.name", "karpenter-1"),
        ("metadata.labels['app.kubernetes.io/name']", "k"),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "karpenter"),
    ],
)
def test_field_references(path: str, value: str) -> None:
    assert of(field(path)) == {"X": value}


@pytest.mark.parametrize(
    ("name", "divisor", "value"),
    [
        ("requests.cpu", "1m", "250"),
        ("requests.cpu", "0", "1"),
        ("limits.memory", "0", str(512 * 2**20)),
        ("limits.memory", "1Mi", "512"),
        ("limits.cpu", "1m", "1930"),
        ("requests.memory", "0", "0"),
    ],
)
def test_resource_references(name: str, divisor: str, value: str) -> None:
    resources = {"requests": {"cpu": "250m"}, "limits": {"memory": "512Mi"}}

    assert of(resource(name, divisor), resources=resources) == {"X": value}


def test_what_cannot_be_read_is_an_error_unless_optional() -> None:
    reference: dict[str, Any] = {"name": "s", "key": "k"}
    secret = {"name": "X", "valueFrom": {"secretKeyRef": reference}}

    with pytest.raises(environment.ContainerConfigError, match="secretKeyRef is not simulated"):
        of(secret)
    reference["optional"] = True
    assert of(secret) == {}


def test_role_only_where_the_service_account_has_the_annotation() -> None:
    arn = "arn:aws:iam::123456789012:role/karpenter"
    account = {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": arn}}}

    found = environment.of_role(account, "/token", "us-west-2")

    assert found["AWS_ROLE_ARN"] == arn
    assert found["AWS_WEB_IDENTITY_TOKEN_FILE"] == "/token"
    assert environment.of_role({"metadata": {}}, "/token", "us-west-2") == {}


IMAGES = [
    ("public.ecr.aws/karpenter/controller:1.14.1@sha256:00", True),
    ("localhost:5000/karpenter/controller", True),
    ("public.ecr.aws/karpenter/controller@sha256:00", True),
    ("public.ecr.aws/karpenter/controller-extras:1", False),
    ("nvcr.io/nvidia/k8s-device-plugin:v0.18.2", False),
]


@pytest.mark.parametrize(("image", "real"), IMAGES)
def test_a_pod_is_either_real_or_simulated(image: str, real: bool) -> None:
    container = {"name": "controller", "image": image}
    pod = {"spec": {"containers": [{"name": "side", "image": "busybox"}, container]}}

    assert (kubelet.real_container(pod) == container) is real
    for name in ("pod-run", "pod-complete", "pod-delete"):
        pattern = next(match[1] for key in keys(stage(name)) if (match := re.search(r'test\("(.+?)"\)', key)))
        assert bool(re.search(pattern, image)) is real


def stage(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((files("rehearsal.compute") / "stages" / f"{name}.yaml").read_text())
    return found


def keys(found: dict[str, Any]) -> list[str]:
    return [str(expression["key"]) for expression in found["spec"]["selector"]["matchExpressions"]]


@pytest.mark.parametrize("name", kwok.STAGES)
def test_stages_are_what_kwok_reads(name: str) -> None:
    found = stage(name)

    assert (found["apiVersion"], found["kind"]) == ("kwok.x-k8s.io/v1alpha1", "Stage")
    assert found["metadata"]["name"] == name
    assert found["spec"]["resourceRef"]["kind"] == ("Node" if name.startswith("node") else "Pod")
    assert ".metadata.deletionTimestamp" in keys(found)


def test_stages_leave_finalizers_alone() -> None:
    assert all("finalizers" not in stage(name)["spec"]["next"] for name in kwok.STAGES)


def test_kwok_opens_no_port_and_installs_nothing() -> None:
    command = [str(part) for part in kwok.command(Path("kwok"), Path("config"), [Path("stage")])]

    assert "--manage-all-nodes=true" in command
    assert not any(part.startswith(("--server-address", "--node-port", "--enable-crds")) for part in command)


def plugin(
    phase: str = "Running", image: str = "nvcr.io/nvidia/k8s-device-plugin:v0.18.2", **more: Any
) -> dict[str, Any]:
    container = {"name": "c", "image": image, **more}
    return {"metadata": {}, "spec": {"nodeName": "n1", "containers": [container]}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (plugin(), True),
        (plugin(command=["/usr/bin/nvidia-device-plugin"]), True),
        (plugin(command=["gpu-feature-discovery"]), False),
        (plugin(phase="Pending"), False),
        (plugin(image="busybox"), False),
    ],
)
def test_running_device_plugins(pod: dict[str, Any], expected: bool) -> None:
    assert gpus.is_device_plugin(pod) is expected


def machine(variant: str, count: int) -> Machine:
    kind: dict[str, Any] = {"GpuInfo": {"Gpus": [{"Manufacturer": "NVIDIA", "Count": count}]}} if count else {}
    return Machine(
        instance={"InstanceType": "g5.xlarge"},
        type=kind,
        image=EksImage("x86_64", variant, "1.33"),
        config=NodeConfig("demo", "e", "ca", "c"),
        zone_id="",
        root_gib=20,
        region="us-west-2",
        kubernetes_version="1.33.13",
    )


@pytest.mark.parametrize(
    ("variant", "count", "runs", "offered", "reason"),
    [
        ("nvidia", 4, True, 4, "registered"),
        ("nvidia", 4, False, 0, "no device plugin"),
        ("standard", 4, True, 0, "no driver"),
        ("nvidia", 0, True, 0, "has no NVIDIA GPU"),
    ],
)
def test_gpus_need_plugin_device_and_driver(variant: str, count: int, runs: bool, offered: int, reason: str) -> None:
    found, why = gpus.offered(machine(variant, count), runs)

    assert found == offered
    assert reason in why


def test_recurring_notices_are_passed_on_once() -> None:
    heard: list[Notice] = []
    reporter = Reporter("demo", heard.append)

    for reason in ("a", "a", "b"):
        reporter.once("i-1", NodeRefused("demo", "i-1", reason))

    assert [notice.text for notice in heard] == ["i-1 does not join demo: a", "i-1 does not join demo: b"]
    assert heard[0].data == {"cluster": "demo", "instance_id": "i-1", "reason": "a"}


def test_last_words_are_the_panic_or_the_end() -> None:
    panic = "started\npanic: no such region\n\ngoroutine 1 [running]:\nmain.main()"

    assert kubelet.last_words(panic) == "panic: no such region"
    assert kubelet.last_words("one\ntwo") == "one\ntwo"
    assert kubelet.last_words("") == ""
