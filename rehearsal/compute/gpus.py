"""GPUs of nodes, simulated: registered as the NVIDIA device plugin would, and only while its pod runs there.

A node offers ``nvidia.com/gpu`` while a pod of the device plugin runs on it, its type has NVIDIA GPUs and its image has
the driver. When the plugin goes, the kubelet withdraws the devices (allocatable 0). Not here yet: sharing (time
slicing, MPS) and MIG, which the plugin's configuration may ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rehearsal.compute.node import GPU, Machine, gpus
from rehearsal.compute.notices import GpusChanged, Reporter
from rehearsal.compute.tree import at, items, mapping
from rehearsal.kubernetes.api import KubeApi, Manifest

_REPOSITORY = "k8s-device-plugin"
_PROGRAM = "nvidia-device-plugin"


def repository(image: str) -> str:
    """An image's name without its tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def is_device_plugin(pod: Manifest) -> bool:
    """True for a running pod of NVIDIA's device plugin (its image also has other programs)."""
    if at(pod, "status", "phase") != "Running" or at(pod, "metadata", "deletionTimestamp"):
        return False
    return runs_device_plugin(mapping(pod, "spec"))


def runs_device_plugin(spec: Mapping[str, Any]) -> bool:
    """Whether a pod's spec runs the device plugin, and not another program of its image (feature discovery, MPS)."""
    for container in items(spec, "containers"):
        command = [str(word) for word in items(container, "command")]
        program = command[0].rpartition("/")[2] if command else _PROGRAM
        if repository(str(at(container, "image"))).endswith(_REPOSITORY) and program == _PROGRAM:
            return True
    return False


def offered(machine: Machine | None, plugin: bool) -> tuple[int, str]:
    """How many GPUs a node offers, and why that many.

    Args:
        machine: the machine behind the node; None where it is not known.
        plugin: the device plugin runs on the node.
    """
    count = 0 if machine is None else gpus(machine.type)
    if machine is None or not plugin:
        return 0, "no device plugin runs there"
    if not count:
        return 0, f"{machine.instance['InstanceType']} has no NVIDIA GPU"
    if machine.image.variant != "nvidia":
        return 0, f"the device plugin finds no driver in an image of the variant {machine.image.variant}"
    return count, "the device plugin registered them"


class Gpus:
    """Keeps ``nvidia.com/gpu`` of a cluster's nodes equal to what their device plugins would register.

    Args:
        api: the cluster's administrator.
        machine: finds the machine behind a node.
        reporter: told what changes.
    """

    def __init__(self, api: KubeApi, machine: Callable[[str], Machine | None], reporter: Reporter) -> None:
        self._api = api
        self._machine = machine
        self._reporter = reporter

    def step(self, pods: Sequence[Manifest], nodes: Sequence[Manifest]) -> None:
        """Compare once."""
        plugins = {str(at(pod, "spec", "nodeName")) for pod in pods if is_device_plugin(pod)}
        for found in nodes:
            name: str = found["metadata"]["name"]
            registered = mapping(found, "status", "allocatable").get(GPU)
            count, reason = offered(self._machine(name), name in plugins)
            if count == int(registered or 0):
                if name in plugins and not count and gpus_expected(self._machine(name)):
                    self._reporter.once(f"gpus {name}", GpusChanged(self._reporter.cluster, name, 0, reason))
                continue
            amounts = {"allocatable": {GPU: str(count)}}
            if count:
                amounts["capacity"] = {GPU: str(count)}
            self._api.patch("NodeStatus", name, {"status": amounts})
            self._reporter.once(f"gpus {name}", GpusChanged(self._reporter.cluster, name, count, reason))


def gpus_expected(machine: Machine | None) -> bool:
    """True where someone may wonder that a node offers no GPUs: its type has some."""
    return machine is not None and gpus(machine.type) > 0
