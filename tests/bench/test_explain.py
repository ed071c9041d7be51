"""Every kernel call is timed and set beside the roofline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import explain
from bench.explain_rows import explained
from bench.steps import Profile, profile
from bench.synthetic import KINDS
from circlet.backends.profiled import LEVELS_BYTES, Peaks, Work
from circlet.comparison.networks import described
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.build import builder
from circlet.profiling.roofline import TimedWork
from tests.bench.files import small_file
from tests.windows import conv2d_attrs

RATES = tuple(200.0 - 15 * level for level in range(len(LEVELS_BYTES)))
PEAKS = Peaks(100.0, 400.0, 150.0, 200.0, 10.0, RATES, RATES)


def call(macs: int, data: int, weights: int = 0, unit: str = "fp32") -> Work:
    return Work("k", "CONV_2D", ((0, "y"),), 1, macs, 1, data, weights, unit)


@pytest.mark.parametrize("kind", KINDS)
def test_the_calls_of_a_network_do_all_its_work(tmp_path: Path, kind: str) -> None:
    path = small_file(tmp_path, kind)
    found = profile(path, 1, 0.05)
    work = [row.work for row in found.rows]
    assert sum(one.macs for one in work) == pytest.approx(described(path).macs, rel=0.01)
    assert {one.unit for one in work if one.macs} == {"fp32" if kind == "fp32" else "int8"}
    assert all(one.sources for one in work)
    steps = sum(row.us for row in found.rows)
    assert 0 < steps < 10 * found.call_us


def test_a_fused_call_does_the_work_of_its_parts() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 8, 8, 16))
    weights = b.constant("w", np.ones((16, 1, 1, 16), np.float32))
    y = b.op("CONV_2D", [x, weights], conv2d_attrs("SAME", 1, 1))
    model = b.output(b.op("ADD", [y, x], AddAttrs())).model()
    found = profile(dumps(model, "tflite"), 1, 0.05)
    assert [row.work.kind for row in found.rows] == ["FUSED_RESIDUAL"]
    assert found.rows[0].work.macs == 8 * 8 * 16 * (16 + 1)


def test_arithmetic_sets_the_roofline_of_heavy_calls() -> None:
    found = Profile((TimedWork(call(1_000_000, 64), 40.0),), 40.0, 0.0, 0, 1)
    (row,) = explained(found, PEAKS)
    assert row.bound == "arithmetic" and row.roof == pytest.approx(0.5)
    assert row.gops == pytest.approx(50.0) and row.share == 1.0


def test_bytes_of_single_channels_are_held_against_vectors() -> None:
    dense = call(1_000_000, 64, unit="int8")
    single = replace(dense, kind="DEPTHWISE_CONV_2D")
    found = Profile((TimedWork(dense, 40.0), TimedWork(single, 40.0)), 80.0, 0.0, 0, 1)
    assert [row.roof for row in explained(found, PEAKS)] == pytest.approx([0.125, 1 / 3])


def test_a_network_that_numpy_runs_alone_has_no_roofline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    explain._show([], Profile((), 2.0, 1.5, 0, 1), PEAKS, 0)
    shown = capsys.readouterr().out
    assert "its 0 kernel calls 0.0 us, numpy 1.5 us" in shown
    assert "roofline" not in shown


def test_memory_sets_the_roofline_of_light_calls() -> None:
    found = Profile((TimedWork(call(10, 20_000), 1.0),), 1.0, 0.0, 0, 1)
    (row,) = explained(found, PEAKS)
    assert row.bound == "memory" and row.roof == pytest.approx(0.1)


def test_weights_come_from_where_the_whole_network_fits() -> None:
    near = Profile((TimedWork(call(10, 0, 10_000), 1.0),), 1.0, 0.0, 10_000, 1)
    far = Profile(near.rows, 1.0, 0.0, 1 << 30, 1)
    assert explained(far, PEAKS)[0].roof == pytest.approx(10 * explained(near, PEAKS)[0].roof)


def test_threads_raise_the_roofline() -> None:
    rows = (TimedWork(call(1_000_000, 64), 40.0),)
    one, two = (explained(Profile(rows, 40.0, 0.0, 0, n), PEAKS)[0].roof for n in (1, 2))
    assert two == pytest.approx(one / 2)


def test_bandwidth_falls_with_the_working_set() -> None:
    rates = [PEAKS.bandwidth(size) for size in (*LEVELS_BYTES, 1 << 40)]
    assert rates == sorted(rates, reverse=True) and rates[-1] == 20.0
