"""Every mistake a user can make in an environment file gives one message that says what to do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from configuration import ConfigurationError, images, load_environment

Content = dict[str, Any]
Refusal = Callable[[Content], str]

ARCH = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    """Load a changed environment; give what is said of it, without the file's own line."""

    def load(content: Content) -> str:
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(content))
        with pytest.raises(ConfigurationError) as caught:
            load_environment("mine", tmp_path)
        first, *problems = str(caught.value).splitlines()
        assert first == f"{path} cannot be built:"
        return "\n".join(problem.strip() for problem in problems)

    return load


def _set(content: Content, path: str, value: Any) -> None:
    *parents, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    node: Any = content
    for part in parents:
        node = node[part]
    node[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "gpuPool",
            [],
            "gpuPool: unknown key; allowed here: alarms, cluster, cpuPools, dcgmExporter, devicePlugin, gpuPools, "
            "karpenter, network, nodeClasses, samples, tags",
        ),
        (
            "name",
            "mine",
            "name: unknown key; allowed here: alarms, cluster, cpuPools, dcgmExporter, devicePlugin, gpuPools, "
            "karpenter, network, nodeClasses, samples, tags (given: 'mine')",
        ),
        (
            "gpuPools/0/taint",
            "gpu",
            "gpuPools[0].taint: unknown key; allowed here: annotations, disruption, expireAfter, labels, limits, name, "
            "nodeClass, replicas, requirements, startupTaints, taints, terminationGracePeriod, weight (given: 'gpu')",
        ),
        (
            "nodeClasses/default/ami",
            "ami-1",
            "nodeClasses.default.ami: unknown key; allowed here: amiFamily, amiSelectorTerms, "
            "associatePublicIPAddress, blockDeviceMappings, capacityReservationSelectorTerms, connectionTracking, "
            "context, cpuOptions, detailedMonitoring, instanceProfile, instanceStorePolicy, ipPrefixCount, kubelet, "
            "metadataOptions, networkInterfaces, placementGroupSelector, role, securityGroupSelectorTerms, "
            "subnetSelectorTerms, tags, userData (given: 'ami-1')",
        ),
        (
            "nodeClasses/default/blockDeviceMappings/0/ebs/size",
            "100Gi",
            "nodeClasses.default.blockDeviceMappings[0].ebs.size: unknown key; allowed here: deleteOnTermination, "
            "encrypted, iops, kmsKeyID, snapshotID, throughput, volumeInitializationRate, volumeSize, volumeType "
            "(given: '100Gi')",
        ),
        ("karpenter", "1.14.1", "karpenter: must be a mapping of keys to values (given: '1.14.1')"),
        ("cluster/name", 1, "cluster.name: must be text; put it in quotes (given: 1)"),
        (
            "cluster/name",
            "my_cluster",
            "cluster.name: must be letters, digits and hyphens, beginning with a letter, such as training-on-eks "
            "(given: 'my_cluster')",
        ),
        (
            "cluster/name",
            "c" * 41,
            "cluster.name: is too long: at most 40 characters, so that the names made from it fit "
            f"(given: '{'c' * 41}')",
        ),
        (
            "cluster/kubernetesVersion",
            1.33,
            "cluster.kubernetesVersion: must be text; put it in quotes (given: 1.33)",
        ),
        (
            "cluster/nodeGroups/0/size",
            0,
            "cluster.nodeGroups[0].size: must be greater than or equal to 1 (given: 0)",
        ),
        (
            "cluster/nodeGroups/0/size",
            "1",
            "cluster.nodeGroups[0].size: must be a whole number, without quotes (given: '1')",
        ),
        (
            "cluster/nodeGroups/0/architecture",
            "arm64",
            "cluster.nodeGroups[0].architecture: m6i.large is amd64, not arm64; change one of the two",
        ),
        (
            "cluster/nodeGroups/0/instanceType",
            "g5.xlarge",
            "cluster.nodeGroups[0].instanceType: g5.xlarge has accelerators, and node groups are for CPU nodes; use a "
            "type such as m6i.large, and add a pool under gpuPools",
        ),
        (
            "cluster/nodeGroups/1/name",
            "ng-x86",
            "cluster.nodeGroups: two have the name ng-x86; give every node group a name of its own",
        ),
        (
            "karpenter/version",
            "1.4.0",
            "karpenter.version: Karpenter 1.4.0 does not support Kubernetes 1.33, which needs Karpenter >= 1.5; use "
            "Karpenter 1.14.1, or Kubernetes 1.32, the newest that Karpenter 1.4.0 supports",
        ),
        (
            "karpenter/version",
            "1.7.4",
            "karpenter.version: 1.7.4 is not a release that this project carries; use 1.8.8 or 1.9.2 or 1.10.2 or "
            "1.11.3 or 1.12.2 or 1.13.1 or 1.14.1",
        ),
        (
            "karpenter/version",
            "v1.14.1",
            "karpenter.version: must be a release such as 1.14.1, without a v (given: 'v1.14.1')",
        ),
        (
            "karpenter/replicas",
            3,
            "karpenter.replicas: 3 pods need as many nodes, and the node groups have 2 together; lower it or raise a "
            "node group's size",
        ),
        (
            "karpenter/memory",
            "1GB",
            "karpenter.memory: must be a Kubernetes quantity such as \"1\", 500m or 1Gi (given: '1GB')",
        ),
        (
            "devicePlugin/version",
            "0.17.0",
            "devicePlugin.version: is not a release that this project carries; use 0.18.2 (given: '0.17.0')",
        ),
        (
            "network/region",
            "oregon",
            "network.region: must be an AWS Region such as us-west-2 (given: 'oregon')",
        ),
        (
            "nodeClasses/default/amiSelectorTerms/0/alias",
            "al2023@20260714",
            "nodeClasses.default.amiSelectorTerms[0].alias: al2023@20260714 must be al2023@vYYYYMMDD, a release listed "
            "at https://github.com/awslabs/amazon-eks-ami/releases (or al2023@latest, and then every release replaces "
            "every node)",
        ),
        (
            "nodeClasses/default/amiSelectorTerms/0/alias",
            "ubuntu@latest",
            "nodeClasses.default.amiSelectorTerms[0].alias: must be family@version, such as al2023@v20260714; the "
            "families are al2, al2023, bottlerocket, windows2019, windows2022, windows2025 (given: 'ubuntu@latest')",
        ),
        (
            "nodeClasses/default/blockDeviceMappings/0/ebs/volumeSize",
            "100",
            "nodeClasses.default.blockDeviceMappings[0].ebs.volumeSize: must be a size with its unit, such as 100Gi "
            "(given: '100')",
        ),
        (
            "nodeClasses/default/blockDeviceMappings/0/ebs/encrypted",
            "yes",
            "nodeClasses.default.blockDeviceMappings[0].ebs.encrypted: must be true or false (given: 'yes')",
        ),
        (
            "gpuPools/0/name",
            "GPU",
            "gpuPools[0].name: must be lower-case letters, digits and hyphens, such as gpu-pool (given: 'GPU')",
        ),
        (
            "gpuPools/0/nodeClass",
            "h100",
            "gpuPools[0].nodeClass: nobody defines 'h100'; use one of cpu, default, gpu, spot, or add it "
            "under nodeClasses",
        ),
        (
            "gpuPools/0/limits",
            {"cpu": 1000},
            "gpuPools[0].limits: a GPU pool needs a limit on nvidia.com/gpu, the most GPUs it may hold: no other limit "
            "bounds what it may cost; add for example nvidia.com/gpu: 8",
        ),
        (
            "gpuPools/0/limits/cpu",
            "lots",
            "gpuPools[0].limits.cpu: must be a whole number, without quotes, or must be a Kubernetes quantity such as "
            "\"1\", 500m or 1Gi (given: 'lots')",
        ),
        (
            "gpuPools/0/disruption/consolidateAfter",
            "1 minute",
            "gpuPools[0].disruption.consolidateAfter: must be a time such as 30s, 1m or 720h, or Never "
            "(given: '1 minute')",
        ),
        (
            "gpuPools/0/labels",
            {"eks.amazonaws.com/instance-category": "g"},
            "gpuPools[0].labels: eks.amazonaws.com/instance-category belongs to EKS Auto Mode; open-source Karpenter "
            "would accept it and filter nothing; write karpenter.k8s.aws/instance-category",
        ),
        (
            "gpuPools/0/labels",
            {"nvidia.com/gpu.present": "false"},
            "gpuPools[0].labels: nvidia.com/gpu.present is put on every GPU pool's nodes already; remove it",
        ),
        (
            "gpuPools/0/requirements/0/key",
            "eks.amazonaws.com/instance-category",
            "gpuPools[0].requirements[0].key: eks.amazonaws.com/instance-category belongs to EKS Auto Mode; "
            "open-source Karpenter would accept it and filter nothing; write karpenter.k8s.aws/instance-category "
            "(given: 'eks.amazonaws.com/instance-category')",
        ),
        (
            "gpuPools/0/requirements/0/key",
            "karpenter.k8s.aws/instance-kind",
            "gpuPools[0].requirements[0].key: karpenter.k8s.aws/instance-kind is not a label of Karpenter's; those it "
            "knows: https://karpenter.sh/docs/concepts/scheduling/#well-known-labels "
            "(given: 'karpenter.k8s.aws/instance-kind')",
        ),
        (
            "gpuPools/0/requirements/0/key",
            "karpenter.sh/nodepool",
            "gpuPools[0].requirements[0].key: karpenter.sh/nodepool is set by Karpenter itself; of this domain only "
            "karpenter.sh/capacity-type may be used (given: 'karpenter.sh/nodepool')",
        ),
        (
            "gpuPools/0/requirements/0/operator",
            "in",
            "gpuPools[0].requirements[0].operator: must be 'In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt', 'Gte' "
            "or 'Lte' (given: 'in')",
        ),
        (
            "gpuPools/0/requirements/0",
            {**ARCH, "values": []},
            "gpuPools[0].requirements[0]: operator In on kubernetes.io/arch needs at least one value; "
            "add values: [...]",
        ),
        (
            "gpuPools/0/requirements/0",
            {**ARCH, "operator": "Exists"},
            "gpuPools[0].requirements[0]: operator Exists on kubernetes.io/arch takes no values; remove ['amd64']",
        ),
        (
            "gpuPools/0/requirements/0",
            {**ARCH, "operator": "Gt"},
            "gpuPools[0].requirements[0]: operator Gt on kubernetes.io/arch needs exactly one whole number >= 0 in "
            "quotes; given ['amd64']",
        ),
        ("gpuPools/0/taints", [], "gpuPools[0].taints: must have at least 1 item(s)"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    path: str, value: Any, message: str, content: Content, refusal: Refusal
) -> None:
    _set(content, path, value)
    assert refusal(content) == message


