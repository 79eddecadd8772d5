"""An environment that asks for everything the AWS side can do, so that one synth serves many tests."""

import copy
from typing import Any

ADMIN = "arn:aws:iam::111122223333:role/platform-admin"
TOPIC = "arn:aws:sns:us-west-2:111122223333:on-call"


def platform_content(workshop: dict[str, Any]) -> dict[str, Any]:
    """The workshop's content with the AWS side of a production environment."""
    content = copy.deepcopy(workshop)
    content["network"] = {
        "region": "us-west-2",
        "discovery": "ids",
        "vpc": {
            "availabilityZones": ["us-west-2a", "us-west-2b"],
            "cidr": "10.64.0.0/16",
            "nodes": 20,
            "podsPerNode": 50,
            "natGateways": "one-per-zone",
            "endpoints": ["s3", "ecr.api", "ecr.dkr", "ec2", "sts", "ssm", "sqs", "eks", "eks-auth", "logs"],
            "flowLogs": True,
        },
    }
    content["cluster"] |= {
        "name": "platform",
        "kubernetesVersion": "1.36",
        "serviceCidr": "10.100.0.0/16",
        "endpoint": {"access": "public-and-private", "publicCidrs": ["203.0.113.0/24"]},
        "admins": [ADMIN],
        "controlPlaneLogs": ["api", "audit", "authenticator", "controllerManager", "scheduler"],
        "secretsKey": "own",
        "deletionProtection": True,
        "supportType": "STANDARD",
        "addons": {
            "vpc-cni": "v1.20.4-eksbuild.2",
            "kube-proxy": "default",
            "coredns": "default",
            "aws-ebs-csi-driver": "default",
            "eks-node-monitoring-agent": "default",
        },
    }
    content["karpenter"] |= {"credentials": "pod-identity"}
    content["tags"] = {"team": "research", "cost-centre": "42"}
    content["alarms"] = {"topicArn": TOPIC}
    return content
