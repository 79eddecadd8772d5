# MiniStack is untyped and has no public extension points; this package is the only one that reaches into it.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
"""EKS: a cluster gets a real control plane, its tokens are verified by STS, its access entries become RBAC.

MiniStack starts a cluster in a Docker container or, without Docker, not at all. Here ``CreateCluster`` starts what the
run hands in (:class:`ClusterBackend`) and answers when it is there.
"""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

from cryptography.hazmat.primitives import serialization
from ministack.core.responses import get_account_id, get_region
from ministack.services import ec2, eks, kms

from rehearsal.aws.events import EventLog

Answer: TypeAlias = tuple[int, dict[str, str], bytes]
ACCESS_POLICY_LABEL = "rehearsal.eks/access-policy=managed"
"""Marks the RBAC objects that stand for access policies; on AWS they are evaluated outside the cluster."""

_UPDATE_TYPES = {
    "deletionProtection": "DeletionProtectionUpdate",
    "upgradePolicy": "UpgradePolicyUpdate",
    "logging": "LoggingUpdate",
}

TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - the form of a token, not one


@dataclass(frozen=True)
class ClusterSpec:
    """What EKS was asked for, as far as a control plane needs to know.

    Args:
        name: of the cluster.
        version: Kubernetes minor version, for example ``1.33``.
        account: twelve digits.
        region: for example ``us-west-2``.
        service_cidr: range of service addresses.
        issuer: OIDC issuer of the cluster's service-account tokens, a URL.
        signing_key_pem: private key that signs those tokens; the issuer publishes its public half.
        token_webhook: URL of the TokenReview webhook.
    """

    name: str
    version: str
    account: str
    region: str
    service_cidr: str
    issuer: str
    signing_key_pem: bytes
    token_webhook: str


class ClusterBackend(Protocol):
    """A running cluster."""

    @property
    def endpoint(self) -> str:
        """URL of the API server."""
        ...

    @property
    def ca_pem(self) -> bytes:
        """Certificate of the authority that signed the API server's."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig."""
        ...

    def namespaces(self) -> Sequence[str]:
        """Names of the cluster's namespaces."""
        ...

    def reconcile(self, objects: Sequence[dict[str, Any]], label: str) -> object:
        """Make these RBAC objects so, and remove those with the label that are not among them."""
        ...

    def stop(self) -> None:
        """End every process of the cluster; returns when they are gone."""
        ...


