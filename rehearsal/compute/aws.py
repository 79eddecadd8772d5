"""The AWS API as the data plane calls it: what instances there are, what they are made from, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_eks import EKSClient
    from mypy_boto3_iam import IAMClient
    from mypy_boto3_ssm import SSMClient

Answer = Mapping[str, Any]
"""A part of an answer of AWS, as botocore decodes it."""

_IMAGE_ROOT_GIB = 20

ALIVE = ("pending", "running", "stopping", "stopped")
"""States in which an instance still exists for its node."""


@dataclass(frozen=True)
class AwsAccess:
    """Where the local AWS is, and the account's root credentials for it.

    Args:
        endpoint_url: for example ``http://localhost:4566``.
        region: for example ``us-west-2``.
        account_id: twelve digits.
        access_key_id: the root's.
        secret_access_key: the root's.
    """

    endpoint_url: str
    region: str
    account_id: str
    access_key_id: str
    secret_access_key: str


def error_code(error: ClientError) -> str:
    """AWS's name of an error, for example ``ResourceNotFoundException``."""
    return error.response.get("Error", {}).get("Code", "")


class AwsView:
    """Reads the local AWS; what cannot change (instance types, images) is asked for once.

    Args:
        access: where and as whom.
    """

    def __init__(self, access: AwsAccess) -> None:
        self.access = access
        self._session: Any = boto3.Session(
            aws_access_key_id=access.access_key_id,
            aws_secret_access_key=access.secret_access_key,
            region_name=access.region,
        )
        self._config = Config(connect_timeout=2, read_timeout=15, retries={"total_max_attempts": 2}, proxies={})
        self._types: dict[str, Answer] = {}
        self._image_names: dict[str, str] = {}
        self._zone_ids: dict[str, str] = {}

    @cached_property
    def ec2(self) -> EC2Client:
        """The EC2 client."""
        return self._session.client("ec2", endpoint_url=self.access.endpoint_url, config=self._config)

    @cached_property
    def eks(self) -> EKSClient:
        """The EKS client."""
        return self._session.client("eks", endpoint_url=self.access.endpoint_url, config=self._config)

    @cached_property
    def iam(self) -> IAMClient:
        """The IAM client."""
        return self._session.client("iam", endpoint_url=self.access.endpoint_url, config=self._config)

    @cached_property
    def ssm(self) -> SSMClient:
        """The SSM client."""
        return self._session.client("ssm", endpoint_url=self.access.endpoint_url, config=self._config)

    def instances(self) -> list[Answer]:
        """The instances that exist and are not on their way out."""
        pages = self.ec2.get_paginator("describe_instances").paginate(
            Filters=[{"Name": "instance-state-name", "Values": list(ALIVE)}]
        )
        return [
            instance
            for page in pages
            for reservation in page["Reservations"]
            for instance in reservation.get("Instances", [])
        ]

    def user_data(self, instance_id: str) -> str:
        """An instance's user data, base64 as EC2 answers it; empty where it has none."""
        answer = self.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        return answer.get("UserData", {}).get("Value", "")

    def root_volume_gib(self, instance: Answer) -> int:
        """Size of an instance's root volume, GiB; the EKS images' own where EC2 does not know the volume."""
        for mapping in instance.get("BlockDeviceMappings", []):
            if mapping.get("DeviceName") != instance.get("RootDeviceName", "/dev/xvda") or "Ebs" not in mapping:
                continue
            try:
                volumes = self.ec2.describe_volumes(VolumeIds=[mapping["Ebs"]["VolumeId"]])["Volumes"]
            except ClientError as error:
                if error_code(error) != "InvalidVolume.NotFound":
                    raise
                volumes = []
            if volumes:
                return volumes[0].get("Size", _IMAGE_ROOT_GIB)
        return _IMAGE_ROOT_GIB

    def instance_type(self, name: str) -> Answer:
        """What DescribeInstanceTypes says about a type."""
        if name not in self._types:
            wanted: Any = [name]
            self._types[name] = self.ec2.describe_instance_types(InstanceTypes=wanted)["InstanceTypes"][0]
        return self._types[name]

    def image_name(self, image_id: str) -> str:
        """An image's name; empty where there is no such image (any more)."""
        if image_id not in self._image_names:
            try:
                images = self.ec2.describe_images(ImageIds=[image_id])["Images"]
            except ClientError as error:
                if not error_code(error).startswith("InvalidAMIID"):
                    raise
                images = []
            self._image_names[image_id] = images[0].get("Name", "") if images else ""
        return self._image_names[image_id]

    def zone_id(self, zone: str) -> str:
        """The id of a zone by its name, for example ``usw2-az1``; empty where the region has no such zone."""
        if not self._zone_ids:
            zones = self.ec2.describe_availability_zones()["AvailabilityZones"]
            self._zone_ids = {item.get("ZoneName", ""): item.get("ZoneId", "") for item in zones}
        return self._zone_ids.get(zone, "")

    def instance_role(self, instance: Answer) -> str | None:
        """ARN of the role that an instance has through its instance profile, or None."""
        arn: str = instance.get("IamInstanceProfile", {}).get("Arn", "")
        if not arn:
            return None
        try:
            profile = self.iam.get_instance_profile(InstanceProfileName=arn.rsplit("/", 1)[-1])["InstanceProfile"]
        except self.iam.exceptions.NoSuchEntityException:
            return None
        return profile["Roles"][0]["Arn"] if profile["Roles"] else None

    def access_entry_type(self, cluster: str, role_arn: str) -> str | None:
        """The type of a role's access entry in a cluster, for example ``EC2_LINUX``, or None where it has none."""
        try:
            entry = self.eks.describe_access_entry(clusterName=cluster, principalArn=role_arn)["accessEntry"]
        except self.eks.exceptions.ResourceNotFoundException:
            return None
        return entry.get("type")

    def pod_identities(self, cluster: str) -> dict[tuple[str, str], float]:
        """Namespace and service account -> when its EKS Pod Identity association was made, seconds since the epoch."""
        try:
            found = self.eks.list_pod_identity_associations(clusterName=cluster)["associations"]
            made = [
                self.eks.describe_pod_identity_association(
                    clusterName=cluster, associationId=association.get("associationId", "")
                )["association"]
                for association in found
            ]
        except self.eks.exceptions.ResourceNotFoundException:  # gone since it was listed, or with its cluster
            return {}
        return {
            (association.get("namespace", ""), association.get("serviceAccount", "")): association[
                "createdAt"
            ].timestamp()
            for association in made
            if "createdAt" in association
        }

    def addon_is_active(self, cluster: str, name: str) -> bool:
        """Whether a cluster has an add-on, and it is active."""
        try:
            addon = self.eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
        except self.eks.exceptions.ResourceNotFoundException:
            return False
        return addon.get("status") == "ACTIVE"

    def assume_for_pod(self, cluster: str, token: str, node_role: str, instance_id: str) -> Answer:
        """EKS Auth's answer to a node that asks for the credentials of a pod.

        Args:
            cluster: the cluster's name.
            token: the pod's service-account token.
            node_role: ARN of the role of the node, which makes the call.
            instance_id: of the node; names the session, as the instance metadata service's credentials are named.

        Raises:
            ClientError: EKS Auth, or IAM, refuses.
        """
        # On AWS the instance metadata service gives a node these credentials; the emulation lets the root have them.
        node = self._session.client("sts", endpoint_url=self.access.endpoint_url, config=self._config).assume_role(
            RoleArn=node_role, RoleSessionName=instance_id
        )["Credentials"]
        session: Any = boto3.Session(
            node["AccessKeyId"], node["SecretAccessKey"], node["SessionToken"], region_name=self.access.region
        )
        client = session.client("eks-auth", endpoint_url=self.access.endpoint_url, config=self._config)
        return client.assume_role_for_pod_identity(clusterName=cluster, token=token)


def tags(instance: Answer) -> dict[str, str]:
    """An instance's tags."""
    pairs: Sequence[Mapping[str, str]] = instance.get("Tags", [])
    return {pair["Key"]: pair["Value"] for pair in pairs}
