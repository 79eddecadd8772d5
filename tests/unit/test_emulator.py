# pyright: reportMissingTypeStubs=false
"""MiniStack still is what was read: its insides stand where the emulator expects them."""

import pytest

from rehearsal.aws.emulator import contract


def test_the_installed_ministack_keeps_the_contract() -> None:
    assert contract.breaches() == []


def test_a_function_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import ministack.services.sts

    monkeypatch.delattr(ministack.services.sts, "_web_identity_trust_denied")
    assert contract.breaches() == ["ministack.services.sts has no _web_identity_trust_denied()"]


def test_a_function_that_takes_something_else_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import ministack.services.eks

    def verify(token: str) -> None: ...

    monkeypatch.setattr(ministack.services.eks, "_verify_eks_token", verify)
    assert contract.breaches() == [
        "ministack.services.eks._verify_eks_token takes ('token',), not ('token', 'cluster_name')"
    ]


def test_a_listing_that_both_hold_has_the_items_of_both() -> None:
    from rehearsal.aws.emulator.ec2 import _merged  # pyright: ignore[reportPrivateUsage]

    theirs = b"<R><volumeSet><item>theirs</item></volumeSet></R>"
    assert _merged("volumeSet", b"<R><volumeSet><item>ours</item></volumeSet></R>", theirs) == (
        b"<R><volumeSet><item>ours</item><item>theirs</item></volumeSet></R>"
    )
    assert _merged("volumeSet", b"<R><volumeSet/></R>", theirs) == theirs
