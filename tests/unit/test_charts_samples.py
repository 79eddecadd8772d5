"""The sample workloads: what they are, and how they are printed."""

import subprocess
import sys
from pathlib import Path

import cdk8s
import pytest
import yaml

from charts import SamplesChart
from charts.__main__ import main
from charts.samples import SAMPLES

ROOT = Path(__file__).parents[2]
CUDA = "nvidia/cuda:13.0.2-runtime-ubuntu22.04"


def test_s0_10_the_pod_that_asks_for_one_gpu() -> None:
    assert SAMPLES["one-gpu"].manifest("one-gpu") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one-gpu"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "cuda",
                    "image": CUDA,
                    "command": ["nvidia-smi"],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                }
            ],
            "tolerations": [{"key": "gpu-workload", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def test_s2_3_the_pod_that_looks_at_its_gpu_and_ends_after_five_minutes() -> None:
    assert SAMPLES["one-gpu-five-minutes"].manifest("one-gpu-five-minutes") == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one-gpu-five-minutes"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "cuda",
                    "image": CUDA,
                    "command": ["/bin/sh", "-c"],
                    "args": ["nvidia-smi && sleep 300"],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                }
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def test_s4_2_the_deployment_that_asks_for_five_cpus() -> None:
    found = SAMPLES["inflate"].manifest("inflate")
    assert (found["apiVersion"], found["kind"], found["metadata"]) == ("apps/v1", "Deployment", {"name": "inflate"})
    spec = found["spec"]
    assert spec["replicas"] == 5
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": "inflate"}
    assert spec["template"]["spec"] == {
        "containers": [
            {
                "name": "inflate",
                "image": "public.ecr.aws/eks-distro/kubernetes/pause:3.7",
                "resources": {"requests": {"cpu": "1", "memory": "1.5Gi"}},
            }
        ]
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_printed_is_the_object(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "&" not in out.replace("&&", ""), "kubectl's reader need not know YAML's anchors"
    assert yaml.safe_load(out) == SAMPLES[name].manifest(name)


def test_without_a_name_every_sample_is_listed_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(SAMPLES)
    assert all(line.endswith(sample.about) for line, sample in zip(lines, SAMPLES.values(), strict=True))


def test_an_unknown_name_is_an_error_that_lists_the_names() -> None:
    done = subprocess.run([sys.executable, "-m", "charts", "two-gpus"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    # Node may have said something of its own before.
    assert done.stderr.endswith("there is no sample 'two-gpus'; there are one-gpu, one-gpu-five-minutes, inflate\n")


def test_deployed_are_the_samples_that_are_named_in_the_namespace_default() -> None:
    chart = SamplesChart(cdk8s.App(), "samples", names=["inflate", "one-gpu"])
    rendered = {found["metadata"]["name"]: found for found in chart.to_json()}
    assert list(rendered) == ["inflate", "one-gpu"]
    for name, found in rendered.items():
        assert found["metadata"] == {"name": name, "namespace": "default"}
        assert found["spec"] == SAMPLES[name].manifest(name)["spec"]
