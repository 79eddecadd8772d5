"""Which releases work together, and what an old Kubernetes costs."""

import pytest

from configuration.releases import KARPENTER_IMAGE_DIGESTS, KUBECTL_LAYERS, incompatibility, support_warning

# The oldest minor of Karpenter for each Kubernetes version, and the last patch release before it.
OLDEST = {
    "1.29": ("0.34.0", "0.33.5"),
    "1.30": ("0.37.0", "0.36.2"),
    "1.31": ("1.0.5", "1.0.4"),
    "1.32": ("1.2.0", "1.1.3"),
    "1.33": ("1.5.0", "1.4.0"),
    "1.34": ("1.6.0", "1.5.6"),
    "1.35": ("1.9.0", "1.8.8"),
    "1.36": ("1.13.0", "1.12.2"),
}
MINORS = ("1.8", "1.9", "1.10", "1.11", "1.12", "1.13", "1.14")
# Kubernetes version -> the minors of Karpenter from 1.8 on that cannot run on it.
TOO_OLD = {"1.33": (), "1.34": (), "1.35": ("1.8",), "1.36": ("1.8", "1.9", "1.10", "1.11", "1.12")}


@pytest.mark.parametrize("kubernetes", OLDEST)
def test_s0_2_s3_1_each_kubernetes_version_has_an_oldest_karpenter(kubernetes: str) -> None:
    oldest, too_old = OLDEST[kubernetes]
    assert incompatibility(karpenter=oldest, kubernetes=kubernetes) is None
    refused = incompatibility(karpenter=too_old, kubernetes=kubernetes)
    assert refused is not None
    assert f"Karpenter {too_old} does not support Kubernetes {kubernetes}" in refused


@pytest.mark.parametrize("kubernetes", TOO_OLD)
@pytest.mark.parametrize("minor", MINORS)
def test_every_pair_of_the_matrix(kubernetes: str, minor: str) -> None:
    refused = incompatibility(karpenter=f"{minor}.0", kubernetes=kubernetes)
    assert (refused is not None) is (minor in TOO_OLD[kubernetes])


def test_an_impossible_pair_is_refused_with_the_newest_pairs_that_work() -> None:
    assert incompatibility(karpenter="1.8.8", kubernetes="1.36") == (
        "Karpenter 1.8.8 does not support Kubernetes 1.36, which needs Karpenter >= 1.13; use Karpenter 1.14.1, or "
        "Kubernetes 1.34, the newest that Karpenter 1.8.8 supports"
    )


def test_s0_2_a_kubernetes_version_that_karpenter_does_not_know_is_refused() -> None:
    refused = incompatibility(karpenter="1.14.1", kubernetes="1.37")
    assert refused == (
        "no Karpenter release is known to support Kubernetes 1.37; use one of 1.29, 1.30, 1.31, 1.32, 1.33, 1.34, "
        "1.35, 1.36"
    )


def test_what_the_matrix_names_can_be_had() -> None:
    assert set(KUBECTL_LAYERS) == set(TOO_OLD)
    assert {version.rpartition(".")[0] for version in KARPENTER_IMAGE_DIGESTS} == set(MINORS)


@pytest.mark.parametrize(
    ("kubernetes", "warning"),
    [
        (
            "1.33",
            "Kubernetes 1.33 has been in extended support since 2026-07-29: EKS asks 0.60 USD an hour for the control "
            "plane instead of 0.10, 365 USD a month more; Kubernetes 1.36 is supported until 2027-08-02",
        ),
        (
            "1.34",
            "Kubernetes 1.34 goes into extended support on 2026-12-02: EKS asks 0.60 USD an hour for the control "
            "plane instead of 0.10, 365 USD a month more; Kubernetes 1.36 is supported until 2027-08-02",
        ),
        ("1.35", None),
        ("1.36", None),
    ],
)
def test_extended_support_is_told_with_its_price(kubernetes: str, warning: str | None) -> None:
    assert support_warning(kubernetes) == warning
