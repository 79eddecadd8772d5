"""Karpenter's own API, as types: what a NodePool and an EC2NodeClass may say.

A value is refused here just where the API server refuses it, with the CRDs of Karpenter 1.14.1 and strict field
validation; `tests/differential` asks both and compares. Source of every field and rule: karpenter-provider-aws v1.14.1,
pkg/apis/crds/karpenter.sh_nodepools.yaml and karpenter.k8s.aws_ec2nodeclasses.yaml. What this project asks for beyond
that is in `configuration.scheduling` and `configuration.pools`.

Two things are refused here that the API server takes, since nobody means them: a whole number written with a decimal
point, and a key of a mapping without a value. A key of an object without a value (`weight:`) counts as left out, there
and here.
"""

from configuration.api.ec2_node_class import EC2NodeClassFields, EC2NodeClassSpec
from configuration.api.node_pool import NodePoolSpec
from configuration.api.releases import unknown_to

__all__ = ["EC2NodeClassFields", "EC2NodeClassSpec", "NodePoolSpec", "unknown_to"]
