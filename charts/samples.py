"""Sample workloads, by which a person sees that pools do what they should.

They may be deployed with the rest, or printed: `python -m charts one-gpu | kubectl apply -f -`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cdk8s import Chart
from constructs import Construct

from charts.objects import add_object
from configuration.images import CUDA_REPOSITORY, PAUSE_REPOSITORY

_CUDA_IMAGE: Final = f"{CUDA_REPOSITORY}:13.0.2-runtime-ubuntu22.04"
_ONE_GPU: Final = {"limits": {"nvidia.com/gpu": 1}}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A workload.

    Attributes:
        about: What it shows, in a line.
        api_version: Such as `apps/v1`.
        kind: Such as `Deployment`.
        spec: Its `spec`.
    """

    about: str
    api_version: str
    kind: str
    spec: Mapping[str, Any]

    def manifest(self, name: str) -> dict[str, Any]:
        """Return the object, in the namespace that kubectl is set to.

        Args:
            name: Its name.
        """
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}, "spec": dict(self.spec)}


def _one_gpu(taint: str, **command: list[str]) -> dict[str, Any]:
    return {
        # A pod that is started again after it has ended never gives its GPU back.
        "restartPolicy": "Never",
        "containers": [{"name": "cuda", "image": _CUDA_IMAGE, **command, "resources": _ONE_GPU}],
        "tolerations": [{"key": taint, "operator": "Exists", "effect": "NoSchedule"}],
    }


SAMPLES: Final[Mapping[str, Sample]] = {
    "one-gpu": Sample(
        about="a pod that asks for one GPU of a pool tainted gpu-workload, prints nvidia-smi and ends",
        api_version="v1",
        kind="Pod",
        spec=_one_gpu("gpu-workload", command=["nvidia-smi"]),
    ),
    "one-gpu-five-minutes": Sample(
        about="a pod that asks for one GPU of a pool tainted nvidia.com/gpu, prints nvidia-smi and ends in 5 minutes",
        api_version="v1",
        kind="Pod",
        spec=_one_gpu("nvidia.com/gpu", command=["/bin/sh", "-c"], args=["nvidia-smi && sleep 300"]),
    ),
    "inflate": Sample(
        about="5 replicas that ask for 1 CPU and 1.5 GiB each and do nothing; scale it to see nodes come and go",
        api_version="apps/v1",
        kind="Deployment",
        spec={
            "replicas": 5,
            "selector": {"matchLabels": {"app": "inflate"}},
            "template": {
                "metadata": {"labels": {"app": "inflate"}},
                "spec": {
                    "containers": [
                        {
                            "name": "inflate",
                            "image": f"{PAUSE_REPOSITORY}:3.7",
                            "resources": {"requests": {"cpu": "1", "memory": "1.5Gi"}},
                        }
                    ]
                },
            },
        },
    ),
}
"""The samples by name, which is the object's name too."""


class SamplesChart(Chart):
    """Some of the samples, in the namespace `default`.

    Args:
        scope: cdk8s app.
        construct_id: Name of the chart.
        names: Which of `SAMPLES`.

    Raises:
        KeyError: There is no sample of a name.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Iterable[str]) -> None:
        super().__init__(scope, construct_id)
        for name in names:
            sample = SAMPLES[name]
            add_object(
                self,
                api_version=sample.api_version,
                kind=sample.kind,
                name=name,
                namespace="default",
                body={"spec": sample.spec},
            )
