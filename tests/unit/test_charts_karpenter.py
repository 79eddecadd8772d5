"""Karpenter's objects, without CDK: what its chart renders, and where its pods go."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import cdk8s
import pytest

from charts import ClusterFacts, KarpenterChart
from configuration import Environment, Karpenter

Objects = Mapping[str, dict[str, Any]]

ROLE = "arn:aws:iam::111122223333:role/controller"
CLUSTER = ClusterFacts(
    name="gpus",
    endpoint="https://cluster.example",
    region="us-west-2",
    interruption_queue="gpus",
    node_groups=["ng-x86", "ng-arm"],
)


def _objects(karpenter: Karpenter, cluster: ClusterFacts = CLUSTER, role_arn: str | None = ROLE) -> Objects:
    chart = KarpenterChart(cdk8s.App(), "karpenter", karpenter=karpenter, cluster=cluster, role_arn=role_arn)
    rendered: list[dict[str, Any]] = chart.to_json()
    return {
        "/".join(p for p in (o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) if p): o
        for o in rendered
    }


def _changed(environment: Environment, **keys: Any) -> Karpenter:
    """The workshop's Karpenter with other keys, checked as a file's would be."""
    return Karpenter.model_validate({**environment.karpenter.model_dump(), **keys})


def _pod(objects: Objects) -> dict[str, Any]:
    (deployment,) = (found for found in objects.values() if found["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


def _told(objects: Objects) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in _pod(objects)["containers"][0]["env"]}


@pytest.fixture(scope="module")
def objects(environment: Environment) -> Objects:
    """The workshop's, with upstream's own gates and settings."""
    return _objects(_changed(environment, feature_gates={}, settings={}))


@pytest.fixture(scope="module")
def pod(objects: Objects) -> dict[str, Any]:
    return objects["Deployment/karpenter/karpenter"]["spec"]["template"]["spec"]


def test_s0_7_the_thirteen_objects_of_the_chart_and_their_namespace(objects: Objects) -> None:
    assert sorted(objects) == [
        "ClusterRole/karpenter",
        "ClusterRole/karpenter-admin",
        "ClusterRole/karpenter-core",
        "ClusterRoleBinding/karpenter",
        "ClusterRoleBinding/karpenter-core",
        "Deployment/karpenter/karpenter",
        "Namespace/karpenter",
        "PodDisruptionBudget/karpenter/karpenter",
        "Role/karpenter/karpenter",
        "Role/kube-system/karpenter-dns",
        "RoleBinding/karpenter/karpenter",
        "RoleBinding/kube-system/karpenter-dns",
        "Service/karpenter/karpenter",
        "ServiceAccount/karpenter/karpenter",
    ]


def test_every_object_but_the_namespace_carries_the_charts_labels(objects: Objects) -> None:
    for name, found in objects.items():
        if found["kind"] != "Namespace":
            labels = found["metadata"]["labels"]
            assert labels["helm.sh/chart"] == "karpenter-1.14.1", name
            assert labels["app.kubernetes.io/version"] == "1.14.1", name
            assert labels["app.kubernetes.io/name"] == "karpenter", name
            assert labels["app.kubernetes.io/instance"] == "karpenter", name


def test_s0_7_two_replicas_of_the_pinned_image_with_one_cpu_and_one_gib_each(
    objects: Objects, pod: dict[str, Any]
) -> None:
    (container,) = pod["containers"]
    assert objects["Deployment/karpenter/karpenter"]["spec"]["replicas"] == 2
    assert container["image"] == (
        "public.ecr.aws/karpenter/controller:1.14.1"
        "@sha256:445baefaaa689029cc12ac1f659b916b0b82fb14308ce536f8521fcf079116fa"
    )
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }


def test_s0_7_pods_stay_on_the_managed_node_groups_one_a_node(pod: dict[str, Any]) -> None:
    own = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
    assert pod["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        # In one term: both must hold.
                        "matchExpressions": [
                            {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"},
                            {"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": ["ng-arm", "ng-x86"]},
                        ]
                    }
                ]
            }
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": own}}
            ]
        },
    }
    assert pod["topologySpreadConstraints"] == [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": own},
        }
    ]
    assert pod["tolerations"] == [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_s0_7_the_controller_is_told_its_cluster_and_its_queue(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert [(variable["name"], variable.get("value")) for variable in container["env"]] == [
        ("KUBERNETES_MIN_VERSION", "1.19.0-0"),
        ("KARPENTER_SERVICE", "karpenter"),
        ("LOG_LEVEL", "info"),
        ("LOG_OUTPUT_PATHS", "stdout"),
        ("LOG_ERROR_OUTPUT_PATHS", "stderr"),
        ("METRICS_PORT", "8080"),
        ("HEALTH_PROBE_PORT", "8081"),
        ("SYSTEM_NAMESPACE", None),
        ("CPU_REQUESTS", None),
        ("MEMORY_LIMIT", None),
        (
            "FEATURE_GATES",
            "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false,NodeOverlay=false,"
            "StaticCapacity=false,CapacityBuffer=false",
        ),
        ("BATCH_MAX_DURATION", "10s"),
        ("BATCH_IDLE_DURATION", "1s"),
        ("PREFERENCE_POLICY", "Respect"),
        ("MIN_VALUES_POLICY", "Strict"),
        ("CLUSTER_NAME", "gpus"),
        ("CLUSTER_ENDPOINT", "https://cluster.example"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "0.075"),
        ("INTERRUPTION_QUEUE", "gpus"),
        ("RESERVED_ENIS", "0"),
        ("IGNORE_DRA_REQUESTS", "true"),
        ("AMI_REFRESH_INTERVAL", "1m"),
        ("SUBNET_REFRESH_INTERVAL", "1m"),
        ("AWS_REGION", "us-west-2"),
    ]
    fields = [variable["valueFrom"] for variable in container["env"] if "valueFrom" in variable]
    assert fields == [
        {"fieldRef": {"fieldPath": "metadata.namespace"}},
        {"resourceFieldRef": {"containerName": "controller", "divisor": "1m", "resource": "requests.cpu"}},
        {"resourceFieldRef": {"containerName": "controller", "divisor": "0", "resource": "limits.memory"}},
    ]


def test_the_container_can_do_nothing_as_root(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"] == {"fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["priorityClassName"] == "system-cluster-critical"


def test_probes_and_ports_are_the_charts(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert container["livenessProbe"] == {
        "initialDelaySeconds": 30,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/healthz", "port": "http"},
    }
    assert container["readinessProbe"] == {
        "initialDelaySeconds": 5,
        "timeoutSeconds": 30,
        "httpGet": {"path": "/readyz", "port": "http"},
    }
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"http-metrics": 8080, "http": 8081}


def test_s0_3_the_service_account_names_its_role(objects: Objects, pod: dict[str, Any]) -> None:
    account = objects["ServiceAccount/karpenter/karpenter"]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE}
    assert pod["serviceAccountName"] == "karpenter"
    assert pod["automountServiceAccountToken"] is True


@pytest.mark.parametrize(
    ("role", "rules"),
    [
        (
            "ClusterRole/karpenter-admin",
            [
                "karpenter.sh: nodepools nodepools/status nodeclaims nodeclaims/status: "
                "get list watch create delete patch",
                "karpenter.k8s.aws: ec2nodeclasses: get list watch create delete patch",
            ],
        ),
        (
            "ClusterRole/karpenter-core",
            [
                "karpenter.sh: nodepools nodepools/status nodeclaims nodeclaims/status nodeoverlays "
                "nodeoverlays/status: get list watch",
                "autoscaling.x-k8s.io: capacitybuffers capacitybuffers/status: get list watch",
                ": podtemplates: get list watch",
                ": pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers namespaces: "
                "get list watch",
                "storage.k8s.io: storageclasses csinodes volumeattachments: get watch list",
                "apps: daemonsets deployments replicasets statefulsets: get list watch",
                "policy: poddisruptionbudgets: get list watch",
                ": events: get list watch",
                "karpenter.sh: nodeclaims nodeclaims/status: create delete update patch",
                "karpenter.sh: nodepools nodepools/status nodeoverlays/status: update patch",
                "autoscaling.x-k8s.io: capacitybuffers/status: update patch",
                ": events: create patch",
                ": nodes: patch delete update",
                ": pods/eviction: create",
                ": pods: delete",
            ],
        ),
        (
            "ClusterRole/karpenter",
            [
                "karpenter.k8s.aws: ec2nodeclasses: get list watch",
                "karpenter.k8s.aws: ec2nodeclasses ec2nodeclasses/status: patch update",
            ],
        ),
        (
            "Role/karpenter/karpenter",
            [
                "coordination.k8s.io: leases: get watch",
                "coordination.k8s.io: leases: patch update: karpenter-leader-election",
                "coordination.k8s.io: leases: create",
            ],
        ),
        ("Role/kube-system/karpenter-dns", [": services: get: kube-dns"]),
    ],
)
def test_each_role_has_the_charts_rules(role: str, rules: list[str], objects: Objects) -> None:
    def line(rule: dict[str, list[str]]) -> str:
        parts = ("apiGroups", "resources", "verbs", "resourceNames")
        return ": ".join(" ".join(rule[part]) for part in parts if part in rule)

    assert [line(rule) for rule in objects[role]["rules"]] == rules


def test_each_role_is_bound_to_the_service_account(objects: Objects) -> None:
    bindings = [found for found in objects.values() if found["kind"].endswith("Binding")]
    assert len(bindings) == 4
    for binding in bindings:
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": binding["kind"].removesuffix("Binding"),
            "name": binding["metadata"]["name"],
        }
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "karpenter"}]


def test_people_who_administer_the_cluster_may_manage_pools(objects: Objects) -> None:
    labels = objects["ClusterRole/karpenter-admin"]["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"


def test_one_pod_at_a_time_may_go_and_the_service_finds_both(objects: Objects) -> None:
    selector = objects["Deployment/karpenter/karpenter"]["spec"]["selector"]["matchLabels"]
    budget = objects["PodDisruptionBudget/karpenter/karpenter"]["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": selector}}
    assert objects["Service/karpenter/karpenter"]["spec"]["selector"] == selector


@pytest.mark.parametrize(
    ("version", "digest"),
    [
        ("1.8.3", "sha256:2814fc3dfd440118fae8c75426d469f7015d77353c8b4b1c2fe6398838fd6627"),
        ("1.14.1", "sha256:445baefaaa689029cc12ac1f659b916b0b82fb14308ce536f8521fcf079116fa"),
    ],
)
def test_s0_7_in_the_release_of_the_text_and_in_todays(version: str, digest: str, environment: Environment) -> None:
    found = _objects(_changed(environment, version=version))
    deployment = found["Deployment/karpenter/karpenter"]
    pod, told = _pod(found), _told(found)
    (container,) = pod["containers"]
    assert len(found) == 14
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["labels"]["helm.sh/chart"] == f"karpenter-{version}"
    assert container["image"] == f"public.ecr.aws/karpenter/controller:{version}@{digest}"
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert (told["CLUSTER_NAME"], told["INTERRUPTION_QUEUE"]) == ("gpus", "gpus")
    affinity = pod["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"},
        {"key": "eks.amazonaws.com/nodegroup", "operator": "In", "values": ["ng-arm", "ng-x86"]},
    ]
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"


def test_s3_6_in_kube_system_with_cluster_endpoint_queue_and_role(environment: Environment) -> None:
    role = "arn:aws:iam::111122223333:role/gpus-karpenter"
    found = _objects(_changed(environment, namespace="kube-system", version="1.8.8"), role_arn=role)
    told = _told(found)
    (container,) = _pod(found)["containers"]
    assert told["CLUSTER_NAME"] == "gpus"
    assert told["CLUSTER_ENDPOINT"] == "https://cluster.example"
    assert told["INTERRUPTION_QUEUE"] == "gpus"
    account = found["ServiceAccount/kube-system/karpenter"]
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": role}
    assert container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    # The namespace is the cluster's own: it is neither made nor deleted with Karpenter.
    assert len(found) == 13
    assert not [name for name in found if name.startswith("Namespace/")]
    assert {name.split("/")[1] for name in found if name.count("/") == 2} == {"kube-system"}


def test_with_pod_identity_no_object_names_the_role(environment: Environment) -> None:
    found = _objects(_changed(environment, credentials="pod-identity"), role_arn=None)
    assert "annotations" not in found["ServiceAccount/karpenter/karpenter"]["metadata"]


def test_where_no_node_groups_are_known_it_keeps_off_the_nodes_that_it_buys_and_no_others(
    environment: Environment,
) -> None:
    found = _objects(environment.karpenter, cluster=replace(CLUSTER, node_groups=[]))
    required = _pod(found)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
    ]


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("1.8.0", {"CapacityBuffer", "AMI_REFRESH_INTERVAL", "SUBNET_REFRESH_INTERVAL", "capacitybuffers", "get"}),
        ("1.12.2", {"CapacityBuffer", "AMI_REFRESH_INTERVAL", "SUBNET_REFRESH_INTERVAL", "capacitybuffers", "get"}),
        ("1.13.0", {"CapacityBuffer", "capacitybuffers", "get"}),
        ("1.14.0", set[str]()),
    ],
)
def test_a_release_is_told_what_it_knows_and_may_do_what_it_does(
    version: str, lacking: set[str], environment: Environment
) -> None:
    found = _objects(_changed(environment, version=version))
    told, rules = _told(found), found["ClusterRole/karpenter-core"]["rules"]
    (apps,) = (rule for rule in rules if rule["apiGroups"] == ["apps"])
    there = {
        "CapacityBuffer": "CapacityBuffer=" in told["FEATURE_GATES"],
        "AMI_REFRESH_INTERVAL": told.get("AMI_REFRESH_INTERVAL") == "1m",
        "SUBNET_REFRESH_INTERVAL": told.get("SUBNET_REFRESH_INTERVAL") == "1m",
        "capacitybuffers": any("capacitybuffers" in rule["resources"] for rule in rules),
        "get": apps["verbs"] == ["get", "list", "watch"],
    }
    assert {name for name, known in there.items() if not known} == lacking
    assert any("podtemplates" in rule["resources"] for rule in rules) is ("capacitybuffers" not in lacking)


def test_settings_and_gates_reach_the_controller(environment: Environment) -> None:
    karpenter = _changed(
        environment,
        feature_gates={"spot_to_spot_consolidation": True, "reserved_capacity": False, "capacity_buffer": True},
        settings={
            "batch_max_duration": "30s",
            "batch_idle_duration": "3s",
            "preference_policy": "Ignore",
            "min_values_policy": "BestEffort",
            "isolated_vpc": True,
            "vm_memory_overhead_percent": 0.0,
            "reserved_enis": 2,
            "enable_zonal_shift": True,
            "log_level": "debug",
        },
        image_repository="registry.example/karpenter",
    )
    found = _objects(karpenter)
    told = _told(found)
    expected = {
        "FEATURE_GATES": "ReservedCapacity=false,SpotToSpotConsolidation=true,NodeRepair=false,NodeOverlay=false,"
        "StaticCapacity=false,CapacityBuffer=true",
        "BATCH_MAX_DURATION": "30s",
        "BATCH_IDLE_DURATION": "3s",
        "PREFERENCE_POLICY": "Ignore",
        "MIN_VALUES_POLICY": "BestEffort",
        "ISOLATED_VPC": "true",
        "VM_MEMORY_OVERHEAD_PERCENT": "0.0",
        "RESERVED_ENIS": "2",
        "ENABLE_ZONAL_SHIFT": "true",
        "LOG_LEVEL": "debug",
    }
    assert {name: told[name] for name in expected} == expected
    image = _pod(found)["containers"][0]["image"]
    assert image.startswith("registry.example/karpenter:1.14.1@sha256:445baefa")


def test_without_a_queue_the_controller_is_told_of_none(environment: Environment) -> None:
    assert "INTERRUPTION_QUEUE" not in _told(
        _objects(environment.karpenter, cluster=replace(CLUSTER, interruption_queue=""))
    )
