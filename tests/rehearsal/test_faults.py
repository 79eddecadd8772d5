"""A fault in the templates breaks the rehearsal where it would break on AWS, with words that lead to the cause."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Edit, Rehearse


def _without_create_fleet(template: str) -> str:
    return template.replace('"ec2:CreateFleet",\n', "").replace(',\n        "ec2:CreateFleet"', "")


def _without_toleration(template: str) -> str:
    """Drop the device plugin's toleration of the pool's taint."""
    data = json.loads(template)
    for resource in data["Resources"].values():
        manifest = resource["Properties"].get("Manifest")
        if isinstance(manifest, str) and '"DaemonSet"' in manifest:
            (daemon_set,) = json.loads(manifest)
            pod = daemon_set["spec"]["template"]["spec"]
            pod["tolerations"] = [t for t in pod["tolerations"] if t.get("key") != "gpu-workload"]
            resource["Properties"]["Manifest"] = json.dumps([daemon_set])
    return json.dumps(data, indent=1)


def test_a_controller_that_may_not_create_fleets_buys_nothing(rehearse: Rehearse, assembly: Path, edited: Edit) -> None:
    folder = edited(assembly, "training-on-eks-karpenter", _without_create_fleet)
    outcome = rehearse("--assembly", folder)
    assert outcome.code == 1
    assert outcome.failed() == ["node-claim"]
    assert "KarpenterControllerRole-training-on-eks" in outcome.record["failure"]
    assert "was denied ec2:CreateFleet" in outcome.record["failure"]


def test_a_plugin_that_does_not_tolerate_the_taint_registers_no_gpu(
    rehearse: Rehearse, assembly: Path, edited: Edit
) -> None:
    folder = edited(assembly, "training-on-eks-node-pools", _without_toleration)
    outcome = rehearse("--assembly", folder)
    assert outcome.code == 1
    assert outcome.failed() == ["gpu"]
    assert "has the taint gpu-workload:NoSchedule" in outcome.record["failure"]
    assert "DaemonSet nvidia/nvidia-device-plugin does not tolerate it" in outcome.record["failure"]


def _for_another_namespace(template: str) -> str:
    """Let the controller's role be taken for a service account of another namespace only."""
    data = json.loads(template)
    for resource in data["Resources"].values():
        document = resource.get("Properties", {}).get("AssumeRolePolicyDocument")
        if "pods.eks.amazonaws.com" in json.dumps(document):
            (statement,) = document["Statement"]
            statement["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-namespace"] = "elsewhere"
    return json.dumps(data, indent=1)


def test_pod_identity_gives_nothing_where_the_trust_policy_names_another_namespace(
    rehearse: Rehearse, production: Path, edited: Edit
) -> None:
    folder = edited(production, "production-gpus-karpenter", _for_another_namespace)
    outcome = rehearse("--assembly", folder)
    assert outcome.code == 1
    assert outcome.failed() == ["workloads"]
    failure = outcome.record["failure"]
    assert "Deployment kube-system/karpenter: 0 of 2 pods ready" in failure
    assert "does not let pods.eks.amazonaws.com do sts:AssumeRole for service account kube-system/karpenter" in failure
