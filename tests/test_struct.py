"""Records: what a class of fields promises."""

from __future__ import annotations

import pickle

import pytest

from circlet.struct import Struct


class Point(Struct):
    """Two numbers, the second of which may be left out."""

    x: int
    y: int = 2


def test_fields_are_given_in_order_or_by_name() -> None:
    assert Point(1, 3)._asdict() == {"x": 1, "y": 3}
    assert Point(y=3, x=1) == Point(1, 3)


def test_a_field_left_out_has_its_default() -> None:
    assert Point(1).y == 2
    assert Point(1) == Point(1, 2)
    assert hash(Point(1)) == hash(Point(1, 2))
    assert repr(Point(1)) == "Point(x=1, y=2)"


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 3})]
)
def test_fields_that_do_not_fit_are_refused(values: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="the fields x, y"):
        Point(*values, **named)


def test_a_record_does_not_change_but_can_be_replaced() -> None:
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 5  # type: ignore[misc]
    assert point._replace(y=7) == Point(1, 7)
    assert point == Point(1)


def test_records_of_different_classes_differ() -> None:
    class Other(Struct):
        x: int
        y: int = 2

    assert Other(1) != Point(1)


def test_a_record_survives_a_process_boundary() -> None:
    assert pickle.loads(pickle.dumps(Point(4))) == Point(4)
