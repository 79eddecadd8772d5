"""What stands in the local AWS and on the machine, counted before the deploy and after the destroy."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psutil

from rehearsal.processes import of_run

Census = Mapping[str, frozenset[str]]
"""Kind of resource -> what identifies each one."""


def take(client: Callable[[str], Any]) -> Census:
    """Count everything that an app of this kind can leave behind in one account and region.

    Args:
        client: gives a boto3 client by its service's name, with credentials that may list everything.
    """
    ec2, iam = client("ec2"), client("iam")
    counts: dict[str, Callable[[], Iterable[str]]] = {
        "CloudFormation stacks": lambda: (
            stack["StackName"]
            for stack in _pages(client("cloudformation"), "list_stacks", "StackSummaries")
            if stack["StackStatus"] != "DELETE_COMPLETE"
        ),
        "CloudWatch alarms": lambda: _ids(client("cloudwatch"), "describe_alarms", "MetricAlarms", "AlarmName"),
        "EC2 addresses": lambda: (a["AllocationId"] for a in ec2.describe_addresses()["Addresses"]),
        "EC2 flow logs": lambda: _ids(ec2, "describe_flow_logs", "FlowLogs", "FlowLogId"),
        "EC2 instances": lambda: (
            instance["InstanceId"]
            for reservation in _pages(ec2, "describe_instances", "Reservations")
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        ),
        "EC2 internet gateways": lambda: _ids(
            ec2, "describe_internet_gateways", "InternetGateways", "InternetGatewayId"
        ),
        "EC2 launch templates": lambda: _ids(ec2, "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
        "EC2 NAT gateways": lambda: (
            gateway["NatGatewayId"]
            for gateway in _pages(ec2, "describe_nat_gateways", "NatGateways")
            if gateway["State"] not in ("deleted", "deleting")
        ),
        "EC2 network interfaces": lambda: _ids(
            ec2, "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"
        ),
        "EC2 route tables": lambda: _ids(ec2, "describe_route_tables", "RouteTables", "RouteTableId"),
        "EC2 security groups": lambda: _ids(ec2, "describe_security_groups", "SecurityGroups", "GroupId"),
        "EC2 subnets": lambda: _ids(ec2, "describe_subnets", "Subnets", "SubnetId"),
        "EC2 volumes": lambda: _ids(ec2, "describe_volumes", "Volumes", "VolumeId"),
        "EC2 VPC endpoints": lambda: (
            endpoint["VpcEndpointId"]
            for endpoint in _pages(ec2, "describe_vpc_endpoints", "VpcEndpoints")
            if endpoint["State"] not in ("deleted", "deleting")
        ),
        "EC2 VPCs": lambda: _ids(ec2, "describe_vpcs", "Vpcs", "VpcId"),
        "ECR repositories": lambda: _ids(client("ecr"), "describe_repositories", "repositories", "repositoryName"),
        "EKS clusters": lambda: client("eks").list_clusters()["clusters"],
        "EventBridge rules": lambda: (rule["Name"] for rule in client("events").list_rules()["Rules"]),
        "IAM instance profiles": lambda: _ids(iam, "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
        "IAM OIDC providers": lambda: (
            provider["Arn"] for provider in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
        ),
        "IAM policies": lambda: (policy["Arn"] for policy in _pages(iam, "list_policies", "Policies", Scope="Local")),
        "IAM roles": lambda: (
            role["RoleName"] for role in _pages(iam, "list_roles", "Roles") if not _is_service_linked(role)
        ),
        "KMS aliases": lambda: (
            alias["AliasName"] for alias in _pages(client("kms"), "list_aliases", "Aliases") if "TargetKeyId" in alias
        ),
        "KMS keys": lambda: _keys(client("kms"), pending=False),
        "Lambda functions": lambda: _ids(client("lambda"), "list_functions", "Functions", "FunctionName"),
        "Lambda layers": lambda: (layer["LayerName"] for layer in client("lambda").list_layers()["Layers"]),
        "log groups": lambda: _ids(client("logs"), "describe_log_groups", "logGroups", "logGroupName"),
        "S3 buckets": lambda: (bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]),
        "SQS queues": lambda: client("sqs").list_queues().get("QueueUrls", []),
        "SSM parameters": lambda: _ids(client("ssm"), "describe_parameters", "Parameters", "Name"),
    }
    return {kind: frozenset(count()) for kind, count in counts.items()}


def stays(client: Callable[[str], Any]) -> list[str]:
    """What a destroy leaves on AWS too, and the census therefore does not count; each in words.

    Args:
        client: as for :func:`take`.
    """
    roles = [role["RoleName"] for role in _pages(client("iam"), "list_roles", "Roles") if _is_service_linked(role)]
    found = [f"service-linked role {name}" for name in sorted(roles)]
    return found + [
        f"KMS key {key} until its deletion, which is scheduled" for key in _keys(client("kms"), pending=True)
    ]


def left_behind(before: Census, after: Census) -> dict[str, list[str]]:
    """What there is now and was not before, by kind; empty where nothing was left."""
    left = {kind: sorted(found - before.get(kind, frozenset())) for kind, found in after.items()}
    return {kind: found for kind, found in left.items() if found}


def processes(run_id: str) -> list[str]:
    """The processes of a run that are alive, as ``name (pid)``."""
    return [f"{_name(process)} ({process.pid})" for process in of_run(run_id)]


def listening_ports(run_id: str) -> dict[int, str]:
    """TCP ports that processes of a run listen on, and the address of each."""
    ports: dict[int, str] = {}
    for process in of_run(run_id):
        try:
            connections = process.net_connections(kind="tcp")
        except psutil.Error:
            continue
        ports |= {c.laddr.port: c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    return ports


def open_ports(ports: Iterable[int]) -> list[int]:
    """Those of the given ports that still answer on loopback."""
    held: list[int] = []
    for port in sorted(ports):
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                held.append(port)
    return held


def _is_service_linked(role: Mapping[str, Any]) -> bool:
    return str(role["Path"]).startswith("/aws-service-role/")


def _keys(kms: Any, *, pending: bool) -> list[str]:
    """Ids of the customer's keys that are pending deletion, or of those that are not."""
    ids = [key["KeyId"] for key in _pages(kms, "list_keys", "Keys")]
    described = [kms.describe_key(KeyId=identifier)["KeyMetadata"] for identifier in ids]
    customers = [key for key in described if key.get("KeyManager", "CUSTOMER") == "CUSTOMER"]
    return [key["KeyId"] for key in customers if (key["KeyState"] == "PendingDeletion") == pending]


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterable[Any]:
    if not client.can_paginate(operation):
        yield from getattr(client, operation)(**arguments)[key]
        return
    for page in client.get_paginator(operation).paginate(**arguments):
        yield from page[key]


def _ids(client: Any, operation: str, key: str, name: str) -> Iterable[str]:
    return (item[name] for item in _pages(client, operation, key))


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.Error:
        return "?"
