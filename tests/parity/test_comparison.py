"""The comparison itself: what it takes for a difference, and that no difference gets by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.comparison import Meant, compare


def _object(**spec: Any) -> dict[str, Any]:
    return {"kind": "Thing", "metadata": {"name": "one", "namespace": "there"}, "spec": spec}


def test_equal_objects_have_no_difference_and_every_field_is_counted() -> None:
    compared = compare([_object(a=1, b=["x", "y"])], [_object(a=1, b=["x", "y"])], [])
    assert (compared.objects, compared.fields, compared.meant) == (1, 6, 0)


@pytest.mark.parametrize(
    ("ours", "upstream"),
    [
        (_object(a=1), _object(a=2)),
        (_object(a=1), _object(a="1")),
        (_object(a=1), _object(a=True)),
        (_object(a=1), _object()),
        (_object(), _object(a=1)),
        (_object(a=[1, 2]), _object(a=[2, 1])),
        (_object(a=[1]), _object(a=[1, 2])),
        (_object(a={}), _object()),
        (_object(), _object(a={"b": []})),
    ],
)
def test_what_differs_is_told_unless_it_is_meant(ours: dict[str, Any], upstream: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"not in the table:\nThing/there/one spec"):
        compare([ours], [upstream], [])
    assert compare([ours], [upstream], [Meant("Thing/*", r"spec.*", "for a test")]).meant >= 1


def test_an_object_that_one_side_has_alone_is_a_difference() -> None:
    for ours, upstream in ((1, 0), (0, 1)):
        with pytest.raises(AssertionError, match=r"Thing/there/one \(object\)"):
            compare([_object()] * ours, [_object()] * upstream, [])


def test_what_is_null_and_an_empty_annotation_are_absent() -> None:
    compared = compare([_object(b=1)], [_object(b=1, a=None, annotations={}, securityContext={})], [])
    assert compared.fields == 4


def test_a_row_that_names_our_value_explains_no_other() -> None:
    row = Meant("*", r"spec\.a", "for a test", ours=1)
    assert compare([_object(a=1)], [_object(a=2)], [row]).meant == 1
    with pytest.raises(AssertionError, match="not in the table"):
        compare([_object(a=3)], [_object(a=2)], [row])


def test_a_row_that_explains_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="explain no difference any more"):
        compare([_object(a=1)], [_object(a=1)], [Meant("*", r"spec\.a", "for a test")])


def test_a_row_explains_whole_paths_alone() -> None:
    with pytest.raises(AssertionError, match="not in the table"):
        compare([_object(ab=1)], [_object(ab=2)], [Meant("*", r"spec\.a", "for a test")])


def test_two_objects_of_one_name_are_an_error() -> None:
    with pytest.raises(AssertionError, match="there twice"):
        compare([_object(), _object()], [], [])
