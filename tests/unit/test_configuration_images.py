"""Images and processors: every image that is deployed is known, and a pool that could not run one is refused."""

from typing import Any, cast

import cdk8s
import pytest

from charts import ClusterFacts, DcgmExporterChart, DevicePluginChart, KarpenterChart
from charts.samples import SAMPLES
from configuration import DcgmExporter, DevicePlugin, Environment, Requirement
from configuration.images import (
    DEVICE_PLUGIN_REPOSITORY,
    IMAGE_ARCHITECTURES,
    architectures,
    check_architectures,
    images_on_gpu_nodes,
    repository,
)

ARM = [Requirement(key="kubernetes.io/arch", operator="In", values=("arm64",))]
AMD = [Requirement(key="kubernetes.io/arch", operator="In", values=("amd64",))]


def _images(value: Any) -> set[str]:
    """Every `image` in an object, however deep."""
    if isinstance(value, list):
        return {image for item in cast("list[Any]", value) for image in _images(item)}
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        inner = {image for item in found.values() for image in _images(item)}
        return inner | {found["image"]} if isinstance(found.get("image"), str) else inner
    return set()


def test_of_every_image_that_is_deployed_the_processors_are_known(environment: Environment) -> None:
    app = cdk8s.App()
    facts = ClusterFacts(name="gpus", endpoint="", region="us-west-2", interruption_queue="", node_groups=[])
    charts = [
        KarpenterChart(app, "karpenter", karpenter=environment.karpenter, cluster=facts, role_arn=None),
        DevicePluginChart(app, "plugin", version="0.18.2", namespace="nvidia", taints=[], feature_discovery=True),
        DcgmExporterChart(app, "dcgm", version="4.8.2", namespace="nvidia", taints=[]),
    ]
    objects = [found for chart in charts for found in chart.to_json()]
    samples = [sample.manifest(name) for name, sample in SAMPLES.items()]
    deployed = {repository(image) for image in _images([*objects, *samples])}
    assert deployed == set(IMAGE_ARCHITECTURES)


@pytest.mark.parametrize("discovery", [True, False])
def test_the_images_on_gpu_nodes_are_those_of_the_daemon_sets(discovery: bool) -> None:
    app = cdk8s.App()
    plugin = DevicePlugin(version="0.18.2", namespace="nvidia", gpu_feature_discovery=discovery)
    exporter = DcgmExporter(version="4.8.2", namespace="nvidia")
    charts = [
        DevicePluginChart(app, "p", version="0.18.2", namespace="nvidia", taints=[], feature_discovery=discovery),
        DcgmExporterChart(app, "d", version="4.8.2", namespace="nvidia", taints=[]),
    ]
    daemon_sets = [found for chart in charts for found in chart.to_json() if found["kind"] == "DaemonSet"]
    assert set(images_on_gpu_nodes(plugin, exporter)) == _images(daemon_sets)
    assert images_on_gpu_nodes(None, None) == []


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.18.2", "nvcr.io/nvidia/k8s-device-plugin"),
        ("public.ecr.aws/karpenter/controller:1.14.1@sha256:445b", "public.ecr.aws/karpenter/controller"),
        ("registry.example:5000/cuda", "registry.example:5000/cuda"),
        ("registry.example:5000/cuda:13", "registry.example:5000/cuda"),
        ("nvidia/cuda", "nvidia/cuda"),
    ],
)
def test_an_images_repository(image: str, name: str) -> None:
    assert repository(image) == name


@pytest.mark.parametrize(
    ("requirements", "left"),
    [
        ([], {"amd64", "arm64"}),
        (AMD, {"amd64"}),
        (ARM, {"arm64"}),
        ([Requirement(key="kubernetes.io/arch", operator="NotIn", values=("arm64",))], {"amd64"}),
        ([Requirement(key="kubernetes.io/os", operator="In", values=("linux",))], {"amd64", "arm64"}),
    ],
)
def test_the_processors_that_requirements_leave(requirements: list[Requirement], left: set[str]) -> None:
    assert architectures(requirements) == left


def test_a_pool_of_nodes_that_cannot_run_an_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(IMAGE_ARCHITECTURES, DEVICE_PLUGIN_REPOSITORY, frozenset({"amd64"}))
    image = f"{DEVICE_PLUGIN_REPOSITORY}:v0.18.2"
    check_architectures(AMD, [image])
    for requirements in (ARM, []):
        with pytest.raises(ValueError, match=rf"requirements: .*arm64 nodes, and {image},.*amd64 alone"):
            check_architectures(requirements, [image])


def test_images_with_both_variants_and_unknown_ones_are_refused_nowhere() -> None:
    check_architectures(ARM, [f"{DEVICE_PLUGIN_REPOSITORY}:v0.18.2", "registry.example/own:1"])
