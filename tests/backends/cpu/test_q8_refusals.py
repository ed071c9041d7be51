from __future__ import annotations

import numpy as np
import pytest

from circlet.backends.cpu import lower  # noqa: F401  (fills the table of lowerings)
from circlet.backends.cpu.lowering import LOWERINGS
from circlet.ir import DType, Op, Quantization
from circlet.ops.build import builder
from circlet.target.targets import native_target
from tests.windows import conv2d_attrs

SCALE = Quantization.per_tensor(0.01)


def _conv(depth: int, computed: bool = False, output_scale: float = 0.1) -> Op:
    made = builder()
    image = made.input("x", DType.INT8, (1, 4, 4, 4), SCALE)
    stored = np.ones((6, 1, 1, depth), np.int8)
    constant = made.constant("w", stored, SCALE)
    weights = made.input("w", DType.INT8, stored.shape, SCALE) if computed else constant
    quant = Quantization.per_tensor(output_scale)
    made.op("CONV_2D", [image, weights], conv2d_attrs("SAME", 1, 1), name="y", quant=quant)
    return made.graph.ops[0]


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (_conv(2, computed=True), "conv_q8_computed: does not take groups of channels"),
        (_conv(2, computed=True), "conv_q8: the input must be computed"),
        (_conv(4, output_scale=1e-20), "conv_q8: an output step is far finer"),
    ],
)
def test_what_the_kernels_do_not_take_is_refused_with_a_reason(op: Op, reason: str) -> None:
    chosen = LOWERINGS.choose(op, native_target())
    assert isinstance(chosen, str)
    assert reason in chosen


def test_what_they_take_is_chosen() -> None:
    chosen = LOWERINGS.choose(_conv(4), native_target())
    assert not isinstance(chosen, str)
    assert chosen.name == "conv_q8"
    computed = LOWERINGS.choose(_conv(4, computed=True), native_target())
    assert not isinstance(computed, str)
    assert computed.name == "conv_q8_computed"
    groups = LOWERINGS.choose(_conv(2), native_target())
    assert not isinstance(groups, str)
    assert groups.name == "conv_q8"
