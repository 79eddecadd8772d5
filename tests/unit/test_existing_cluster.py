"""The same stacks on a cluster that somebody else made: in their CDK app, or imported by its attributes."""

import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import assertions
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.lambda_layer_kubectl_v33 import KubectlV33Layer

from configuration import GpuPool, Karpenter, NodeClass
from stacks import KarpenterStack, NodePoolsStack
from tests.unit.assembly import MANIFEST, objects_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "existing-cluster"
ISSUER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"

Template = Mapping[str, Any]


@pytest.fixture(scope="module")
def example(wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Template]:
    """The example's templates by stack, written with the packages of the wheel alone."""
    folder = tmp_path_factory.mktemp("example")
    wheel.extractall(folder / "site")
    app = folder / "app.py"
    # The clone is on the path too, behind the wheel: so the app tells where the packages came from.
    app.write_text((EXAMPLE / "app.py").read_text() + "\nimport stacks\nprint(stacks.__file__)")
    context = json.dumps(json.loads((EXAMPLE / "cdk.json").read_text())["context"])
    variables = {"CDK_OUTDIR": str(folder / "out"), "CDK_CONTEXT_JSON": context, "PYTHONPATH": str(folder / "site")}
    command = [sys.executable, app]
    told = subprocess.run(command, cwd=folder, env=os.environ | variables, check=True, capture_output=True, text=True)
    assert told.stdout.strip() == str(folder / "site" / "stacks" / "__init__.py")
    templates = (folder / "out").glob("*.template.json")
    return {path.name.partition(".")[0]: json.loads(path.read_text()) for path in templates}


def _of_type(template: Template, kind: str) -> list[dict[str, Any]]:
    return [resource for resource in template["Resources"].values() if resource["Type"] == kind]


def _object(template: Template, kind: str, name: str) -> dict[str, Any]:
    found = [each for resource in _of_type(template, MANIFEST) for each in objects_in(resource)]
    (wanted,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return wanted


def test_the_example_is_fifty_lines_of_code() -> None:
    code = [line for line in (EXAMPLE / "app.py").read_text().splitlines() if line.strip() and line[0] != "#"]
    assert len(code) <= 55


def test_nothing_of_the_foreign_cluster_is_tagged_or_replaced(example: Mapping[str, Template]) -> None:
    theirs, karpenter, pools = (example[name] for name in ("research", "research-karpenter", "research-node-pools"))
    assert set(example) == {"research", "research-karpenter", "research-node-pools"}
    assert "karpenter.sh/discovery" not in json.dumps(theirs)
    kinds = Counter(resource["Type"] for stack in (karpenter, pools) for resource in stack["Resources"].values())
    ours = {"AWS::EKS::Cluster", "AWS::EC2::VPC", "AWS::EC2::SecurityGroup", "AWS::EKS::Nodegroup"}
    assert not ours & kinds.keys()
    (entry,) = _of_type(karpenter, "AWS::EKS::AccessEntry")
    assert entry["Properties"]["Type"] == "EC2_LINUX"


def test_nodes_go_where_the_clusters_own_are(example: Mapping[str, Template]) -> None:
    spec = _object(example["research-node-pools"], "EC2NodeClass", "gpu")["spec"]
    assert spec["role"] == "KarpenterNodeRole-research"
    assert len(spec["subnetSelectorTerms"]) == 2
    assert all("PrivateSubnet" in term["id"] for term in spec["subnetSelectorTerms"])
    (group,) = spec["securityGroupSelectorTerms"]
    assert "ClusterSecurityGroupId" in group["id"]
    assert not _of_type(example["research-karpenter"], "Custom::AWSCDKCfnJson")
    lambdas = [resource for stack in example.values() for resource in _of_type(stack, "AWS::Lambda::Function")]
    # The kubectl handler's two, and the spot service-linked role's: the stack cannot know that no pool buys spot.
    assert len(lambdas) == 3


def test_karpenter_runs_on_any_node_that_it_did_not_buy(example: Mapping[str, Template]) -> None:
    pod = _object(example["research-karpenter"], "Deployment", "karpenter")["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
    ]


def _imported(**left_out: None) -> tuple[cdk.App, eks.ICluster]:
    app = cdk.App(analytics_reporting=False)
    stack = cdk.Stack(app, "theirs", env=cdk.Environment(region="us-west-2"))
    handler = iam.Role.from_role_arn(stack, "Handler", "arn:aws:iam::123456789012:role/kubectl")
    provider = eks.KubectlProvider(
        stack,
        "Kubectl",
        cluster=eks.Cluster.from_cluster_attributes(
            stack, "ForKubectl", cluster_name="research", cluster_endpoint="https://research.example", vpc=None
        ),
        kubectl_layer=cast("Any", KubectlV33Layer(stack, "Layer")),
        role=handler,
    )
    attributes: dict[str, Any] = {
        "cluster_name": "research",
        "cluster_endpoint": "https://research.example",
        "open_id_connect_provider": iam.OpenIdConnectProvider.from_open_id_connect_provider_arn(
            stack, "Provider", f"arn:aws:iam::123456789012:oidc-provider/{ISSUER}"
        ),
        "kubectl_provider": provider,
    }
    kept = {name: value for name, value in attributes.items() if name not in left_out}
    return app, eks.Cluster.from_cluster_attributes(stack, "Cluster", **kept)


def _on(app: cdk.App, cluster: eks.ICluster) -> tuple[KarpenterStack, NodePoolsStack]:
    env = cdk.Environment(region="us-west-2")
    controller = Karpenter(
        version="1.14.1", namespace="kube-system", service_account="karpenter", replicas=2, cpu="1", memory="1Gi"
    )
    karpenter = KarpenterStack(
        app, "karpenter", cluster=cluster, cluster_name="research", karpenter=controller, buys_spot=False, env=env
    )
    pool = GpuPool.model_validate(
        {
            "name": "gpu",
            "nodeClass": "gpu",
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            "limits": {"nvidia.com/gpu": 1},
        }
    )
    node_class = NodeClass.model_validate({"amiSelectorTerms": [{"alias": "al2023@v20260714"}]})
    pools = NodePoolsStack(
        app, "pools", karpenter=karpenter, node_classes={"gpu": node_class}, gpu_pools=[pool], env=env
    )
    return karpenter, pools


def test_an_imported_cluster_gets_the_same() -> None:
    karpenter, pools = _on(*_imported())
    template = assertions.Template.from_stack(karpenter)
    template.resource_count_is("AWS::EKS::Cluster", 0)
    trust = json.dumps(
        template.find_resources("AWS::IAM::Role", {"Properties": {"RoleName": assertions.Match.any_value()}})
    )
    assert ISSUER in trust
    assert "system:serviceaccount:kube-system:karpenter" in trust
    assert _object(assertions.Template.from_stack(pools).to_json(), "NodePool", "gpu")["spec"]["limits"]


@pytest.mark.parametrize("attribute", ["open_id_connect_provider", "cluster_endpoint"])
def test_what_an_imported_cluster_lacks_is_named(attribute: str) -> None:
    with pytest.raises(ValueError, match=f"has no {attribute}, which is needed for"):
        _on(*_imported(**{attribute: None}))
