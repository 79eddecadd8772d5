"""One pod whose process is real: its files, its process, and the status that a kubelet would report for it."""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from typing import Any

from rehearsal.compute import environment, podidentity
from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import AwsAccess
from rehearsal.compute.environment import ContainerConfigError
from rehearsal.compute.podidentity import Associations
from rehearsal.compute.tokens import API_LIFETIME_S, AWS_AUDIENCE, AWS_LIFETIME_S, TokenFile
from rehearsal.compute.tree import at, items
from rehearsal.kubernetes import kubeconfig
from rehearsal.kubernetes.api import KubeApi, Manifest
from rehearsal.processes import Run, free_port, spawn, stop


@dataclass(frozen=True)
class PodContext:
    """What all pods of a data plane share.

    Args:
        run: the run.
        cluster: the cluster.
        aws: the local AWS, which stands for the network that a pod reaches AWS through.
        api: the cluster's administrator, in the kubelet's place.
        folder: where the pods' files go, a folder each.
        associations: of EKS Pod Identity.
        agent_uri: where EKS Pod Identity's agent gives credentials.
    """

    run: Run
    cluster: ClusterAccess
    aws: AwsAccess
    api: KubeApi
    folder: Path
    associations: Associations
    agent_uri: str


class RealPod:
    """A pod, as manifest, and the process that runs for it.

    The process gets the container's environment, a service-account token bound to the pod, an IAM role the way EKS's
    pod identity webhook gives it, and nothing of this process's environment. ``METRICS_PORT`` and ``HEALTH_PROBE_PORT``
    are replaced by free ports, because all pods share this machine. Karpenter (1.14.1) binds both to all interfaces and
    has no option for another address (sigs.k8s.io/karpenter, ``pkg/operator/operator.go``): these are the only ports of
    a rehearsal that are not on loopback.

    Args:
        context: what it shares with others.
        program: the binary that stands for the container's image.
        manifest: the pod.
        container: the container of the pod whose process this is.
    """

    def __init__(self, context: PodContext, program: Path, manifest: Manifest, container: Mapping[str, Any]) -> None:
        self._context = context
        self._program = program
        self._container = container
        self._folder = context.folder / str(manifest["metadata"]["uid"])
        self._tokens = [TokenFile(self._folder / "token", None, API_LIFETIME_S)]
        self._health_port = 0
        self._process: Popen[bytes] | None = None
        self._started = ""
        self._last_exit: Manifest | None = None
        self.manifest = manifest
        self.name = str(manifest["metadata"]["name"])
        self.namespace = str(manifest["metadata"]["namespace"])
        self.restarts = 0
        self.ready = False
        self.not_before = 0.0
        self.stop_by: float | None = None

    @property
    def log(self) -> Path:
        """Where its process writes."""
        return self._context.run.logs / f"{self.name}.log"

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that has ended; None where there is none or it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """True while the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def admitted(self) -> bool:
        """Whether it is known what admission added to it."""
        return self._context.associations.known_at(self.manifest)

    def start(self, node: Manifest) -> None:
        """Make the pod's files and start its process.

        Raises:
            ContainerConfigError: the environment cannot be made.
            KubeError: its service account does not exist, or the API server does not answer.
            OSError: the program cannot be started.
        """
        variables = self._environment(node)
        self.renew_tokens()
        arguments = [str(argument) for argument in items(self._container, "args")]
        self._process = spawn(
            self._context.run, self.name, [self._program, *arguments], env=variables, cwd=self._folder
        )
        self._started = now()
        self.ready = False

    def renew_tokens(self) -> None:
        """Write each token that is missing or has lived most of its life; clients read the files again."""
        for token in self._tokens:
            token.renew(self._context.api, self._service_account, self.manifest)

    def probe(self) -> bool:
        """Ask the process whether it is ready (``GET /readyz``, as the chart's readiness probe does)."""
        connection = http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=1)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.client.OK
        except OSError:
            return False
        finally:
            connection.close()

    def collect(self) -> int:
        """Take note of an exit: it becomes the container's last state. Returns the exit code."""
        code = self.exit_code or 0
        self._last_exit = {
            "exitCode": code if code >= 0 else 128 - code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": self._started,
            "finishedAt": now(),
        }
        self._process = None
        self.ready = False
        self.restarts += 1
        return code

    def terminate(self) -> None:
        """SIGTERM the first time, SIGKILL when the pod's grace period is over; returns at once."""
        if self._process is None or self._process.poll() is not None:
            return
        if self.stop_by is None:
            grace = at(self.manifest, "metadata", "deletionGracePeriodSeconds")
            self.stop_by = time.monotonic() + (30 if grace is None else int(grace))
            self._process.terminate()
        elif time.monotonic() > self.stop_by:
            self._process.kill()

    def end(self, grace_s: float) -> None:
        """End the process now and return when it is gone."""
        if self._process is not None:
            stop(self._process, grace_s=grace_s)

    def status(self, node: Manifest, waiting: tuple[str, str] | None = None) -> Manifest:
        """The pod's status as it is now.

        Args:
            node: its node.
            waiting: reason and message of a container that does not run.
        """
        state: Manifest = {"running": {"startedAt": self._started}}
        if waiting is not None:
            state = {"waiting": {"reason": waiting[0], "message": waiting[1]}}
        is_ready = self.ready and waiting is None
        container: Manifest = {
            "name": self._container["name"],
            "image": self._container["image"],
            "imageID": "",
            "ready": is_ready,
            "started": waiting is None,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {} if self._last_exit is None else {"terminated": self._last_exit},
        }
        flags = {"Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
        conditions = [
            {"type": kind, "status": str(value), "lastTransitionTime": now()} for kind, value in flags.items()
        ]
        address = next((item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP"), None)
        return {
            "phase": "Running" if self._started else "Pending",
            "startTime": at(self.manifest, "status", "startTime") or now(),
            "hostIP": address,
            "conditions": conditions,
            "containerStatuses": [container],
        }

    @property
    def _service_account(self) -> str:
        return str(at(self.manifest, "spec", "serviceAccountName") or "default")

    def _environment(self, node: Manifest) -> dict[str, str]:
        context = self._context
        account = context.api.find("ServiceAccount", self._service_account, self.namespace)
        if account is None:
            raise ContainerConfigError(f"service account {self.namespace}/{self._service_account} does not exist")
        aws_token = self._folder / "aws-token"
        audience = AWS_AUDIENCE
        if context.associations.holds(self.manifest):  # wins over a role annotation, as in EKS's webhook
            audience = podidentity.AUDIENCE
            role = podidentity.variables(context.agent_uri, str(aws_token), context.aws.region)
        else:
            role = environment.of_role(account, str(aws_token), context.aws.region)
        if role and len(self._tokens) == 1:
            self._tokens.append(TokenFile(aws_token, audience, AWS_LIFETIME_S))
        own_config = kubeconfig.by_token_file(
            self._folder / "kubeconfig",
            name=context.cluster.name,
            endpoint=context.cluster.endpoint,
            ca_pem=context.cluster.ca_pem,
            token_file=self._folder / "token",
        )
        self._health_port = free_port()
        own = environment.of_container(self.manifest, self._container, node["status"]["allocatable"])
        return {
            "PATH": os.defpath,
            "HOME": str(self._folder),
            "HOSTNAME": self.name,
            # In a pod it is read from the file that is mounted beside the token.
            "LEADER_ELECTION_NAMESPACE": self.namespace,
            **role,
            **own,
            "METRICS_PORT": str(free_port()),
            "HEALTH_PROBE_PORT": str(self._health_port),
            "KUBECONFIG": str(own_config),
            "AWS_ENDPOINT_URL": context.aws.endpoint_url,
            # aws-sdk-go-v2 makes the STS client of a web identity before it reads AWS_ENDPOINT_URL (config/config.go).
            "AWS_ENDPOINT_URL_STS": context.aws.endpoint_url,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def now() -> str:
    """The time now, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
