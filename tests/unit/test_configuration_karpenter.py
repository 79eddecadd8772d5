"""Karpenter's releases: which are carried, and what each of them knows."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from configuration import Environment, Karpenter
from configuration.releases import KARPENTER_IMAGE_DIGESTS, WITHDRAWN_KARPENTER, numbers


def _changed(environment: Environment, **keys: Any) -> Karpenter:
    return Karpenter.model_validate({**environment.karpenter.model_dump(), **keys})


def test_every_published_release_from_1_8_0_to_1_14_1_is_carried_but_the_withdrawn_one() -> None:
    patches = {8: 9, 9: 3, 10: 3, 11: 4, 12: 3, 13: 2, 14: 2}
    published = [f"1.{minor}.{patch}" for minor, count in patches.items() for patch in range(count)]
    assert set(WITHDRAWN_KARPENTER) == {"1.8.4"}
    assert list(KARPENTER_IMAGE_DIGESTS) == [release for release in published if release != "1.8.4"]


def test_every_release_has_an_image_of_its_own() -> None:
    digests = list(KARPENTER_IMAGE_DIGESTS.values())
    assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in digests)
    assert len(set(digests)) == len(digests)


def test_the_release_with_the_regression_is_refused_with_the_reason(environment: Environment) -> None:
    with pytest.raises(ValidationError, match=r"1\.8\.4 must not be run: .*topology spread.*#2785.*use 1\.8\.8"):
        _changed(environment, version="1.8.4")


@pytest.mark.parametrize(
    ("keys", "first", "last_without"),
    [
        ({"settings": {"enable_zonal_shift": True}}, "1.12.0", "1.11.3"),
        ({"feature_gates": {"capacity_buffer": True}}, "1.14.0", "1.13.1"),
    ],
)
def test_a_switch_that_the_release_does_not_have_is_refused_with_the_one_that_has_it(
    keys: dict[str, Any], first: str, last_without: str, environment: Environment
) -> None:
    assert _changed(environment, version=first, **keys).version == first
    (key,) = (f"{part}.{switch}" for part, switches in keys.items() for switch in switches)
    camel = re.sub(r"_([a-z])", lambda found: found[1].upper(), key)
    needed = ".".join(str(part) for part in numbers(first)[:2])
    told = rf"{camel}: Karpenter {last_without} does not know it: it needs Karpenter >= {needed};"
    with pytest.raises(ValidationError, match=told):
        _changed(environment, version=last_without, **keys)
