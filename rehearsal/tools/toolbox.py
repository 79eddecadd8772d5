"""What a rehearsal runs, as paths: the result of getting the tools, and all that the other rooms need to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Toolbox:
    """Paths of the tools of a rehearsal, every one an absolute path that exists.

    Args:
        etcd, kube_apiserver, kube_controller_manager, kube_scheduler: the control plane.
        karpenter: the controller of karpenter-provider-aws.
        kwok: keeps simulated nodes and their pods alive.
        kubectl, helm: out of the CDK's kubectl layer.
        cdk: folder of the installed npm package ``aws-cdk``.
        karpenter_crd_chart: folder of the chart ``karpenter-crd`` of the pinned Karpenter module.
        on_demand_prices: JSON file, instance type -> USD per hour, as the pinned Karpenter module ships them.
        kubernetes_version, karpenter_version: what the binaries were built from, without a leading ``v``.
    """

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    karpenter: Path
    kwok: Path
    kubectl: Path
    helm: Path
    cdk: Path
    karpenter_crd_chart: Path
    on_demand_prices: Path
    kubernetes_version: str
    karpenter_version: str

    @property
    def kubernetes_minor(self) -> str:
        """The Kubernetes version as EKS names it, for example ``1.33``."""
        return self.kubernetes_version.rpartition(".")[0]
