"""Objects that are valid and together set every field, and texts that some pattern takes and another refuses."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TAINT: Final = {"key": "gpu", "value": "present", "effect": "NoSchedule", "timeAdded": "2026-11-21T08:00:00Z"}
_REFERENCE: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "mine"}

VALID: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "NodePool": [
        {"template": {"spec": {"nodeClassRef": _REFERENCE, "requirements": []}}},
        {
            "template": {
                "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/owner": "vision"}},
                "spec": {
                    "nodeClassRef": _REFERENCE,
                    "requirements": [
                        {
                            "key": "karpenter.k8s.aws/instance-family",
                            "operator": "In",
                            "values": ["g6", "g5"],
                            "minValues": 2,
                        },
                        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["3"]},
                    ],
                    "taints": [{**_TAINT}],
                    "startupTaints": [{**_TAINT}],
                    "expireAfter": "720h",
                    "terminationGracePeriod": "1h",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "1m",
                "budgets": [
                    {"nodes": "10%", "reasons": ["Empty"], "schedule": "0 9 * * mon-fri", "duration": "8h"},
                    {"nodes": "1"},
                ],
            },
            "limits": {"cpu": 1000, "memory": "100Gi"},
            "weight": 10,
        },
        {
            "template": {"spec": {"nodeClassRef": _REFERENCE, "requirements": []}},
            "replicas": 3,
            "limits": {"nodes": 5},
        },
    ],
    "EC2NodeClass": [
        {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
            "subnetSelectorTerms": [{"tags": {"tier": "gpu"}}, {"id": "subnet-0a"}],
            "securityGroupSelectorTerms": [{"name": "nodes"}, {"id": "sg-0a"}, {"tags": {"tier": "*"}}],
        },
        {
            "instanceProfile": "nodes",
            "amiFamily": "AL2023",
            "amiSelectorTerms": [
                {"id": "ami-0a"},
                {"name": "mine-*", "owner": "self", "tags": {"team": "vision"}},
                {"ssmParameter": "/mine/image"},
            ],
            "subnetSelectorTerms": [{"id": "subnet-0a"}],
            "securityGroupSelectorTerms": [{"id": "sg-0a"}],
            "capacityReservationSelectorTerms": [
                {"id": "cr-0a"},
                {"tags": {"team": "*"}, "ownerID": "123456789012", "instanceMatchCriteria": "open"},
            ],
            "placementGroupSelector": {"id": "pg-0a"},
            "blockDeviceMappings": [
                {
                    "deviceName": "/dev/xvda",
                    "rootVolume": True,
                    "ebs": {
                        "volumeSize": "100Gi",
                        "volumeType": "gp3",
                        "iops": 3000,
                        "throughput": 125,
                        "encrypted": True,
                        "kmsKeyID": "alias/mine",
                        "deleteOnTermination": True,
                        "snapshotID": "snap-0a",
                        "volumeInitializationRate": 200,
                    },
                },
                {"deviceName": "/dev/xvdb"},
            ],
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
            "kubelet": {
                "clusterDNS": ["172.20.0.10"],
                "maxPods": 110,
                "podsPerCore": 10,
                "systemReserved": {"cpu": "100m", "memory": "100Mi"},
                "kubeReserved": {"cpu": "100m", "pid": "1000"},
                "evictionHard": {"memory.available": "5%"},
                "evictionSoft": {"memory.available": "500Mi"},
                "evictionSoftGracePeriod": {"memory.available": "1m"},
                "evictionMaxPodGracePeriod": 60,
                "imageGCHighThresholdPercent": 85,
                "imageGCLowThresholdPercent": 80,
                "cpuCFSQuota": True,
            },
            "networkInterfaces": [
                {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
                {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
            ],
            "connectionTracking": {"tcpEstablishedTimeout": 350, "udpStreamTimeout": 180, "udpTimeout": 30},
            "cpuOptions": {"nestedVirtualization": "enabled"},
            "tags": {"team": "vision"},
            "userData": "#!/bin/sh",
            "instanceStorePolicy": "RAID0",
            "detailedMonitoring": True,
            "associatePublicIPAddress": False,
            "ipPrefixCount": 1,
            "context": "mine",
        },
        {
            "role": "nodes",
            "amiFamily": "Custom",
            "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-0a"}],
            "securityGroupSelectorTerms": [{"id": "sg-0a"}],
            "placementGroupSelector": {"name": "mine"},
        },
    ],
}
"""By kind: specs that the API server takes."""

TEXTS: Final[Sequence[str]] = (
    *("", " ", "a", "A-b_c.d", "-a", "a-", "a.b/c", "A.b/c", "a/b/c", "/a", "a/", "é", "a b", "a\n", "\na", "٣", "٣%"),
    *("0", "1", "5%", "5.5%", "100%", "101%", "5%%", "+1", "-1", ".5", "1.", "1e3", "1E-2", "1Ki", "1k", "1K", "1GB"),
    *("1s", "1m", "1h30m", "30m1h", "8h0s", "90s", "1d", "Never", "never", "1m\n", "720h", "1h 1m"),
    *("@daily", "@dailyish", "x @daily", "0 9 * * 1", "a  b c", "0\t9 * * 1", "0\u00a09 * * 1", "0\v9 * * 1"),
    *("1Gi", "0Gi", "59000Gi", "59001Gi", "64000G", "64001G", "Ti", "T", "58Ti", "59Ti", "64T", "65T", "01Gi"),
    *("ami-0a", "ami-", "xami-0a!", "subnet-0a", "xsubnet-0a", "sg-0a", "sg-A", "cr-0a", "xcr-0a", "pg-0a", "pg-0a "),
    *("123456789012", "1234567890123", "al2023@latest", "al2023@", "@latest", "al2023", "ubuntu@1", "al2@v1@v2"),
    *("windows2022@latest", "windows2022@v1", "windows2022@latest@v1", "al2023@a\nb", "AL2023@latest"),
    *("karpenter.sh/capacity-type", "karpenter.sh/nodepool", "karpenter.sh/x", "xkarpenter.sh/x", "karpenter.sh"),
    *("karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/x", "kubernetes.io/hostname", "kubernetes.io/x"),
    *("eks:eks-cluster-name", "kubernetes.io/cluster/x", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"),
    *("2026-11-21T08:00:00Z", "2026-11-21t08:00:00.5+01:00", "2026-11-21T08:00:00", "2026-02-30T08:00:00Z"),
    *(
        "2026-11-21T24:00:00Z",
        "0000-02-29T00:00:00Z",
        "2026-11-21 08:00:00Z",
        "2026-11-21T08:00:00Ztx",
        "2026-11-21T08:00:00Z\n",
    ),
)
"""Tried in every field that holds text with a pattern, a format or a rule."""

_CLASS: Final = {
    "role": "nodes",
    "subnetSelectorTerms": [{"id": "subnet-0a"}],
    "securityGroupSelectorTerms": [{"id": "sg-0a"}],
}

_TERMS: Final[Sequence[Mapping[str, Any]]] = (
    {"id": "ami-0a", "alias": "al2023@latest"},
    {"id": "ami-0a", "name": "mine"},
    {"id": "ami-0a", "owner": "self"},
    {"id": "ami-0a", "tags": {}},
    {"id": "ami-0a", "ssmParameter": "/mine"},
    {"alias": "al2023@latest", "owner": "self"},
    {"alias": "al2023@latest", "ssmParameter": "/mine"},
    {"owner": "self"},
)

TOGETHER: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "NodePool": [
        {"template": {"spec": {"nodeClassRef": _REFERENCE, "requirements": []}}, "replicas": 1, "weight": 1},
        {"template": {"spec": {"nodeClassRef": _REFERENCE, "requirements": []}}, "replicas": 1, "limits": {}},
    ],
    "EC2NodeClass": [
        *(
            {**_CLASS, "amiSelectorTerms": [{"alias": f"{alias}@latest"}], "amiFamily": family}
            for alias in ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
            for family in ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025")
        ),
        *({**_CLASS, "amiSelectorTerms": [term], "amiFamily": "AL2023"} for term in _TERMS),
        {
            **_CLASS,
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "placementGroupSelector": {"id": "pg-0", "name": "a"},
        },
    ],
}
"""By kind: specs whose parts are each valid, and some not together."""
