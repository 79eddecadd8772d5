"""The part of Amazon EC2 that nodes are bought from, simulated at EC2's own interface.

Instance types and offerings are recorded from AWS, launch templates, fleets, instances and their authorisation behave
as AWS documents them, spot prices and capacity are simulated (:mod:`rehearsal.compute.ec2.catalogue`). VPC objects and
IAM belong to others and are asked through :class:`Network` and :class:`Identity`. What is not simulated is refused,
never ignored.
"""

from rehearsal.compute.ec2.catalogue import CapacityType
from rehearsal.compute.ec2.images import Image
from rehearsal.compute.ec2.ports import (
    Context,
    Denial,
    Identity,
    InstanceProfile,
    Network,
    SecurityGroup,
    Subnet,
)
from rehearsal.compute.ec2.pricing import PriceListError, get_products
from rehearsal.compute.ec2.protocol import CONTENT_TYPE
from rehearsal.compute.ec2.service import SPOT_INTERRUPTION, STATE_CHANGE, Ec2Service
from rehearsal.compute.ec2.state import Instance, StateName

__all__ = [
    "CONTENT_TYPE",
    "SPOT_INTERRUPTION",
    "STATE_CHANGE",
    "CapacityType",
    "Context",
    "Denial",
    "Ec2Service",
    "Identity",
    "Image",
    "Instance",
    "InstanceProfile",
    "Network",
    "PriceListError",
    "SecurityGroup",
    "StateName",
    "Subnet",
    "get_products",
]
