"""The Node object that a kubelet and the cloud controller manager would make of an instance. No GPUs: see ``gpus``.

Reservations as nodeadm computes them (awslabs/amazon-eks-ami, ``nodeadm/internal/kubelet/config.go``); how much of the
memory the operating system shows is Karpenter's own estimate (its ``VM_MEMORY_OVERHEAD_PERCENT``, 7.5 %), because no
machine is there to be measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rehearsal.compute.aws import Answer
from rehearsal.compute.nodeadm import EksImage, NodeConfig
from rehearsal.compute.tree import at, items, mapping
from rehearsal.kubernetes.api import Manifest

GPU = "nvidia.com/gpu"
_MIB = 1024**2
_GIB = 1024**3
_VM_OVERHEAD = 0.075
_ARM_CMA_MIB = 64
_EVICTION_MEMORY_MIB = 100
_EVICTION_STORAGE = 0.10
_RESERVED_STORAGE_GIB = 1
_CPU_RESERVED = ((0, 1000, 0.06), (1000, 2000, 0.01), (2000, 4000, 0.005), (4000, math.inf, 0.0025))
"""From and to which millicore how large a share is reserved."""

_GO_ARCHITECTURE = {"x86_64": "amd64", "arm64": "arm64"}


@dataclass(frozen=True)
class Machine:
    """All that is known of an instance and matters to its node.

    Args:
        instance: out of DescribeInstances.
        type: out of DescribeInstanceTypes.
        image: what its AMI is.
        config: its NodeConfig.
        zone_id: for example ``usw2-az1``.
        root_gib: size of its root volume, GiB.
        region: for example ``us-west-2``.
        kubernetes_version: of the kubelet, for example ``1.33.13``.
    """

    instance: Answer
    type: Answer
    image: EksImage
    config: NodeConfig
    zone_id: str
    root_gib: int
    region: str
    kubernetes_version: str

    @property
    def zone(self) -> str:
        """Name of its zone."""
        return str(self.instance["Placement"]["AvailabilityZone"])


def reserved_millicores(millicores: int) -> int:
    """CPU that nodeadm keeps for the kubelet and the container runtime."""
    share = 0.0
    for start, end, percentage in _CPU_RESERVED:
        if millicores > start:
            share += math.floor((min(millicores, end) - start) * percentage)
    return int(share)


def reserved_memory_mib(max_pods: int) -> int:
    """Memory that nodeadm keeps for the kubelet and the container runtime, MiB."""
    return 255 + 11 * max_pods


def eni_limited_pods(instance_type: Answer) -> int:
    """Pods that a type has addresses for with the VPC CNI: network interfaces x (addresses - 1) + 2."""
    network = mapping(instance_type, "NetworkInfo")
    cards = items(network, "NetworkCards")
    index = int(network.get("DefaultNetworkCardIndex", 0))
    interfaces = cards[index]["MaximumNetworkInterfaces"] if cards else network["MaximumNetworkInterfaces"]
    return int(interfaces) * (int(network["Ipv4AddressesPerInterface"]) - 1) + 2


def resources(machine: Machine) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable of a node, by the kubelet's arithmetic."""
    kubelet = machine.config.kubelet_config
    max_pods = int(kubelet.get("maxPods") or eni_limited_pods(machine.type))
    cpus = int(machine.type["VCpuInfo"]["DefaultVCpus"])
    pods_per_core = int(kubelet.get("podsPerCore") or 0)
    pods = min(max_pods, pods_per_core * cpus) if pods_per_core else max_pods
    memory = _visible_memory(machine)
    storage = _storage(machine)
    capacity = {
        "cpu": str(cpus),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": str(storage),
        "pods": str(pods),
    }
    held = {
        "cpu": reserved_millicores(cpus * 1000) / 1000,
        "memory": reserved_memory_mib(max_pods) * _MIB,
        "ephemeral-storage": _RESERVED_STORAGE_GIB * _GIB,
    }
    held |= {key: quantity(value) for key, value in mapping(kubelet, "kubeReserved").items()}
    system = {key: quantity(value) for key, value in mapping(kubelet, "systemReserved").items()}
    hard = mapping(kubelet, "evictionHard")
    memory_floor = _threshold(hard.get("memory.available"), memory, _EVICTION_MEMORY_MIB * _MIB)
    storage_floor = _threshold(hard.get("nodefs.available"), storage, storage * _EVICTION_STORAGE)
    cpu = cpus - held["cpu"] - system.get("cpu", 0)
    left_memory = memory - held["memory"] - system.get("memory", 0) - memory_floor
    left_storage = storage - held["ephemeral-storage"] - system.get("ephemeral-storage", 0) - storage_floor
    allocatable = {
        "cpu": f"{max(0, round(cpu * 1000))}m",
        "memory": f"{max(0, int(left_memory)) // 1024}Ki",
        "ephemeral-storage": str(max(0, int(left_storage))),
        "pods": str(pods),
    }
    return capacity, allocatable


