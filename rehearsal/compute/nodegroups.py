"""Managed node groups: what the EKS service itself does on AWS, which is to keep their instances at the desired number.

Simulated thinner than AWS does it: instances are launched directly instead of through an Auto Scaling group, of the
group's first instance type, with user data of EKS's own (that of a launch template is not merged); there are no rolling
updates.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from rehearsal.compute.access import ClusterAccess
from rehearsal.compute.aws import ALIVE, Answer, AwsView, error_code, tags
from rehearsal.compute.nodeadm import NodeConfig, render
from rehearsal.compute.notices import NodegroupInstance, Reporter, Trouble
from rehearsal.compute.tree import at, items, mapping

_AMI_TYPES = {
    "AL2023_x86_64_STANDARD": "x86_64/standard",
    "AL2023_ARM_64_STANDARD": "arm64/standard",
    "AL2023_x86_64_NVIDIA": "x86_64/nvidia",
    "AL2023_ARM_64_NVIDIA": "arm64/nvidia",
    "AL2023_x86_64_NEURON": "x86_64/neuron",
}
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_CLUSTER_TAG = "eks:cluster-name"
_GROUP_TAG = "eks:nodegroup-name"


class NodegroupError(Exception):
    """A node group asks for what is not simulated."""


def profile_name(cluster: str, group: str) -> str:
    """Name of the instance profile that EKS makes for a node group: ``eks-`` and a UUID, here the same every time."""
    digest = hashlib.sha256(f"{cluster}/{group}".encode()).digest()
    return f"eks-{uuid.UUID(bytes=digest[:16])}"


def node_config(cluster: ClusterAccess, group: Answer, image_id: str, service_cidr: str) -> NodeConfig:
    """The NodeConfig that EKS puts into the user data of a group's instances."""
    labels = {
        **{str(key): str(value) for key, value in mapping(group, "labels").items()},
        "eks.amazonaws.com/nodegroup": str(group["nodegroupName"]),
        "eks.amazonaws.com/capacityType": str(group.get("capacityType") or "ON_DEMAND"),
        "eks.amazonaws.com/nodegroup-image": image_id,
    }
    taints = [
        {"key": taint["key"], "value": taint.get("value") or "", "effect": _EFFECTS[taint["effect"]]}
        for taint in items(group, "taints")
    ]
    flag = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return NodeConfig(
        cluster_name=cluster.name,
        endpoint=cluster.endpoint,
        certificate_authority=base64.b64encode(cluster.ca_pem).decode(),
        cidr=service_cidr,
        kubelet_config={"registerWithTaints": taints} if taints else {},
        kubelet_flags=(f"--node-labels={flag}",),
    )


