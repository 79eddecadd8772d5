"""The kubelet of pods whose process is real: Karpenter's. All other pods are simulated by KWOK."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rehearsal.compute.environment import ContainerConfigError
from rehearsal.compute.gpus import repository
from rehearsal.compute.notices import PodProcess, Reporter
from rehearsal.compute.podprocess import PodContext, RealPod
from rehearsal.compute.tree import at, items
from rehearsal.kubernetes.api import KubeError, Manifest
from rehearsal.processes import tail

REAL_IMAGE = "karpenter/controller"
"""Repositories that end so have a real process; the stages of KWOK leave the same pods alone."""

_BACKOFF_S = (1, 2, 5, 10, 20, 30)
"""Seconds before a restart; a kubelet waits from 10 s to 300 s, which nobody wants to watch."""
_TAIL_LINES = 8


def real_container(pod: Manifest) -> Mapping[str, Any] | None:
    """The container of a pod that has a real process, or None."""
    for container in items(pod, "spec", "containers"):
        if repository(str(at(container, "image"))).endswith(REAL_IMAGE):
            return container
    return None


def last_words(log: str) -> str:
    """What in the end of a log tells best why its process ended: a panic or an error, else the last lines."""
    lines = log.splitlines()
    telling = [line for line in lines if line.startswith("panic:") or '"level":"ERROR"' in line]
    return telling[-1] if telling else "\n".join(lines[-_TAIL_LINES:])


class Kubelet:
    """Starts, watches and ends the processes of the pods that have one.

    Args:
        context: what the pods share.
        program: Karpenter's controller.
        reporter: told what happens.
    """

    def __init__(self, context: PodContext, program: Path, reporter: Reporter) -> None:
        self._context = context
        self._program = program
        self._reporter = reporter
        self._pods: dict[str, RealPod] = {}

    def step(self, pods: Sequence[Manifest], nodes: Sequence[Manifest]) -> None:
        """Bring every such pod a step further.

        Args:
            pods: all pods of the cluster.
            nodes: all its nodes.
        """
        by_name = {str(node["metadata"]["name"]): node for node in nodes}
        present: set[str] = set()
        for manifest in pods:
            container = real_container(manifest)
            node = by_name.get(str(at(manifest, "spec", "nodeName")))
            if container is None or node is None or at(manifest, "status", "phase") in {"Succeeded", "Failed"}:
                continue
            uid = str(manifest["metadata"]["uid"])
            present.add(uid)
            if uid not in self._pods:
                self._pods[uid] = RealPod(self._context, self._program, manifest, container)
            pod = self._pods[uid]
            pod.manifest = manifest
            if manifest["metadata"].get("deletionTimestamp"):
                self._finish(pod)
            else:
                self._advance(pod, node)
        for uid in set(self._pods) - present:
            pod = self._pods.pop(uid)
            if pod.running:
                pod.end(grace_s=5)
                self._say(pod, "stopped", "the pod is gone")

    def stop(self) -> None:
        """End all processes; none is left when it returns."""
        for pod in self._pods.values():
            pod.end(grace_s=5)
        self._pods.clear()

    def _advance(self, pod: RealPod, node: Manifest) -> None:
        if pod.running:
            pod.renew_tokens()
            ready = pod.probe()
            if ready != pod.ready:
                pod.ready = ready
                self._publish(pod, node)
                if ready:
                    self._say(pod, "ready", f"its process answers; log {pod.log.name}")
        elif pod.exit_code is not None:
            code = pod.collect()
            wait_s = _BACKOFF_S[min(pod.restarts, len(_BACKOFF_S)) - 1]
            pod.not_before = time.monotonic() + wait_s
            self._publish(pod, node, ("CrashLoopBackOff", f"back-off {wait_s}s restarting failed container"))
            self._say(pod, "exited", f"exit code {code}, restart in {wait_s} s:\n{last_words(tail(pod.log, 80))}")
        elif pod.admitted and time.monotonic() >= pod.not_before:
            self._start(pod, node)

    def _start(self, pod: RealPod, node: Manifest) -> None:
        try:
            pod.start(node)
        except (ContainerConfigError, KubeError, OSError) as error:
            pod.not_before = time.monotonic() + _BACKOFF_S[2]
            self._publish(pod, node, ("CreateContainerConfigError", str(error)))
            event = PodProcess(self._context.cluster.name, f"{pod.namespace}/{pod.name}", "failed", str(error))
            self._reporter.once(f"pod {pod.namespace}/{pod.name}", event)
            return
        self._publish(pod, node)
        self._say(pod, "started", f"real process on node {node['metadata']['name']}; log {pod.log.name}")

    def _finish(self, pod: RealPod) -> None:
        if pod.running:
            pod.terminate()
        else:
            self._context.api.delete("Pod", pod.name, pod.namespace, grace_period_s=0)
            self._say(pod, "stopped", "the pod was deleted")

    def _publish(self, pod: RealPod, node: Manifest, waiting: tuple[str, str] | None = None) -> None:
        status = {"status": pod.status(node, waiting)}
        try:
            self._context.api.patch("PodStatus", pod.name, status, pod.namespace)
        except KubeError as error:
            if not error.absent:
                raise

    def _say(self, pod: RealPod, state: str, detail: str) -> None:
        self._reporter.report(PodProcess(self._context.cluster.name, f"{pod.namespace}/{pod.name}", state, detail))
