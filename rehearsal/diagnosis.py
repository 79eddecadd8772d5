"""Why a step did not hold: what was refused, what is not ready, what does not fit, in words that lead to the cause."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rehearsal.aws.events import EventLog
from rehearsal.compute.gpus import runs_device_plugin
from rehearsal.kubernetes.api import KubeApi, KubeError, Manifest
from rehearsal.processes import Run

DEVICE_PLUGIN_IMAGE = "k8s-device-plugin"
_REFUSALS = ("access-denied", "web-identity-denied", "pod-identity-denied")
_REQUEST_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Diagnosis:
    """Looks at a run and its cluster when something did not happen.

    Args:
        run: whose logs are read.
        events: what the cloud wrote.
        kube: the cluster, as an administrator.
    """

    def __init__(self, run: Run, events: EventLog, kube: KubeApi) -> None:
        self._run = run
        self._events = events
        self._kube = kube

    def refusals(self, since: float, kinds: Iterable[str] = _REFUSALS) -> list[str]:
        """What AWS refused since a moment (seconds since the epoch), each once, oldest first."""
        wanted = frozenset(kinds)
        return list(dict.fromkeys(e.text for e in self._events.read() if e.kind in wanted and e.at >= since))

    def not_ready(self) -> list[str]:
        """NodePools and EC2NodeClasses whose conditions say no, with the reason."""
        found: list[str] = []
        for kind in ("EC2NodeClass", "NodePool"):
            for item in self._list(kind):
                for condition in item.get("status", {}).get("conditions", []):
                    if condition["status"] == "False":
                        said = condition.get("message") or condition.get("reason", "")
                        found.append(f"{kind} {item['metadata']['name']}: {condition['type']} is False: {said}")
        return found

    def pools_absent(self) -> list[str]:
        """Says so where the cluster has no NodePool at all."""
        return [] if self._list("NodePool") else ["the cluster has no NodePool, so Karpenter has nothing to buy from"]

    def karpenter(self) -> list[str]:
        """Says so where no Karpenter pod is ready."""
        pods = [pod for pod in self._list("Pod") if "karpenter/controller" in json.dumps(pod["spec"])]
        if not pods:
            return ["no pod runs Karpenter's controller"]
        states = [f"{pod['metadata']['name']} is {_readiness(pod)}" for pod in pods]
        return [] if any(_readiness(pod) == "ready" for pod in pods) else ["Karpenter: " + ", ".join(states)]

    def unready_workloads(self) -> list[str]:
        """Deployments and DaemonSets that have fewer ready pods than they want."""
        found: list[str] = []
        for kind, wants, has in (
            ("Deployment", ("spec", "replicas"), "readyReplicas"),
            ("DaemonSet", ("status", "desiredNumberScheduled"), "numberReady"),
        ):
            for item in self._list(kind):
                status, metadata = item.get("status", {}), item["metadata"]
                wanted, ready = item.get(wants[0], {}).get(wants[1], 0), status.get(has, 0)
                seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
                if ready < wanted or not seen:
                    found.append(f"{kind} {metadata['namespace']}/{metadata['name']}: {ready} of {wanted} pods ready")
        return found

    def unscheduled(self) -> list[str]:
        """Pods that no node takes, with what the scheduler says."""
        return [
            f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}: {condition.get('message', '')}"
            for pod in self._list("Pod")
            for condition in pod.get("status", {}).get("conditions", [])
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]

    def device_plugin(self, node: Manifest) -> list[str]:
        """Why no device plugin runs on a node."""
        plugins = [item for item in self._list("DaemonSet") if runs_device_plugin(item["spec"]["template"]["spec"])]
        name = node["metadata"]["name"]
        if not plugins:
            return [
                f"nvidia.com/gpu is registered by NVIDIA's device plugin, and no DaemonSet runs {DEVICE_PLUGIN_IMAGE}"
            ]
        found: list[str] = []
        for plugin in plugins:
            pod: Manifest = plugin["spec"]["template"]["spec"]
            title = f"DaemonSet {plugin['metadata']['namespace']}/{plugin['metadata']['name']}"
            refused = [taint for taint in node["spec"].get("taints", []) if not _tolerated(taint, pod)]
            for taint in refused:
                said = f"{taint['key']}={taint['value']}" if taint.get("value") else taint["key"]
                found.append(
                    f"node {name} has the taint {said}:{taint['effect']} and {title} does not tolerate it, so the "
                    f"plugin's pod never runs there; it tolerates: {_tolerations(pod) or 'nothing'}"
                )
            if not refused:
                found.append(f"{title} tolerates the taints of {name}; look at its node affinity and its pods' events")
        return found

    def pod(self, name: str, namespace: str) -> list[str]:
        """What the scheduler says of a pod."""
        pod = self._kube.find("Pod", name, namespace)
        if pod is None:
            return [f"pod {namespace}/{name} is gone"]
        conditions = pod.get("status", {}).get("conditions", [])
        return [f"pod {name}: {c.get('reason')}: {c.get('message')}" for c in conditions if c["status"] == "False"]

    def karpenter_log(self, since: float = 0, lines: int = 6) -> str:
        """What Karpenter's pods logged since a moment: the last errors and warnings, each once, or the last lines."""
        telling: dict[str, tuple[str, str]] = {}
        plain: dict[str, tuple[str, str]] = {}
        for file in sorted(self._run.logs.glob("*karpenter*.log")):
            for line in file.read_text(errors="replace").splitlines():
                entry = _entry(line)
                if _seconds(entry) < since:
                    continue
                shown = [f"{key}={entry[key]}" for key in ("message", "error", "NodeClass", "NodePool") if key in entry]
                text = f"{entry.get('level', '')} {' '.join(shown) or line}".strip()
                rows = telling if entry.get("level") in ("ERROR", "WARN", "PANIC") else plain
                rows[_REQUEST_ID.sub("", text)] = (str(entry.get("time", "")), text)
        return "\n".join(text for _, text in sorted((telling or plain).values())[-lines:])

    def _list(self, kind: str) -> list[Manifest]:
        try:
            return self._kube.list(kind)
        except KubeError as error:
            if error.absent:  # the CRD is not there
                return []
            raise


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _seconds(entry: dict[str, Any]) -> float:
    """When an entry was written, seconds since the epoch; without a time it counts as new."""
    return datetime.fromisoformat(entry["time"]).timestamp() if "time" in entry else float("inf")


def _readiness(pod: Manifest) -> str:
    status = pod.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            return "ready"
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"not scheduled ({condition.get('message', '')})"
    waiting = [c["state"].get("waiting", {}).get("reason") for c in status.get("containerStatuses", [])]
    return ", ".join(reason for reason in waiting if reason) or str(status.get("phase", "unknown"))


def _tolerated(taint: Manifest, pod: Manifest) -> bool:
    """Whether a pod tolerates a taint (Kubernetes documentation, "Taints and Tolerations")."""
    if taint["effect"] == "PreferNoSchedule":
        return True
    for toleration in pod.get("tolerations", []):
        if toleration.get("effect") not in (None, "", taint["effect"]):
            continue
        if toleration.get("operator") == "Exists":
            if toleration.get("key") in (None, "", taint["key"]):
                return True
        elif toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""):
            return True
    return False


def _tolerations(pod: Manifest) -> str:
    return ", ".join(
        f"{t.get('key') or 'every key'}{'=' + t['value'] if t.get('value') else ''}:{t.get('effect') or 'every effect'}"
        for t in pod.get("tolerations", [])
    )