def test_a_missing_key_is_named(content: Content, refusal: Refusal) -> None:
    del content["cluster"]["name"]
    assert refusal(content) == "cluster.name: this key is needed"


def test_two_pools_of_one_name_are_refused(content: Content, refusal: Refusal) -> None:
    content["gpuPools"] = content["gpuPools"][:1] * 2
    assert refusal(content) == "gpuPools: two have the name gpu-pool; give every pool a name of its own"


def test_a_taint_given_twice_is_refused(content: Content, refusal: Refusal) -> None:
    content["gpuPools"][0]["taints"] *= 2
    assert refusal(content) == "gpuPools[0]: taint gpu-workload:NoSchedule is given twice; keep one"


def test_all_mistakes_are_told_at_once(content: Content, refusal: Refusal) -> None:
    content["cluster"]["name"] = 1
    content["karpenter"]["replicas"] = "two"
    assert refusal(content).splitlines() == [
        "cluster.name: must be text; put it in quotes (given: 1)",
        "karpenter.replicas: must be a whole number, without quotes (given: 'two')",
    ]


def test_two_pools_of_one_name_are_refused_though_only_one_has_gpus(content: Content, refusal: Refusal) -> None:
    content["cpuPools"][1]["name"] = "gpu"
    assert refusal(content) == "cpuPools[1].name: two pools have the name gpu; give every pool a name of its own"


