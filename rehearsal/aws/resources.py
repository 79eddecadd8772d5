"""CloudFormation resource types that MiniStack lacks, each made through AWS's own API as a resource provider makes it.

Properties and attributes as in the CloudFormation template reference, read for the version of 2026-11.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

ADDON_NAMESPACE = "kube-system"
"""Namespace of the add-ons' service accounts."""

Properties = Mapping[str, Any]
Made = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class ResourceType:
    """How one resource type is made, changed and removed.

    Args:
        create: properties -> physical id and attributes.
        delete: physical id and properties -> nothing; a resource that is gone already is no error.
        update: physical id, old and new properties -> physical id and attributes; None where every change replaces it.
    """

    create: Callable[[Properties], Made]
    delete: Callable[[str, Properties], None]
    update: Callable[[str, Properties, Properties], Made] | None = None


class Resources:
    """The resource types, made with the API of one endpoint.

    Args:
        client: gives a boto3 client of the account's root by its service's name.
    """

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._ec2 = client("ec2")
        self._eks = client("eks")
        self._iam = client("iam")

    def types(self) -> dict[str, ResourceType]:
        """Resource type name -> how it is made."""
        return {
            "AWS::EC2::EIP": ResourceType(self._create_address, self._delete_address),
            "AWS::EC2::FlowLog": ResourceType(self._create_flow_log, self._delete_flow_log),
            "AWS::EC2::NatGateway": ResourceType(self._create_nat_gateway, self._delete_nat_gateway),
            "AWS::EC2::SecurityGroupEgress": ResourceType(
                partial(self._create_rule, "egress"), partial(self._delete_rule, "egress")
            ),
            "AWS::EC2::SecurityGroupIngress": ResourceType(
                partial(self._create_rule, "ingress"), partial(self._delete_rule, "ingress")
            ),
            "AWS::EKS::AccessEntry": ResourceType(
                self._create_access_entry, self._delete_access_entry, self._update_access_entry
            ),
            "AWS::EKS::Addon": ResourceType(self._create_addon, self._delete_addon, self._update_addon),
            "AWS::EKS::PodIdentityAssociation": ResourceType(
                self._create_pod_identity, self._delete_pod_identity, self._update_pod_identity
            ),
            "AWS::IAM::OIDCProvider": ResourceType(self._create_oidc_provider, self._delete_oidc_provider),
        }

    def _create_address(self, properties: Properties) -> Made:
        made = self._ec2.allocate_address(
            Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": properties.get("Tags", [])}]
        )
        return made["PublicIp"], {"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]}

    def _delete_address(self, physical_id: str, _: Properties) -> None:
        # Filtered here: the emulation does not know the filter public-ip.
        for address in self._ec2.describe_addresses()["Addresses"]:
            if address.get("PublicIp") == physical_id:
                self._ec2.release_address(AllocationId=address["AllocationId"])

    def _create_flow_log(self, properties: Properties) -> Made:
        names = {
            "LogDestinationType": "LogDestinationType",
            "LogGroupName": "LogGroupName",
            "LogDestination": "LogDestination",
            "DeliverLogsPermissionArn": "DeliverLogsPermissionArn",
            "TrafficType": "TrafficType",
        }
        made = self._ec2.create_flow_logs(
            ResourceIds=[properties["ResourceId"]],
            ResourceType=properties["ResourceType"],
            TagSpecifications=[{"ResourceType": "vpc-flow-log", "Tags": properties.get("Tags", [])}],
            **{ours: properties[theirs] for theirs, ours in names.items() if theirs in properties},
        )
        return made["FlowLogIds"][0], {"Id": made["FlowLogIds"][0]}

    def _delete_flow_log(self, physical_id: str, _: Properties) -> None:
        self._ec2.delete_flow_logs(FlowLogIds=[physical_id])

    def _create_nat_gateway(self, properties: Properties) -> Made:
        made = self._ec2.create_nat_gateway(
            SubnetId=properties["SubnetId"],
            AllocationId=properties["AllocationId"],
            TagSpecifications=[{"ResourceType": "natgateway", "Tags": properties.get("Tags", [])}],
        )["NatGateway"]
        return made["NatGatewayId"], {"NatGatewayId": made["NatGatewayId"]}

    def _delete_nat_gateway(self, physical_id: str, _: Properties) -> None:
        self._ec2.delete_nat_gateway(NatGatewayId=physical_id)

    def _create_rule(self, direction: str, properties: Properties) -> Made:
        group, permission = properties["GroupId"], _permission(direction, properties)
        if direction == "egress":
            made = self._ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[permission])
        else:
            made = self._ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
        rule = made["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return rule, {"Id": rule}

    def _delete_rule(self, direction: str, _: str, properties: Properties) -> None:
        group, permission = properties["GroupId"], _permission(direction, properties)
        try:
            if direction == "egress":
                self._ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[permission])
            else:
                self._ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[permission])
        except self._ec2.exceptions.ClientError as error:
            # Gone with its group, or revoked already.
            if error.response["Error"]["Code"] not in ("InvalidGroup.NotFound", "InvalidPermission.NotFound"):
                raise

    def _create_access_entry(self, properties: Properties) -> Made:
        cluster, principal = properties["ClusterName"], properties["PrincipalArn"]
        made = self._eks.create_access_entry(
            clusterName=cluster,
            principalArn=principal,
            type=properties.get("Type", "STANDARD"),
            kubernetesGroups=properties.get("KubernetesGroups", []),
            tags=_tag_map(properties),
            **({"username": properties["Username"]} if "Username" in properties else {}),
        )["accessEntry"]
        self._associate(cluster, principal, properties)
        return f"{principal}|{cluster}", {"AccessEntryArn": made["accessEntryArn"]}

    def _update_access_entry(self, physical_id: str, old: Properties, new: Properties) -> Made:
        cluster, principal = new["ClusterName"], new["PrincipalArn"]
        if (old["ClusterName"], old["PrincipalArn"], old.get("Type")) != (cluster, principal, new.get("Type")):
            made = self._create_access_entry(new)
            self._delete_access_entry(physical_id, old)
            return made
        entry = self._eks.update_access_entry(
            clusterName=cluster, principalArn=principal, kubernetesGroups=new.get("KubernetesGroups", [])
        )["accessEntry"]
        kept = {policy["PolicyArn"] for policy in new.get("AccessPolicies", [])}
        for policy in old.get("AccessPolicies", []):
            if policy["PolicyArn"] not in kept:
                self._eks.disassociate_access_policy(
                    clusterName=cluster, principalArn=principal, policyArn=policy["PolicyArn"]
                )
        self._associate(cluster, principal, new)
        return physical_id, {"AccessEntryArn": entry["accessEntryArn"]}

    def _associate(self, cluster: str, principal: str, properties: Properties) -> None:
        for policy in properties.get("AccessPolicies", []):
            scope = policy["AccessScope"]
            self._eks.associate_access_policy(
                clusterName=cluster,
                principalArn=principal,
                policyArn=policy["PolicyArn"],
                accessScope={"type": scope["Type"], "namespaces": scope.get("Namespaces", [])},
            )

    def _delete_access_entry(self, physical_id: str, _properties: Properties) -> None:
        principal, _, cluster = physical_id.rpartition("|")
        _unless_gone(
            self._eks.exceptions.ResourceNotFoundException,
            lambda: self._eks.delete_access_entry(clusterName=cluster, principalArn=principal),
        )

    def _create_addon(self, properties: Properties) -> Made:
        made = self._eks.create_addon(
            clusterName=properties["ClusterName"], addonName=properties["AddonName"], **_addon(properties)
        )["addon"]
        self._associate_addon(properties)
        return f"{made['clusterName']}|{made['addonName']}", {"Arn": made["addonArn"]}

    def _update_addon(self, physical_id: str, old: Properties, new: Properties) -> Made:
        cluster, _, name = physical_id.partition("|")
        if (old["ClusterName"], old["AddonName"]) != (new["ClusterName"], new["AddonName"]):
            made = self._create_addon(new)
            self._delete_addon(physical_id, old)
            return made
        self._eks.update_addon(clusterName=cluster, addonName=name, **_addon(new))
        if old.get("PodIdentityAssociations", []) != new.get("PodIdentityAssociations", []):
            self._dissociate_addon(old)
            self._associate_addon(new)
        return physical_id, {"Arn": self._eks.describe_addon(clusterName=cluster, addonName=name)["addon"]["addonArn"]}

    def _associate_addon(self, properties: Properties) -> None:
        """Make the associations that an add-on owns, as EKS does with it."""
        for association in properties.get("PodIdentityAssociations", []):
            self._eks.create_pod_identity_association(
                clusterName=properties["ClusterName"],
                namespace=ADDON_NAMESPACE,
                serviceAccount=association["ServiceAccount"],
                roleArn=association["RoleArn"],
            )

    def _dissociate_addon(self, properties: Properties) -> None:
        cluster = properties["ClusterName"]
        for owned in properties.get("PodIdentityAssociations", []):
            found = self._eks.list_pod_identity_associations(
                clusterName=cluster, namespace=ADDON_NAMESPACE, serviceAccount=owned["ServiceAccount"]
            )["associations"]
            for association in found:
                self._eks.delete_pod_identity_association(
                    clusterName=cluster, associationId=association["associationId"]
                )

    def _delete_addon(self, physical_id: str, properties: Properties) -> None:
        cluster, _, name = physical_id.partition("|")
        _unless_gone(self._eks.exceptions.ResourceNotFoundException, lambda: self._dissociate_addon(properties))
        _unless_gone(
            self._eks.exceptions.ResourceNotFoundException,
            lambda: self._eks.delete_addon(clusterName=cluster, addonName=name),
        )

    def _create_pod_identity(self, properties: Properties) -> Made:
        made = self._eks.create_pod_identity_association(
            clusterName=properties["ClusterName"],
            namespace=properties["Namespace"],
            serviceAccount=properties["ServiceAccount"],
            roleArn=properties["RoleArn"],
            tags=_tag_map(properties),
        )["association"]
        attributes = {"AssociationArn": made["associationArn"], "AssociationId": made["associationId"]}
        return made["associationArn"], attributes

    def _update_pod_identity(self, physical_id: str, old: Properties, new: Properties) -> Made:
        identity = ("ClusterName", "Namespace", "ServiceAccount")
        if any(old[key] != new[key] for key in identity):
            self._delete_pod_identity(physical_id, old)
            return self._create_pod_identity(new)
        association = physical_id.rpartition("/")[2]
        self._eks.update_pod_identity_association(
            clusterName=new["ClusterName"], associationId=association, roleArn=new["RoleArn"]
        )
        return physical_id, {"AssociationArn": physical_id, "AssociationId": association}

    def _delete_pod_identity(self, physical_id: str, properties: Properties) -> None:
        _unless_gone(
            self._eks.exceptions.ResourceNotFoundException,
            lambda: self._eks.delete_pod_identity_association(
                clusterName=properties["ClusterName"], associationId=physical_id.rpartition("/")[2]
            ),
        )

    def _create_oidc_provider(self, properties: Properties) -> Made:
        made = self._iam.create_open_id_connect_provider(
            Url=properties["Url"],
            ClientIDList=properties.get("ClientIdList", []),
            ThumbprintList=properties.get("ThumbprintList", []),
            Tags=properties.get("Tags", []),
        )
        return made["OpenIDConnectProviderArn"], {"Arn": made["OpenIDConnectProviderArn"]}

    def _delete_oidc_provider(self, physical_id: str, _: Properties) -> None:
        _unless_gone(
            self._iam.exceptions.NoSuchEntityException,
            lambda: self._iam.delete_open_id_connect_provider(OpenIDConnectProviderArn=physical_id),
        )

    def await_node_group(self, cluster: str, name: str, *, within_s: float = 60) -> None:
        """Return when the instances of a managed node group run, as EKS says ACTIVE only then.

        Raises:
            TimeoutError: they do not after ``within_s`` seconds.
        """
        wanted = self._eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]["scalingConfig"]
        self._await(
            lambda: len(self._instances(cluster, name, "running")) >= wanted.get("desiredSize", 1), within_s, name
        )

    def await_no_node_group(self, cluster: str, name: str, *, within_s: float = 60) -> None:
        """Return when no instance of a managed node group is left, as EKS deletes the group only then.

        Raises:
            TimeoutError: some are left after ``within_s`` seconds.
        """
        states = ("pending", "running", "shutting-down", "stopping")
        self._await(lambda: not self._instances(cluster, name, *states), within_s, name)

    def _await(self, held: Callable[[], bool], within_s: float, name: str) -> None:
        deadline = time.monotonic() + within_s
        while not held():
            if time.monotonic() > deadline:
                raise TimeoutError(f"node group {name}: its instances did not follow within {within_s:.0f} s")
            time.sleep(0.2)

    def _instances(self, cluster: str, name: str, *states: str) -> list[Any]:
        answer = self._ec2.describe_instances(
            Filters=[
                {"Name": "tag:eks:cluster-name", "Values": [cluster]},
                {"Name": "tag:eks:nodegroup-name", "Values": [name]},
                {"Name": "instance-state-name", "Values": list(states)},
            ]
        )
        return [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]


