"""Bands of chains: every plan is right, and the judge finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.errors import GraphError
from circlet.ops.geometry import Window, output_size, padding_sizes
from circlet.plan.bands import Band, BandPlan, Fill, Keep, Make, Stage, plan_bands
from circlet.plan.validate_bands import validate_bands

windows = st.builds(Window, st.integers(1, 5), st.integers(1, 3), st.integers(1, 2))
layers = st.lists(st.tuples(windows, st.sampled_from(["SAME", "VALID"])), min_size=2, max_size=4)


def stages_of(height: int, layers: Sequence[tuple[Window, str]]) -> list[Stage]:
    """The stages of windows over an image; none where windows do not fit."""
    stages = []
    for window, padding in layers:
        count = output_size(padding, height, window)
        if not count:
            return []
        stages.append(Stage(count, window, padding_sizes(padding, height, count, window)[0]))
        height = count
    return stages


def expanded() -> BandPlan:
    """1x1, 3x3, 1x1 over twelve rows, in four bands."""
    point = (Window(1), "SAME")
    return plan_bands(stages_of(12, [point, (Window(3), "SAME"), point]), 4)


@given(height=st.integers(1, 40), layers=layers, count=st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_every_plan_is_valid(height: int, layers: list[tuple[Window, str]], count: int) -> None:
    stages = stages_of(height, layers)
    if stages:
        validate_bands(plan_bands(stages, min(count, stages[-1].height)))


def test_rows_are_made_once_where_bands_follow_each_other() -> None:
    plan = expanded()
    made = [step.rows for band in plan.bands for step in band.body if isinstance(step, Make)]
    assert sum(rows.height for rows in made) == 3 * 12


def test_buffers_hold_a_band_and_what_it_shares() -> None:
    plan = expanded()
    assert plan.capacities == (5, 3)


def test_a_band_afresh_makes_the_shared_rows_only() -> None:
    steps = expanded().bands[1].afresh
    assert [step.rows.height for step in steps if isinstance(step, Make)] == [2]


Change = Callable[[Band], Band]


def _without(kind: type) -> Change:
    def change(band: Band) -> Band:
        return Band(*(tuple(s for s in steps if not isinstance(s, kind)) for steps in band))

    return change


def _shifted(band: Band) -> Band:
    body = tuple(s._replace(target=s.target - 9) if isinstance(s, Make) else s for s in band.body)
    return band._replace(body=body)


def _early(band: Band) -> Band:
    body = tuple(s._replace(source=s.source + 1) if isinstance(s, Make) else s for s in band.body)
    return band._replace(body=body)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without(Keep), "not there"),
        (_without(Fill), "not there"),
        (_without(Make), "every output row|not there"),
        (_shifted, "outside its buffer"),
        (_early, "not there"),
        (lambda band: band._replace(afresh=()), "not there"),
    ],
)
def test_a_damaged_plan_is_found(change: Change, message: str) -> None:
    plan = expanded()
    with pytest.raises(GraphError, match=message):
        validate_bands(replace(plan, bands=tuple(map(change, plan.bands))))


def test_a_missing_band_is_found() -> None:
    plan = expanded()
    with pytest.raises(GraphError, match="every output row"):
        validate_bands(replace(plan, bands=plan.bands[:-1]))
