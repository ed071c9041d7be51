"""Integer kernels are set beside floats; the reasons follow from figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.float_twin import float_twin
from bench.reasons import beside, why
from bench.steps import Profile, profile
from circlet.backends.profiled import LEVELS_BYTES, Peaks, Work
from circlet.comparison.networks import class_of
from circlet.formats import load
from circlet.ir import DType
from circlet.profiling.roofline import TimedWork
from tests.bench.files import small_file

RATES = (100.0,) * len(LEVELS_BYTES)
PEAKS = Peaks(100.0, 400.0, 150.0, 200.0, 10.0, RATES, RATES)


def row(
    us: float, macs: int, outputs: int, size: int, unit: str = "int8", id: int = 0
) -> TimedWork:
    return TimedWork(Work("k", "CONV_2D", ((id, f"op{id}"),), 1, macs, outputs, size, 0, unit), us)


def profiled(*rows: TimedWork) -> Profile:
    return Profile(rows, sum(one.us for one in rows), 0.0, 0, 1)


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        (row(0.5, 10_000, 10, 100), "starting a call"),
        (row(10.0, 100, 1000, 10_000), "no products"),
        (row(10.0, 100_000, 1000, 900_000), "memory: 90 %"),
        (row(10.0, 450_000, 50_000, 1000), "requantisation: 9 products an output, 50 %"),
        (row(10.0, 1_000_000, 1000, 1000), "at 50 % of the peak of int8, 1000 products"),
        (row(10.0, 1_000_000, 1000, 1000, "fp32"), "in floats"),
    ],
    ids=["short", "moves", "memory", "requantised", "kernel", "float"],
)
def test_the_reason_is_what_takes_the_time(ours: TimedWork, reason: str) -> None:
    assert reason in why([ours], [row(10.0, 1, 1, 1)], profiled(ours), PEAKS)


def test_copies_are_a_reason() -> None:
    ours = [row(6.0, 1_000_000, 1000, 1000), row(4.0, 0, 0, 1000)]
    assert "copies and borders: 40 %" in why(ours, [row(10.0, 1, 1, 1)], profiled(*ours), PEAKS)


def test_only_integers_that_are_not_faster_have_a_reason() -> None:
    ours = profiled(row(10.0, 10**6, 9, 9, id=0), row(10.0, 10**6, 9, 9, id=1))
    floats = profiled(row(30.0, 10**6, 9, 9, id=0), row(11.0, 10**6, 9, 9, id=1))
    fast, slow = beside(ours, floats, PEAKS)
    assert fast.sources == "op0" and not fast.reason
    assert slow.sources == "op1" and slow.reason and slow.float_us == 11.0


def test_operators_that_one_kernel_joins_are_compared_together() -> None:
    joined = Work("k", "CONV_2D", ((0, "pad"), (1, "conv")), 1, 10**6, 9, 9, 0, "int8")
    ours = profiled(TimedWork(joined, 10.0))
    floats = profiled(row(5.0, 0, 9, 9, id=0), row(20.0, 10**6, 9, 9, id=1))
    (pair,) = beside(ours, floats, PEAKS)
    assert pair.sources == "pad+conv" and pair.float_us == 25.0


def test_the_float_twin_does_the_same_work_in_floats(tmp_path: Path) -> None:
    path = small_file(tmp_path, "int8")
    twin = load(float_twin(path))
    assert class_of(twin) == "fp32"
    assert [op.kind for op in twin.main.ops] == [op.kind for op in load(path).main.ops]
    stored = {DType.INT8, DType.UINT8}
    assert not any(tensor.dtype in stored for tensor in twin.main.used_tensors())


def test_every_operator_of_an_integer_network_is_set_beside_its_float_form(tmp_path: Path) -> None:
    path = small_file(tmp_path, "int8")
    ours, floats = profile(path, 1, 0.05), profile(float_twin(path), 1, 0.05)
    pairs = beside(ours, floats, PEAKS)
    assert sum(pair.us for pair in pairs) == pytest.approx(sum(r.us for r in ours.rows))
    assert all(pair.float_us > 0 for pair in pairs)