def manifest(machine: Machine) -> Manifest:
    """The Node as it is created: labelled, tainted, sized, and not ready."""
    instance, image = machine.instance, machine.image
    name = str(instance["PrivateDnsName"])
    architecture = _GO_ARCHITECTURE[image.architecture]
    labels = {
        **machine.config.labels,
        "kubernetes.io/arch": architecture,
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        "beta.kubernetes.io/arch": architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/instance-type": instance["InstanceType"],
        "node.kubernetes.io/instance-type": instance["InstanceType"],
        "topology.kubernetes.io/zone": machine.zone,
        "topology.kubernetes.io/region": machine.region,
        "failure-domain.beta.kubernetes.io/zone": machine.zone,
        "failure-domain.beta.kubernetes.io/region": machine.region,
        "k8s.io/cloud-provider-aws": "simulated",
        "topology.k8s.aws/zone-id": machine.zone_id,
    }
    taints = items(machine.config.kubelet_config, "registerWithTaints")
    capacity, allocatable = resources(machine)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"aws:///{machine.zone}/{instance['InstanceId']}", "taints": taints},
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": instance["PrivateIpAddress"]},
                {"type": "InternalDNS", "address": name},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023 (simulated)",
                "kernelVersion": "simulated",
                "kubeletVersion": f"v{machine.kubernetes_version}-eks-simulated",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "containerd://simulated",
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        },
    }


def quantity(text: str | float) -> float:
    """A Kubernetes quantity as a number: ``100m`` is 0.1, ``1Gi`` is 1073741824."""
    value = str(text)
    binary = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    decimal = {"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    for suffix, factor in (*binary.items(), *decimal.items()):
        if value.endswith(suffix):
            return float(value.removesuffix(suffix)) * factor
    return float(value)


def gpus(instance_type: Answer) -> int:
    """NVIDIA GPUs of a type."""
    found = items(instance_type, "GpuInfo", "Gpus")
    return sum(int(at(gpu, "Count") or 0) for gpu in found if str(at(gpu, "Manufacturer")).upper() == "NVIDIA")


def _visible_memory(machine: Machine) -> int:
    mib = int(machine.type["MemoryInfo"]["SizeInMiB"])
    if machine.image.architecture == "arm64":
        mib -= _ARM_CMA_MIB
    return (mib - math.ceil(mib * _VM_OVERHEAD)) * _MIB


def _storage(machine: Machine) -> int:
    """Bytes for pods: the instance store where nodeadm made a RAID of it, else the root volume."""
    total_gb = at(machine.type, "InstanceStorageInfo", "TotalSizeInGB")
    if machine.config.local_storage == "RAID0" and total_gb:
        return int(total_gb) * 10**9
    return machine.root_gib * _GIB


def _threshold(signal: str | None, total: float, default: float) -> float:
    if signal is None:
        return default
    return total * float(signal.removesuffix("%")) / 100 if signal.endswith("%") else quantity(signal)
