"""Float rows over weights of 4 bits with a scale per block give what the record gives."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu.lower.floats.fully_connected_block_bits import block_form
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.fully_connected import FullyConnectedAttrs
from tests.backends.cpu.cases import Cases, each_width
from tests.backends.cpu.harness import run_native


def weights(units: int, depth: int, block: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.integers(-8, 8, (units, depth // block, block))
    values[0, 0] = 0
    scales = random.uniform(0.001, 0.02, (units, depth // block, 1)).astype(np.float16)
    return (values * scales.astype(np.float32)).reshape(units, depth).astype(np.float32)


@each_width
def test_blocks_of_every_size_equal_the_record(target: str) -> None:
    cases = Cases()
    for rows, units, depth, block in (
        (1, 130, 256, 32),
        (3, 64, 320, 64),
        (2, 16, 1024, 1024),
        (1, 1000, 128, 128),
    ):
        data = cases.data(DType.FLOAT32, (rows, depth), scale=1)
        fixed = cases.constant(weights(units, depth, block))
        bias = cases.constant(cases.values(DType.FLOAT32, (units,)))
        cases.op("FULLY_CONNECTED", [data, fixed, bias], FullyConnectedAttrs("RELU"))
        cases.op("FULLY_CONNECTED", [data, fixed], FullyConnectedAttrs())
    cases.check(target, threads=2, tolerance=2e-6)


@each_width
def test_inputs_of_every_magnitude_keep_their_digits(target: str) -> None:
    cases = Cases()
    random = np.random.default_rng(5)
    for sizes in (np.zeros(512), random.uniform(-5, 2, 512), np.full(512, -33), np.full(512, 36)):
        values = random.standard_normal((1, 512)) * 10.0**sizes * (np.arange(512) % 37 != 0)
        data = cases.given((values * (sizes != 0)).astype(np.float32))
        cases.op("FULLY_CONNECTED", [data, cases.constant(weights(64, 512, 32))])
    cases.check(target, tolerance=5e-6)


@each_width
def test_scales_may_be_negative(target: str) -> None:
    cases = Cases()
    fixed = weights(64, 512, 32) * np.repeat([[1], [-1]], 32, axis=0)
    assert block_form(fixed.astype(np.float32)) is not None
    data = cases.data(DType.FLOAT32, (2, 512), scale=1)
    cases.op("FULLY_CONNECTED", [data, cases.constant(fixed.astype(np.float32))])
    cases.check(target, tolerance=5e-6)


def test_an_input_that_is_no_number_reaches_the_outputs() -> None:
    made = builder()
    data = made.input("x", DType.FLOAT32, (2, 512))
    fixed = made.constant("w", weights(64, 512, 32))
    made.output(made.op("FULLY_CONNECTED", [data, fixed], FullyConnectedAttrs(), name="y"))
    values = np.ones((2, 512), np.float32)
    values[1, 77] = np.nan
    (result,) = run_native(made.build(), [values])
    assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()


def test_the_form_of_a_matrix_is_found_and_nothing_else() -> None:
    for block in (32, 128, 512):
        stored = weights(20, 512, block)
        form = block_form(stored)
        assert form is not None and form.block == block
        wide = np.repeat(form.scales, block, axis=1)
        assert np.allclose(form.values * wide, stored, rtol=3e-7, atol=0)
    random = np.random.default_rng(1)
    assert block_form(random.standard_normal((20, 512)).astype(np.float32)) is None
    eight_bits = random.integers(-127, 128, (20, 512)).astype(np.float32) * np.float32(0.01)
    assert block_form(eight_bits) is None


@pytest.mark.parametrize("change", ["one more bit", "infinite"])
def test_one_odd_weight_spoils_the_form(change: str) -> None:
    stored = weights(20, 512, 32)
    stored[13, 100] = np.inf if change == "infinite" else stored[13, 100] * 1.3 + 0.0001
    assert block_form(stored) is None