class Clusters:
    """The clusters of the emulation and what runs behind them.

    Args:
        gateway: URL of the emulation.
        start: starts what a cluster needs; raises with a message for the user when it cannot.
        log: the run's events.
    """

    def __init__(self, gateway: str, start: Callable[[ClusterSpec], ClusterBackend], log: EventLog) -> None:
        self._gateway = urllib.parse.urlsplit(gateway)
        self._start = start
        self._log = log
        self._backends: dict[str, ClusterBackend] = {}
        self._create = eks._create_cluster
        self._delete = eks._delete_cluster
        self._create_nodegroup = eks._create_nodegroup
        self._delete_nodegroup = eks._delete_nodegroup
        self._route = eks._handle_request_sync

    def install(self) -> None:
        """Put ours in the place of MiniStack's functions."""
        eks._create_cluster = self.create
        eks._delete_cluster = self.delete
        eks._create_nodegroup = self.create_nodegroup
        eks._delete_nodegroup = self.delete_nodegroup
        eks._verify_eks_token = self.verify_token
        eks._handle_request_sync = self.route
        eks._schedule_access_policy_reconcile = self.reconcile_access

    def stop(self) -> None:
        """End every cluster that is still running."""
        for name in list(self._backends):
            self._backends.pop(name).stop()

    def create(self, body: dict[str, Any], creator_arn: str | None = None) -> Answer:
        """``CreateCluster``: answers when the control plane serves; an error of it is the API's error."""
        answer: Answer = self._create(body, creator_arn)
        if answer[0] >= 400:
            return answer
        name: str = body["name"]
        record: dict[str, Any] = eks._clusters[name]
        record["deletionProtection"] = bool(body.get("deletionProtection", False))
        record["upgradePolicy"] = body.get("upgradePolicy") or {"supportType": "EXTENDED"}
        try:
            self._give_network(record)
            backend = self._start(self._spec(record))
        except Exception as error:
            # The API must answer whatever went wrong; the cause reaches the user through CloudFormation and the events.
            self._delete(name)
            self._log.write("cluster-failed", f"EKS cluster {name} could not be started: {error}", cluster=name)
            return eks._error(500, "ServerException", f"cluster {name} could not be started: {error}")
        self._backends[name] = backend
        record["endpoint"] = backend.endpoint
        record["certificateAuthority"] = {"data": base64.b64encode(backend.ca_pem).decode()}
        record["status"] = "ACTIVE"
        self.reconcile_access(name)
        self._log.write(
            "cluster-active",
            f"EKS cluster {name} serves at {backend.endpoint}",
            cluster=name,
            kubeconfig=str(backend.kubeconfig),
        )
        return eks._json_resp(200, {"cluster": eks._sanitize(record)})

    def delete(self, name: str) -> Answer:
        """``DeleteCluster``: answers when every process of the cluster is gone."""
        record: dict[str, Any] | None = eks._clusters.get(name)
        if record is not None and record.get("deletionProtection"):
            said = f"Cluster {name} has deletion protection enabled; turn it off before you delete the cluster."
            self._log.write("cluster-protected", said, cluster=name)
            return eks._error(400, "InvalidRequestException", said)
        backend = self._backends.pop(name, None)
        if backend is not None:
            backend.stop()
        answer: Answer = self._delete(name)
        if record is not None:
            ec2._delete_security_group({"GroupId": [record["resourcesVpcConfig"]["clusterSecurityGroupId"]]})
        return answer

    def route(self, method: str, path: str, *rest: Any) -> Answer:
        """``UpdateClusterConfig``, which MiniStack lacks, before MiniStack's own operations."""
        found = re.fullmatch(r"/clusters/([A-Za-z0-9_-]+)/update-config", path)
        if method == "POST" and found:
            return self.update_config(found[1], json.loads(rest[1] or b"{}"))
        return self._route(method, path, *rest)

    def update_config(self, name: str, body: Mapping[str, Any]) -> Answer:
        """``UpdateClusterConfig``, of what can be told from a cluster afterwards; done when it answers."""
        record: dict[str, Any] | None = eks._clusters.get(name)
        if record is None:
            return eks._error(404, "ResourceNotFoundException", f"No cluster found for name: {name}.")
        changed = {key: body[key] for key in ("deletionProtection", "upgradePolicy", "logging") if key in body}
        unknown = set(body) - set(changed) - {"clientRequestToken"}
        if unknown or not changed:
            asked = ", ".join(sorted(unknown)) or "nothing"
            return eks._error(400, "InvalidRequestException", f"the rehearsal does not simulate a change of {asked}")
        record.update(changed)
        update = {
            "id": str(uuid.uuid4()),
            "status": "Successful",
            "type": _UPDATE_TYPES[next(iter(changed))],
            "params": [
                {"type": key[0].upper() + key[1:], "value": json.dumps(value)} for key, value in changed.items()
            ],
            "createdAt": int(time.time()),
            "errors": [],
        }
        return eks._json_resp(200, {"update": update})

    def create_nodegroup(self, cluster_name: str, body: dict[str, Any]) -> Answer:
        """``CreateNodegroup``: EKS makes the access entry of the group's node role itself."""
        answer: Answer = self._create_nodegroup(cluster_name, body)
        if answer[0] < 400:
            eks._create_access_entry(cluster_name, {"principalArn": body["nodeRole"], "type": "EC2_LINUX"})
        return answer

    def delete_nodegroup(self, cluster_name: str, nodegroup_name: str) -> Answer:
        """``DeleteNodegroup``: the access entry goes with the last group that has the role."""
        group: dict[str, Any] | None = eks._nodegroups.get(f"{cluster_name}/{nodegroup_name}")
        answer: Answer = self._delete_nodegroup(cluster_name, nodegroup_name)
        if group is not None:
            roles = {g["nodeRole"] for g in eks._nodegroups.values() if g["clusterName"] == cluster_name}
            if group["nodeRole"] not in roles:
                eks._delete_access_entry(cluster_name, group["nodeRole"])
        return answer

    def reconcile_access(self, cluster_name: str, account_id: str | None = None, region: str | None = None) -> None:
        """Make the cluster's RBAC say what its access entries and their policies say."""
        backend = self._backends.get(cluster_name)
        if backend is not None:
            objects: list[dict[str, Any]] = eks._access_policy_rbac_objects(
                cluster_name, account_id or get_account_id(), region or get_region(), backend.namespaces()
            )
            backend.reconcile(objects, ACCESS_POLICY_LABEL)

    def verify_token(self, token: str, cluster_name: str) -> SimpleNamespace | None:
        """Who signed an EKS token, found as EKS finds it: the token is a signed STS request, and STS answers it.

        Returns:
            ``principal_arn`` and ``principal_id``, or None where the token is not one, is signed for another cluster,
            or STS refuses it.
        """
        try:
            encoded = token.removeprefix(TOKEN_PREFIX)
            url = urllib.parse.urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
            query = urllib.parse.parse_qs(url.query, strict_parsing=True)
        except ValueError:
            return None
        if not token.startswith(TOKEN_PREFIX) or not self._is_identity_request(url, query):
            return None
        request = urllib.request.Request(
            f"http://{self._gateway.netloc}/?{url.query}", headers={"Host": url.netloc, "x-k8s-aws-id": cluster_name}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
                identity = response.read().decode()
        except urllib.error.HTTPError:
            return None
        arn, user = re.search(r"<Arn>(.+?)</Arn>", identity), re.search(r"<UserId>(.+?)</UserId>", identity)
        return SimpleNamespace(principal_arn=arn[1], principal_id=user[1]) if arn and user else None

    def _is_identity_request(self, url: urllib.parse.SplitResult, query: Mapping[str, list[str]]) -> bool:
        hosts = {self._gateway.netloc, f"127.0.0.1:{self._gateway.port}"}
        signed = query.get("X-Amz-SignedHeaders", [""])[0].split(";")
        return (
            (url.netloc in hosts or re.fullmatch(r"sts\.[a-z0-9-]+\.amazonaws\.com", url.netloc) is not None)
            and query.get("Action") == ["GetCallerIdentity"]
            and {"host", "x-k8s-aws-id"} <= set(signed)
        )

    def _give_network(self, record: dict[str, Any]) -> None:
        """Make the cluster security group, as EKS does (user guide, "Amazon EKS security group requirements")."""
        network: dict[str, Any] = record["resourcesVpcConfig"]
        subnets = [ec2._subnets[subnet] for subnet in network["subnetIds"] if subnet in ec2._subnets]
        if not subnets:
            raise ValueError(f"none of the subnets {network['subnetIds']} exists")
        network["vpcId"] = subnets[0]["VpcId"]
        before = set(ec2._security_groups)
        name = record["name"]
        answer: Answer = ec2._create_security_group(
            {
                "GroupName": [f"eks-cluster-sg-{name}"],
                "GroupDescription": ["EKS created security group applied to ENI of the control plane and nodes"],
                "VpcId": [network["vpcId"]],
            }
        )
        made = set(ec2._security_groups) - before
        if answer[0] >= 400 or len(made) != 1:
            raise ValueError(f"the cluster security group could not be made: {answer[2].decode(errors='replace')}")
        network["clusterSecurityGroupId"] = made.pop()
        ec2._tags[network["clusterSecurityGroupId"]] = [
            {"Key": "Name", "Value": f"eks-cluster-sg-{name}"},
            {"Key": "aws:eks:cluster-name", "Value": name},
            {"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"},
        ]

    def _spec(self, record: dict[str, Any]) -> ClusterSpec:
        account, region, name = get_account_id(), get_region(), record["name"]
        key, _, _ = eks._get_oidc_keypair()
        return ClusterSpec(
            name=name,
            version=str(record["version"]),
            account=account,
            region=region,
            service_cidr=record["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
            issuer=record["identity"]["oidc"]["issuer"],
            signing_key_pem=key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            token_webhook=(
                f"http://{self._gateway.netloc}/_ministack/eks-auth/{account}/{region}/{name}/{record['_auth_token']}"
            ),
        )


def apply_properties(name: str, properties: Mapping[str, Any]) -> None:
    """Take over what an ``AWS::EKS::Cluster`` says and MiniStack's own type leaves out."""
    record: dict[str, Any] = eks._clusters[name]
    encryption = [
        {"resources": config.get("Resources", []), "provider": {"keyArn": config["Provider"]["KeyArn"]}}
        for config in properties.get("EncryptionConfig", [])
    ]
    record["encryptionConfig"] = encryption
    record["deletionProtection"] = str(properties.get("DeletionProtection", False)).lower() == "true"
    support = properties.get("UpgradePolicy", {}).get("SupportType")
    record["upgradePolicy"] = {"supportType": support or "EXTENDED"}


def check_keys(properties: Mapping[str, Any]) -> None:
    """See that the keys that are to encrypt a cluster's secrets can be used.

    Raises:
        ValueError: one does not exist or is not enabled.
    """
    for config in properties.get("EncryptionConfig", []):
        arn = config["Provider"]["KeyArn"]
        key: dict[str, Any] | None = kms._resolve_key(arn)
        if key is None or key.get("KeyState", "Enabled") != "Enabled":
            raise ValueError(f"the key {arn}, which is to encrypt secrets, does not exist or is not enabled")


def delete_cluster(name: str) -> None:
    """Delete a cluster as CloudFormation does; one that is gone is no error.

    Raises:
        ValueError: EKS refuses, with what it says.
    """
    status, _, body = eks._delete_cluster(name)
    if status >= 400 and status != 404:
        raise ValueError(json.loads(body).get("message", body.decode(errors="replace")))
