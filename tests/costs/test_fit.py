"""Fits: the least squares they rest on, what they predict, and how sure they say they are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from circlet.costs.calibration import Line, bounded, fitted_line
from circlet.costs.check import ALL, without_network, without_operator
from circlet.costs.database import Database
from circlet.costs.fit import Fits, Sample, nonnegative, robust
from circlet.costs.known import Known
from circlet.costs.rows import ALONE, WITHIN, Context, Row
from circlet.costs.signature import Features, Signature


def signature(macs: float, moved: float, label: str = "CONV_2D", key: str = "") -> Signature:
    features = Features(macs, moved, macs / 50, moved / 8)
    name = key or f"{label} {macs} {moved}"
    return Signature(name, label, "products", "FLOAT32", features, int(moved))


def roofline(one: Signature) -> float:
    return 800 + 0.3 * one.features.computing + 0.1 * one.features.data_bytes


def samples(count: int, noise: float = 0.0, seed: int = 0) -> list[Sample]:
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        one = signature(10 ** generator.uniform(3, 7), 10 ** generator.uniform(3, 6))
        found.append(Sample(one, roofline(one) * float(np.exp(noise * generator.normal()))))
    return found


def least_by_trial(matrix: np.ndarray, target: np.ndarray) -> float:
    """The least residual over all sets of columns whose least squares are not negative."""
    size, best = matrix.shape[1], float(np.linalg.norm(target))
    for count in range(1, size + 1):
        for columns in map(list, combinations(range(size), count)):
            found = np.linalg.lstsq(matrix[:, columns], target, rcond=None)[0]
            if found.min() >= 0:
                best = min(best, float(np.linalg.norm(matrix[:, columns] @ found - target)))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_nonnegative_least_squares_agree_with_trying_all(seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix, target = generator.normal(size=(12, 4)), generator.normal(size=12)
    found = nonnegative(matrix, target)
    assert found.min() >= 0
    assert np.linalg.norm(matrix @ found - target) == pytest.approx(least_by_trial(matrix, target))


def test_a_stray_hardly_moves_a_robust_fit() -> None:
    terms = np.stack((np.ones(10), np.arange(10.0)), axis=1)
    times = terms @ np.array([2.0, 3.0])
    times[4] *= 10
    scaled = terms / times[:, None]
    assert robust(scaled, np.ones(10)) == pytest.approx([2.0, 3.0], rel=0.15)


def test_a_line_goes_through_its_points() -> None:
    line = fitted_line([(0, 1000), (10_000, 6000), (100_000, 51_000)])
    assert line == pytest.approx((1000, 0.5))
    assert line.at(20_000) == pytest.approx(11_000)
    assert fitted_line([]) == Line(0, 0)


def test_no_border_is_larger_than_what_operators_take_with_it() -> None:
    border = Line(1000, 1.0)
    ways = ((ALONE, 4500), (WITHIN, 5))
    rows = [Row(signature(1e3, 8000), way, ns, ns, ns, 0) for way, ns in ways]
    assert bounded(border, rows) == pytest.approx((500, 0.5))
    assert bounded(border, rows[1:]) == border
    assert bounded(border, [rows[0]._replace(ns=50_000)]) == border


def test_sizes_between_and_beyond_follow_the_roofline() -> None:
    fits = Fits.of(samples(20))
    for one in (signature(3e5, 2e4), signature(2e6, 5e5), signature(3e7, 1e5)):
        found = fits.predict(one)
        assert found is not None and found.ns == pytest.approx(roofline(one), rel=0.02)


def test_intervals_hold_nine_in_ten() -> None:
    fits = Fits.of(samples(60, noise=0.2))
    inside = 0
    for ask in samples(200, noise=0.2, seed=1):
        found = fits.predict(ask.signature)
        assert found is not None
        estimate = found.estimate
        inside += estimate.low <= ask.ns <= estimate.high
    assert 0.85 <= inside / 200 <= 0.98


def test_neighbours_correct_what_the_formula_misses() -> None:
    cliff = [
        Sample(one, ns * (3 if one.features.data_bytes > 1e5 else 1)) for one, ns in samples(40)
    ]
    fits = Fits.of(cliff)
    inner, outer = signature(3e5, 5e5), signature(3e5, 1e4)
    high, low = fits.predict(inner), fits.predict(outer)
    assert high is not None and high.ns == pytest.approx(3 * roofline(inner), rel=0.4)
    assert low is not None and low.ns == pytest.approx(roofline(outer), rel=0.4)


def test_intervals_widen_away_from_what_was_measured() -> None:
    fits = Fits.of(samples(20))
    near, far = fits.predict(signature(1e5, 1e4)), fits.predict(signature(1e11, 1e10))
    assert near is not None and far is not None and far.spread > 3 * near.spread


def test_a_single_measurement_serves_with_a_wide_interval() -> None:
    one = signature(1e5, 1e4)
    found = Fits.of([Sample(one, 5000.0)]).predict(signature(1e5, 1e4, "ADD"))
    assert found is not None
    assert found.estimate.low <= 5000 <= found.estimate.high
    assert found.estimate.high / found.estimate.low == pytest.approx(16, rel=0.1)
    assert Fits.of([]).predict(one) is None


def known_of(rows: list[Sample]) -> Known:
    database = Database(":memory:")
    context = database.context(Context("m", "v", "b", "o", 1))
    made = [Row(s.signature, WITHIN, s.ns, s.ns, s.ns, 0) for s in rows]
    database.add_operators(context, made)
    return Known.read(database, context, "b", context)


def test_leaving_out_an_operator_tells_how_far_predictions_miss() -> None:
    exact = without_operator(known_of(samples(20)), "b", 1)
    assert [row.family for row in exact] == ["CONV_2D FLOAT32", ALL]
    assert exact[0].count == 20
    assert exact[0].median == pytest.approx(1, abs=0.01) and exact[0].worst < 1.05
    noisy = without_operator(known_of(samples(30, noise=0.3)), "b", 1)
    assert 1.2 < noisy[0].worst < 2.5


def test_leaving_out_a_network_leaves_out_all_its_operators() -> None:
    rows = samples(20)
    odd = [Sample(signature(m, 1e4, key=str(m)), 40 * m) for m in (1e4, 1e5, 1e6)]
    known = known_of([*rows, *odd])
    found = without_network(known, [[s.signature for s in odd]], "b", 1)
    assert found[0].count == 3 and found[0].median < 0.2  # as nothing else is so slow
    fair = without_network(known, [[s.signature for s in rows[:10]]], "b", 1)
    assert fair[0].count == 10
