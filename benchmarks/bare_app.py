"""What `benchmarks/synth.py` compares with: the least CDK app that has a VPC, an EKS cluster and the kubectl layer."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v33 import KubectlV33Layer

app = cdk.App(analytics_reporting=False)
stack = cdk.Stack(app, "bare", env=cdk.Environment(region="us-west-2"))
vpc = ec2.Vpc(stack, "Vpc", availability_zones=["us-west-2a", "us-west-2b", "us-west-2c"])
eks.Cluster(
    stack,
    "Cluster",
    version=eks.KubernetesVersion.V1_33,
    vpc=vpc,
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
    kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV33Layer(stack, "KubectlLayer")),
)
app.synth()
