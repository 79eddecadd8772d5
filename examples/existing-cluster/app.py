"""GPUs on a cluster that is there already: somebody's stack, and ours on it.

`uv run cdk deploy --all --app "python examples/existing-cluster/app.py"`, or rehearse it (README.md, beside this file).
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.lambda_layer_kubectl_v33 import KubectlV33Layer

from configuration import DevicePlugin, GpuPool, Karpenter, NodeClass, Requirement, Taint
from stacks import KarpenterStack, NodePoolsStack

app = cdk.App(analytics_reporting=False)
where = cdk.Environment(region="us-west-2")

# Somebody else's part: a network and a cluster with a few nodes, which know nothing of GPUs.
theirs = cdk.Stack(app, "research", env=where)
vpc = ec2.Vpc(theirs, "Vpc", availability_zones=["us-west-2a", "us-west-2b"], nat_gateways=1)
layer = KubectlV33Layer(theirs, "KubectlLayer")
cluster = eks.Cluster(
    theirs,
    "Cluster",
    cluster_name="research",
    version=eks.KubernetesVersion.V1_33,
    vpc=vpc,
    default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
    default_capacity=2,
    kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=layer),
)

# Ours: Karpenter, and a pool that is empty until a pod asks for a GPU.
karpenter = KarpenterStack(
    app,
    "research-karpenter",
    cluster=cluster,
    cluster_name="research",
    karpenter=Karpenter(
        version="1.14.1", namespace="karpenter", service_account="karpenter", replicas=2, cpu="1", memory="1Gi"
    ),
    env=where,
)
inference = GpuPool(
    name="inference",
    node_class="gpu",
    requirements=(Requirement(key="karpenter.k8s.aws/instance-family", operator="In", values=("g5", "g6")),),
    taints=(Taint(key="nvidia.com/gpu", effect="NoSchedule"),),
    limits={"nvidia.com/gpu": 4},
)
NodePoolsStack(
    app,
    "research-node-pools",
    karpenter=karpenter,
    node_classes={"gpu": NodeClass.model_validate({"amiSelectorTerms": [{"alias": "al2023@v20260714"}]})},
    gpu_pools=[inference],
    device_plugin=DevicePlugin(version="0.18.2", namespace="nvidia"),
    # Nothing of theirs is tagged or changed: nodes go where theirs are, and talk to the cluster as theirs do.
    subnet_ids=[subnet.subnet_id for subnet in vpc.private_subnets],
    security_group_ids=[cluster.cluster_security_group_id],
    env=where,
)
# The logs of the kubectl handler go with it: `cdk destroy` leaves nothing behind.
cdk.RemovalPolicies.of(app).destroy(apply_to_resource_types=["AWS::Logs::LogGroup"])
app.synth()
