"""What Karpenter's API refuses is refused with words that say what to do; `tests/differential` compares verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from configuration.api import EC2NodeClassSpec, NodePoolSpec
from configuration.pools import dump

POOL: Mapping[str, Any] = {
    "template": {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}
}
CLASS: Mapping[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@v20260714"}],
    "subnetSelectorTerms": [{"id": "subnet-0a"}],
    "securityGroupSelectorTerms": [{"id": "sg-0a"}],
}


def _words(model: type[NodePoolSpec | EC2NodeClassSpec], content: Mapping[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(content, by_name=False)
    # A list whose only item is wrong is called too short as well; `load_environment` leaves that out.
    details = caught.value.errors()[0]
    return details["msg"].removeprefix("Value error, ")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"replicas": 1, "limits": {"cpu": 1}},
            "limits: a pool with replicas takes a limit on nodes alone; remove replicas or the other limits",
        ),
        ({"replicas": 1, "weight": 1}, "weight: a pool with replicas takes no weight; remove one of the two"),
        (
            {"disruption": {"consolidateAfter": "1m", "budgets": [{"schedule": "@daily"}]}},
            "schedule is given without duration; give both or neither",
        ),
        (
            {"disruption": {"consolidateAfter": "1m", "budgets": [{"reasons": ["Empty", "Empty"]}]}},
            "Empty is given twice; keep one",
        ),
    ],
)
def test_a_refused_pool_is_told_what_to_do(content: Mapping[str, Any], words: str) -> None:
    assert _words(NodePoolSpec, {**POOL, **content}) == words


CLASSES: Sequence[tuple[Mapping[str, Any], str]] = [
    ({"instanceProfile": "nodes"}, "needs role or instanceProfile, one of the two"),
    ({"role": ""}, "must not be empty; remove the key or give it a value"),
    ({"amiFamily": "AL2"}, "amiFamily: must be AL2023 or Custom with the alias al2023@v20260714; or remove it"),
    (
        {"amiSelectorTerms": [{"id": "ami-0a"}]},
        "amiFamily: is needed where no alias names it; add for example amiFamily: AL2023",
    ),
    ({"amiSelectorTerms": [{"id": "ami-0a", "owner": "self"}]}, "id: says it all; remove owner"),
    ({"amiSelectorTerms": [{"owner": "self"}]}, "selects no image; add alias, id, name, ssmParameter or tags"),
    (
        {"amiSelectorTerms": [{"alias": "al2023@latest"}, {"id": "ami-0a"}]},
        "an alias must be the only term; remove it or the others",
    ),
    (
        {"amiSelectorTerms": [{"alias": "windows2022@v1"}]},
        "windows2022 has no releases to choose from; write windows2022@latest",
    ),
    ({"subnetSelectorTerms": []}, "is empty; add a term with id or tags"),
    (
        {"subnetSelectorTerms": [{"tags": {"a": ""}}]},
        "a tag without a key or a value selects nothing; write '*' for any value",
    ),
    (
        {"tags": {"karpenter.sh/nodepool": "a"}},
        "karpenter.sh/nodepool is a tag that Karpenter sets itself; remove it",
    ),
    (
        {"blockDeviceMappings": [{"ebs": {}}]},
        "a volume needs volumeSize or snapshotID; add for example volumeSize: 100Gi",
    ),
    ({"blockDeviceMappings": [{"rootVolume": True}] * 2}, "two say rootVolume: true; keep it on one"),
    (
        {"kubelet": {"evictionSoft": {"pid.available": "5%"}}},
        "evictionSoft: pid.available needs a time in evictionSoftGracePeriod; add it there",
    ),
    (
        {"kubelet": {"kubeReserved": {"gpu": "1"}}},
        "'gpu' is not known to kubelet here; use cpu, memory, ephemeral-storage, pid",
    ),
    ({"kubelet": {"systemReserved": {"cpu": "-1"}}}, "cpu -1 is negative; nothing less than 0 can be kept back"),
    (
        {"networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface"}]},
        "needs a primary interface: add networkCardIndex: 0, deviceIndex: 0, interfaceType: interface",
    ),
    ({"placementGroupSelector": {}}, "needs id or name, one of the two"),
    (
        {"connectionTracking": {}},
        "is empty; add tcpEstablishedTimeout, udpStreamTimeout or udpTimeout, or remove the key",
    ),
]


@pytest.mark.parametrize(("content", "words"), CLASSES)
def test_a_refused_node_class_is_told_what_to_do(content: Mapping[str, Any], words: str) -> None:
    assert _words(EC2NodeClassSpec, {**CLASS, **content}) == words


def test_what_is_written_is_what_was_read_and_no_more() -> None:
    assert dump(EC2NodeClassSpec.model_validate(CLASS, by_name=False)) == CLASS
    assert dump(NodePoolSpec.model_validate(POOL, by_name=False)) == POOL


def test_a_key_without_a_value_counts_as_left_out() -> None:
    # As the API server has it: it drops a null of an object's own key before it looks.
    assert dump(NodePoolSpec.model_validate({**POOL, "weight": None}, by_name=False)) == POOL