def _permission(direction: str, properties: Properties) -> Any:
    """The IpPermission of an AWS::EC2::SecurityGroupIngress or -Egress."""
    permission: dict[str, Any] = {"IpProtocol": str(properties["IpProtocol"])}
    for port in ("FromPort", "ToPort"):
        if port in properties:
            permission[port] = int(properties[port])
    said = {"Description": properties["Description"]} if "Description" in properties else {}
    other = properties.get("SourceSecurityGroupId" if direction == "ingress" else "DestinationSecurityGroupId")
    prefix = properties.get("SourcePrefixListId" if direction == "ingress" else "DestinationPrefixListId")
    if other:
        permission["UserIdGroupPairs"] = [{"GroupId": other, **said}]
    elif prefix:
        permission["PrefixListIds"] = [{"PrefixListId": prefix, **said}]
    elif "CidrIpv6" in properties:
        permission["Ipv6Ranges"] = [{"CidrIpv6": properties["CidrIpv6"], **said}]
    else:
        permission["IpRanges"] = [{"CidrIp": properties["CidrIp"], **said}]
    return permission


def _addon(properties: Properties) -> dict[str, Any]:
    names = {
        "AddonVersion": "addonVersion",
        "ServiceAccountRoleArn": "serviceAccountRoleArn",
        "ConfigurationValues": "configurationValues",
    }
    return {ours: properties[theirs] for theirs, ours in names.items() if theirs in properties}


def _tag_map(properties: Properties) -> dict[str, str]:
    """Tags as EKS's API wants them; its resource types give them as a list or as a map."""
    tags: dict[str, str] | list[dict[str, str]] = properties.get("Tags", [])
    return {tag["Key"]: tag["Value"] for tag in tags} if isinstance(tags, list) else dict(tags)


def _unless_gone(gone: type[Exception], delete: Callable[[], Any]) -> None:
    try:
        delete()
    except gone:
        return
