"""The data plane of one cluster: its node groups, its nodes, their pods and their GPUs, in threads of this process.

What is real: KWOK, Karpenter's process. What is simulated: the EKS service's work on node groups, nodeadm, kubelets,
the cloud controller manager, the device plugin's registration.
"""

from __future__ import annotations

import logging
import threading
from subprocess import Popen

from rehearsal.compute import kwok
from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import AwsAccess, AwsView
from rehearsal.compute.gpus import Gpus
from rehearsal.compute.kubelet import Kubelet
from rehearsal.compute.loop import Loop
from rehearsal.compute.nodegroups import Nodegroups
from rehearsal.compute.nodes import Nodes
from rehearsal.compute.notices import Reporter, Sink, Trouble
from rehearsal.compute.podidentity import Agent, Associations
from rehearsal.compute.podprocess import PodContext
from rehearsal.kubernetes.api import KubeApi
from rehearsal.processes import Run, stop, tail
from rehearsal.tools.toolbox import Toolbox

log = logging.getLogger(__name__)

_FAREWELL_S = 5.0
"""Seconds that the last clearing of node groups may hold up :meth:`DataPlane.stop`."""


class DataPlane:
    """Everything that stands behind a cluster's API server; made, then started, then stopped once.

    Args:
        run: the run it belongs to.
        tools: KWOK, Karpenter and the version of the kubelets.
        cluster: the cluster.
        aws: the local AWS.
        sink: takes what happens, from any thread.
    """

    def __init__(self, run: Run, tools: Toolbox, cluster: ClusterAccess, aws: AwsAccess, sink: Sink) -> None:
        self._run = run
        self._tools = tools
        self._cluster = cluster
        self._folder = run.folder / "clusters" / cluster.name / "data-plane"
        self._kwok: Popen[bytes] | None = None
        self._reporter = Reporter(cluster.name, sink)
        self._api = KubeApi(cluster.kubeconfig, manager="kubelet")
        view = AwsView(aws)
        self._nodegroups = Nodegroups(cluster, view, self._reporter)
        self._nodes = Nodes(cluster, self._api, view, tools.kubernetes_version, self._reporter)
        self._associations = Associations(cluster.name, view)
        self._agent = Agent(cluster.name, self._api, self._nodes.machine, view, self._reporter)
        context = PodContext(run, cluster, aws, self._api, self._folder / "pods", self._associations, self._agent.uri)
        self._kubelet = Kubelet(context, tools.karpenter, self._reporter)
        self._gpus = Gpus(self._api, self._nodes.machine, self._reporter)
        self._aws_loops = [
            Loop("node groups", self._nodegroups.step, 1.0, self._reporter),
            Loop("nodes", self._nodes.step, 0.5, self._reporter),
            Loop("pod identities", self._associations.step, 0.5, self._reporter),
        ]
        # These two start processes and never call AWS, so that they can always be waited for.
        self._process_loops = [
            Loop("pods", self._pods_step, 0.3, self._reporter),
            Loop("kwok", self._kwok_step, 1.0, self._reporter),
        ]

    def start(self) -> None:
        """Start KWOK and the threads; returns at once and calls nothing of AWS itself.

        Raises:
            OSError: KWOK cannot be started.
        """
        self._start_kwok()
        self._agent.start()
        for loop in self._aws_loops + self._process_loops:
            loop.start()

    def stop(self) -> None:
        """End the threads and every process; none is left when it returns. Call it before the control plane's stop.

        The instances of node groups are terminated and their profiles deleted on the way. That calls AWS: where this is
        called on the thread that serves it, it goes on in the background until that thread is free.
        """
        for loop in self._aws_loops + self._process_loops:
            loop.cancel()
        for loop in self._process_loops:
            loop.join()
        self._kubelet.stop()
        self._agent.stop()
        if self._kwok is not None:
            stop(self._kwok)
        farewell = threading.Thread(target=self._farewell, name=f"{self._cluster.name}-farewell", daemon=True)
        farewell.start()
        farewell.join(_FAREWELL_S)

    def _farewell(self) -> None:
        for loop in self._aws_loops:
            loop.join()
        try:
            self._nodegroups.remove_all()
        except Exception as error:  # the local AWS may be going too; what is left behind shows in the census
            log.debug("node groups could not be cleared", exc_info=True)
            self._reporter.report(Trouble(self._cluster.name, "node groups", f"not cleared: {error}"))
        self._api.close()

    def _pods_step(self) -> None:
        pods, nodes = self._api.list("Pod"), self._api.list("Node")
        self._kubelet.step(pods, nodes)
        self._gpus.step(pods, nodes)

    def _kwok_step(self) -> None:
        if self._kwok is None or self._kwok.poll() is None:
            return
        name = f"{self._cluster.name}-kwok"
        reason = f"ended with exit code {self._kwok.returncode}, started again:\n"
        self._reporter.report(Trouble(self._cluster.name, "kwok", reason + tail(self._run.logs / f"{name}.log", 8)))
        self._start_kwok()

    def _start_kwok(self) -> None:
        self._kwok = kwok.start(
            self._run, self._tools.kwok, self._cluster.name, self._cluster.kubeconfig, self._folder / "kwok"
        )
