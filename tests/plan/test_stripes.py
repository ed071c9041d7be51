"""Stripes of chains: every plan is right, and the validator finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.errors import GraphError
from circlet.ops.geometry import SAME_UPPER, AxisPadding, Window, output_size, padding_sizes
from circlet.plan.stripes import Fill, Keep, Make, Stage, Stripe, StripePlan, plan_stripes
from circlet.plan.validate_stripes import validate_stripes

windows = st.builds(Window, st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
paddings = st.just(SAME_UPPER) | st.tuples(st.integers(0, 3), st.integers(0, 3))
layers = st.lists(st.tuples(windows, paddings), min_size=2, max_size=4)


def stages_of(height: int, layers: Sequence[tuple[Window, AxisPadding]]) -> list[Stage]:
    """The stages of windows over an image; none where windows do not fit."""
    stages = []
    for window, padding in layers:
        count = output_size(padding, height, window)
        if not count:
            return []
        stages.append(Stage(count, window, padding_sizes(padding, height, count, window)[0]))
        height = count
    return stages


def expanded() -> StripePlan:
    """1x1, 3x3, 1x1 over twelve rows, in four stripes."""
    point: tuple[Window, AxisPadding] = (Window(1), SAME_UPPER)
    return plan_stripes(stages_of(12, [point, (Window(3), SAME_UPPER), point]), 4)


@given(height=st.integers(1, 40), layers=layers, count=st.integers(1, 12))
@settings(max_examples=300)
def test_every_plan_is_valid(
    height: int, layers: list[tuple[Window, AxisPadding]], count: int
) -> None:
    stages = stages_of(height, layers)
    if stages:
        validate_stripes(plan_stripes(stages, min(count, stages[-1].height)))


def test_rows_are_made_once_where_stripes_follow_each_other() -> None:
    plan = expanded()
    made = [step.rows for stripe in plan.stripes for step in stripe.body if isinstance(step, Make)]
    assert sum(rows.height for rows in made) == 3 * 12


def test_buffers_hold_a_stripe_and_what_it_shares() -> None:
    plan = expanded()
    assert plan.capacities == (5, 3)


def test_a_stripe_afresh_makes_the_shared_rows_only() -> None:
    steps = expanded().stripes[1].afresh
    assert [step.rows.height for step in steps if isinstance(step, Make)] == [2]


Change = Callable[[Stripe], Stripe]


def _without(kind: type) -> Change:
    def change(stripe: Stripe) -> Stripe:
        return Stripe(*(tuple(s for s in steps if not isinstance(s, kind)) for steps in stripe))

    return change


def _shifted(stripe: Stripe) -> Stripe:
    body = tuple(s._replace(target=s.target - 9) if isinstance(s, Make) else s for s in stripe.body)
    return stripe._replace(body=body)


def _early(stripe: Stripe) -> Stripe:
    body = tuple(s._replace(source=s.source + 1) if isinstance(s, Make) else s for s in stripe.body)
    return stripe._replace(body=body)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without(Keep), "not there"),
        (_without(Fill), "not there"),
        (_without(Make), "every output row|not there"),
        (_shifted, "outside its buffer"),
        (_early, "not there"),
        (lambda stripe: stripe._replace(afresh=()), "not there"),
    ],
)
def test_a_damaged_plan_is_found(change: Change, message: str) -> None:
    plan = expanded()
    with pytest.raises(GraphError, match=message):
        validate_stripes(replace(plan, stripes=tuple(map(change, plan.stripes))))


def test_a_missing_stripe_is_found() -> None:
    plan = expanded()
    with pytest.raises(GraphError, match="every output row"):
        validate_stripes(replace(plan, stripes=plan.stripes[:-1]))