def test_an_environment_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    for name in ("production", "workshop"):
        (tmp_path / f"{name}.yaml").touch()
    with pytest.raises(ConfigurationError) as caught:
        load_environment("../workshop", tmp_path)
    assert str(caught.value).splitlines() == [
        f"there is no environment '../workshop' in {tmp_path}",
        "  those that exist: production, workshop",
        "  choose one with -c environment=NAME, or add a file there",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", ", line 3, column 1: not valid YAML: key 'a' is given twice, first on line 1; keep one"),
        ("a: [1, 2\nb: 3\n", ", line 2, column 2: not valid YAML: did not find expected ',' or ']'"),
        ("", " is empty or not a mapping; copy environments/workshop.yaml and change it"),
        ("- 1\n", " is empty or not a mapping; copy environments/workshop.yaml and change it"),
    ],
)
def test_what_is_not_a_mapping_in_yaml_is_refused_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_environment("mine", tmp_path)
    assert str(caught.value) == f"{path}{message}"


def test_two_environments_with_one_cluster_are_refused(content: Content, tmp_path: Path) -> None:
    for name in ("blue", "green"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigurationError) as caught:
        load_environment("green", tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'green.yaml'} cannot be built:\n"
        "  cluster.name: training-on-eks is the cluster of blue.yaml already; stacks and roles are named after it, so "
        "deploying the one would replace the other: give each a name of its own"
    )


@pytest.mark.parametrize("text", ["cluster: [", "cluster: eks", "network: {}"])
def test_a_broken_environment_does_not_stand_in_the_way_of_another(text: str, content: Content, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    (tmp_path / "broken.yaml").write_text(text)
    assert load_environment("mine", tmp_path).name == "mine"


def test_karpenter_and_the_device_plugin_have_namespaces_of_their_own(content: Content, refusal: Refusal) -> None:
    content["devicePlugin"]["namespace"] = content["karpenter"]["namespace"]
    assert refusal(content) == "devicePlugin.namespace: karpenter is Karpenter's already; give each its own"


def test_a_pool_whose_nodes_cannot_run_what_each_must_run_is_refused(
    content: Content, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All images of today have both architectures: one that has not is made up.
    monkeypatch.setitem(images.IMAGE_ARCHITECTURES, images.NFD_REPOSITORY, frozenset({"amd64"}))
    content["gpuPools"][1]["requirements"][0]["values"] = ["arm64"]
    assert refusal(content) == (
        "gpuPools[1].requirements: the pool may buy arm64 nodes, and registry.k8s.io/nfd/node-feature-discovery:"
        "v0.17.3, which every one of them must run, is there for amd64 alone; require kubernetes.io/arch In [amd64]"
    )
