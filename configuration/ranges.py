"""IPv4 ranges: reading them, and those that must not overlap."""

from ipaddress import IPv4Network
from typing import Final

PRIVATE_RANGES: Final = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""Source: RFC 1918."""


def ipv4_range(text: str, example: str) -> IPv4Network:
    """Read a range.

    Args:
        text: What the user wrote, such as 10.0.0.0/16.
        example: A range that would do, for the message.

    Raises:
        ValueError: It is no IPv4 range.
    """
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"must be an IPv4 range such as {example} ({error})") from None


def vpc_range(text: str) -> IPv4Network:
    """Read a range that a VPC can have.

    Raises:
        ValueError: It is no IPv4 range, or AWS takes none of its size for a VPC (/16 to /28).
    """
    network = ipv4_range(text, "10.0.0.0/16")
    if network.prefixlen < 16:
        raise ValueError("a VPC is at most a /16; write for example 10.0.0.0/16")
    if network.prefixlen > 28:
        raise ValueError("a VPC is at least a /28, and one for a cluster far more; write for example 10.0.0.0/16")
    return network


def service_range(text: str) -> IPv4Network:
    """Read a range that EKS takes for Kubernetes services.

    Raises:
        ValueError: It is no IPv4 range, not private, or not between /12 and /24 (Amazon EKS API reference,
            KubernetesNetworkConfigRequest).
    """
    network = ipv4_range(text, "172.20.0.0/16")
    if not any(network.subnet_of(private) for private in PRIVATE_RANGES):
        allowed = ", ".join(str(private) for private in PRIVATE_RANGES)
        raise ValueError(f"must lie within one of {allowed}; write for example 172.20.0.0/16")
    if not 12 <= network.prefixlen <= 24:
        raise ValueError("must be between a /12 and a /24; write for example 172.20.0.0/16")
    return network


def check_apart(vpc: str, service: str) -> None:
    """Refuse a VPC whose range overlaps that of the Kubernetes services.

    Args:
        vpc: Range of the VPC.
        service: Range of the services.

    Raises:
        ValueError: They overlap: pods could then not reach some addresses of the VPC.
    """
    if IPv4Network(vpc).overlaps(IPv4Network(service)):
        other = "10.100.0.0/16" if IPv4Network(vpc).overlaps(IPv4Network("172.20.0.0/16")) else "172.20.0.0/16"
        raise ValueError(
            f"cluster.serviceCidr: {service} overlaps the VPC's range {vpc}, and a pod could not reach what is in "
            f"both; use {other}, or another range for the VPC"
        )