class Nodegroups:
    """Keeps the instances of a cluster's managed node groups at the number that each group desires.

    Args:
        cluster: the cluster.
        aws: the local AWS.
        reporter: told what happens.
    """

    def __init__(self, cluster: ClusterAccess, aws: AwsView, reporter: Reporter) -> None:
        self._cluster = cluster
        self._aws = aws
        self._reporter = reporter
        self._known: set[str] = set()

    def step(self) -> None:
        """Look at all groups once."""
        try:
            names = self._aws.eks.list_nodegroups(clusterName=self._cluster.name)["nodegroups"]
        except self._aws.eks.exceptions.ResourceNotFoundException:
            names = []
        by_group = self._instances()
        for name in names:
            self._known.add(name)
            try:
                self._settle(name, by_group.get(name, []))
                self._reporter.forget(f"nodegroup {name}")
            except self._aws.eks.exceptions.ResourceNotFoundException:
                continue  # deleted since it was listed; the next look finds it gone
            except (ClientError, NodegroupError) as error:
                trouble = Trouble(self._cluster.name, f"node group {name}", str(error))
                self._reporter.once(f"nodegroup {name}", trouble)
        self._remove((self._known | set(by_group)) - set(names), by_group)

    def remove_all(self) -> None:
        """Terminate every instance of every group and delete what was made for them: the cluster is going."""
        by_group = self._instances()
        self._remove(self._known | set(by_group), by_group)

    def _instances(self) -> dict[str, list[Answer]]:
        found: dict[str, list[Answer]] = {}
        for instance in self._aws.instances():
            labels = tags(instance)
            if labels.get(_CLUSTER_TAG) == self._cluster.name and _GROUP_TAG in labels:
                found.setdefault(labels[_GROUP_TAG], []).append(instance)
        return found

    def _settle(self, name: str, instances: Sequence[Answer]) -> None:
        group: Answer = self._aws.eks.describe_nodegroup(clusterName=self._cluster.name, nodegroupName=name)[
            "nodegroup"
        ]
        if group.get("status") == "DELETING":
            self._terminate(name, instances)
            return
        desired = int(at(group, "scalingConfig", "desiredSize") or 0)
        alive = [instance for instance in instances if instance["State"]["Name"] in ALIVE]
        if len(alive) < desired:
            self._launch(group, alive, desired - len(alive))
        elif len(alive) > desired:
            newest = sorted(alive, key=lambda instance: instance["LaunchTime"])[desired:]
            self._terminate(name, newest)

    def _launch(self, group: Answer, alive: Sequence[Answer], count: int) -> None:
        name = str(group["nodegroupName"])
        image_id = self._image(group)
        profile = self._profile(name, str(group["nodeRole"]))
        cluster: Answer = self._aws.eks.describe_cluster(name=self._cluster.name)["cluster"]
        cidr = str(at(cluster, "kubernetesNetworkConfig", "serviceIpv4Cidr") or "172.20.0.0/16")
        security_group = at(cluster, "resourcesVpcConfig", "clusterSecurityGroupId")
        request: dict[str, Any] = {
            "ImageId": image_id,
            "InstanceType": (items(group, "instanceTypes") or ["t3.medium"])[0],
            "UserData": render(node_config(self._cluster, group, image_id, cidr)),
            "IamInstanceProfile": {"Name": profile},
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {"VolumeSize": int(group.get("diskSize") or 20), "VolumeType": "gp3"},
                }
            ],
            "TagSpecifications": [{"ResourceType": kind, "Tags": self._tags(name)} for kind in ("instance", "volume")],
        }
        if security_group:
            request["SecurityGroupIds"] = [security_group]
        if group.get("capacityType") == "SPOT":
            request["InstanceMarketOptions"] = {"MarketType": "spot"}
        if group.get("launchTemplate"):
            template = mapping(group, "launchTemplate")
            version = str(template.get("version") or "$Default")
            key = "LaunchTemplateId" if template.get("id") else "LaunchTemplateName"
            request["LaunchTemplate"] = {key: template.get("id") or template.get("name"), "Version": version}
            del request["BlockDeviceMappings"]
        used = Counter(str(instance.get("SubnetId")) for instance in alive)
        run_instances: Any = self._aws.ec2.run_instances
        for _ in range(count):
            subnet = min(items(group, "subnets"), key=lambda candidate: used[str(candidate)])
            used[str(subnet)] += 1
            answer = run_instances(**request, SubnetId=subnet, MinCount=1, MaxCount=1)
            instance_id = str(answer["Instances"][0]["InstanceId"])
            self._reporter.report(NodegroupInstance(self._cluster.name, name, instance_id, "launched"))

    def _tags(self, name: str) -> list[dict[str, str]]:
        wanted = {
            _CLUSTER_TAG: self._cluster.name,
            _GROUP_TAG: name,
            f"kubernetes.io/cluster/{self._cluster.name}": "owned",
        }
        return [{"Key": key, "Value": value} for key, value in wanted.items()]

    def _image(self, group: Answer) -> str:
        ami_type = str(group.get("amiType"))
        if ami_type not in _AMI_TYPES:
            raise NodegroupError(f"the AMI type {ami_type} is not simulated; there are {', '.join(_AMI_TYPES)}")
        version = group.get("version") or self._aws.eks.describe_cluster(name=self._cluster.name)["cluster"].get(
            "version"
        )
        path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{_AMI_TYPES[ami_type]}/recommended/image_id"
        return str(self._aws.ssm.get_parameter(Name=path)["Parameter"].get("Value"))

    def _profile(self, group: str, role_arn: str) -> str:
        name = profile_name(self._cluster.name, group)
        role = role_arn.rpartition("/")[2]
        try:
            self._aws.iam.create_instance_profile(InstanceProfileName=name)
        except self._aws.iam.exceptions.EntityAlreadyExistsException:
            roles = self._aws.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
            if roles:
                return name
        self._aws.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return name

    def _terminate(self, group: str, instances: Sequence[Answer]) -> None:
        if not instances:
            return
        ids = [str(instance["InstanceId"]) for instance in instances]
        self._aws.ec2.terminate_instances(InstanceIds=ids)
        for instance_id in ids:
            self._reporter.report(NodegroupInstance(self._cluster.name, group, instance_id, "terminated"))

    def _remove(self, groups: set[str], by_group: dict[str, list[Answer]]) -> None:
        for group in sorted(groups):
            self._terminate(group, by_group.get(group, []))
            self._delete_profile(profile_name(self._cluster.name, group))
            self._known.discard(group)

    def _delete_profile(self, name: str) -> None:
        try:
            profile = self._aws.iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
            for role in profile["Roles"]:
                self._aws.iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
            self._aws.iam.delete_instance_profile(InstanceProfileName=name)
        except ClientError as error:
            if error_code(error) not in {"NoSuchEntity", "NoSuchEntityException"}:
                raise
