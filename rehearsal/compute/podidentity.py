"""EKS Pod Identity on the nodes: what admission adds to a pod, and the agent that gives the pod its credentials.

On AWS the agent is a DaemonSet of the add-on ``eks-pod-identity-agent``, which listens on a link-local address of each
node and calls EKS Auth with the node's role. Here one HTTP server on loopback stands for all of them, as long as the
add-on is there. Variables, audience and file as in the Amazon EKS user guide, "Understand how EKS Pod Identity works".
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from botocore.exceptions import BotoCoreError, ClientError

from rehearsal.compute.aws import AwsView, error_code
from rehearsal.compute.node import Machine
from rehearsal.compute.notices import PodIdentityRefused, Reporter
from rehearsal.compute.tree import at
from rehearsal.kubernetes.api import KubeApi, Manifest

AUDIENCE = "pods.eks.amazonaws.com"
ADDON = "eks-pod-identity-agent"
PATH = "/v1/credentials"


def variables(uri: str, token_file: str, region: str) -> dict[str, str]:
    """What admission adds to the containers of a pod whose service account has an association."""
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": uri,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token_file,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_STS_REGIONAL_ENDPOINTS": "regional",
    }


class Associations:
    """The associations of a cluster, as admission knows them: looked up by a loop, read by the kubelet.

    Args:
        cluster: name of the cluster.
        aws: the local AWS.
    """

    def __init__(self, cluster: str, aws: AwsView) -> None:
        self._cluster = cluster
        self._aws = aws
        self._lock = threading.Lock()
        self._made: dict[tuple[str, str], float] = {}
        self._looked_at = 0.0

    def step(self) -> None:
        """Look the associations up."""
        began = time.time()
        found = self._aws.pod_identities(self._cluster)
        with self._lock:
            self._made, self._looked_at = found, began

    def known_at(self, pod: Manifest) -> bool:
        """Whether they were looked up since the pod was admitted, so that :meth:`holds` can answer for it."""
        with self._lock:
            return self._looked_at >= _admitted(pod)

    def holds(self, pod: Manifest) -> bool:
        """Whether the pod was admitted after its service account got an association; earlier pods get nothing."""
        account = str(at(pod, "spec", "serviceAccountName") or "default")
        with self._lock:
            made = self._made.get((str(pod["metadata"]["namespace"]), account))
        # Kubernetes stamps whole seconds.
        return made is not None and int(made) <= _admitted(pod)


class Agent:
    """The agent of all nodes of a cluster, on loopback.

    Args:
        cluster: name of the cluster.
        api: the cluster's administrator, to find the node of a pod.
        machine: node name -> the machine behind it, whose role calls EKS Auth; None where it is not known.
        aws: the local AWS.
        reporter: told of every refusal.
    """

    def __init__(
        self,
        cluster: str,
        api: KubeApi,
        machine: Callable[[str], Machine | None],
        aws: AwsView,
        reporter: Reporter,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._machine = machine
        self._aws = aws
        self._reporter = reporter
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}{PATH}"

    def start(self) -> None:
        """Answer, in a thread."""
        threading.Thread(
            target=self._server.serve_forever, args=(0.1,), daemon=True, name=f"{self._cluster}-pod-identity"
        ).start()

    def stop(self) -> None:
        """Answer no more; an answer that is under way is not waited for."""
        self._server.shutdown()
        self._server.server_close()

    def credentials(self, token: str) -> tuple[int, dict[str, Any]]:
        """The answer to one request: an HTTP status, and credentials or the reason why there are none.

        Args:
            token: what the pod sent as its authorisation.
        """
        try:
            if not self._aws.addon_is_active(self._cluster, ADDON):
                return self._refuse(503, f"the cluster has no active add-on {ADDON}, so that no agent answers pods")
            claims = jwt.decode(token, options={"verify_signature": False})
            name, namespace = (
                str(at(claims, "kubernetes.io", "pod", "name")),
                str(at(claims, "kubernetes.io", "namespace")),
            )
            pod = self._api.find("Pod", name, namespace)
            machine = self._machine(str(at(pod, "spec", "nodeName"))) if pod else None
            role = self._aws.instance_role(machine.instance) if machine else None
            if machine is None or role is None:
                return self._refuse(403, f"pod {namespace}/{name} runs on no node whose role could ask for it")
            found = self._aws.assume_for_pod(self._cluster, token, role, str(machine.instance["InstanceId"]))
        except jwt.InvalidTokenError as error:
            return self._refuse(400, f"what a pod sent is no token: {error}")
        except ClientError as error:
            return self._refuse(400, f"{error_code(error)}: {error.response.get('Error', {}).get('Message', '')}")
        except BotoCoreError as error:
            return self._refuse(503, str(error))
        credentials = found["credentials"]
        return 200, {
            "AccessKeyId": credentials["accessKeyId"],
            "SecretAccessKey": credentials["secretAccessKey"],
            "Token": credentials["sessionToken"],
            "AccountId": self._aws.access.account_id,
            "Expiration": _iso(credentials["expiration"]),
        }

    def _refuse(self, status: int, why: str) -> tuple[int, dict[str, Any]]:
        self._reporter.once(f"pod identity {why}", PodIdentityRefused(self._cluster, why))
        return status, {"message": why}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.credentials

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != PATH:
                    self.send_error(404)
                    return
                status, content = answer(self.headers.get("Authorization", ""))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Keep quiet; refusals are told as notices."""

        return Handler


def _admitted(pod: Mapping[str, Any]) -> float:
    """When a pod was admitted, seconds since the epoch."""
    return datetime.fromisoformat(str(pod["metadata"]["creationTimestamp"])).timestamp()


def _iso(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
