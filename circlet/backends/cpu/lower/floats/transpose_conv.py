"""TRANSPOSE_CONV in float32: one convolution per phase of the stride.

Output rows that are equal modulo the stride meet the same rows of the window, each once, in
reverse order. So the pixels of one phase (row and column modulo the strides) are a plain
convolution of the input with some taps of the window, written with strides into the output.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.floats.epilogue import FloatEpilogue, FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import (
    call_conv_f32,
    constant_floats,
    float_weights,
    why_not_float,
)
from circlet.backends.cpu.lower.phases import Phase, borders_of, many_phases, phases_of
from circlet.backends.cpu.lower.products.product import Product, View
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.ops.transpose_conv import transposed_window_of
from circlet.target.targets import Target

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


def _refuses(op: Op, target: Target) -> str | None:
    if not operand(op, _SHAPE).is_constant:
        return "the output shape must be constant"
    return why_not_float(op, _DATA, _WEIGHTS, _BIAS) or many_phases(op)


def _lower(op: Op, context: Context) -> None:
    for _, product in phase_products(op, context):
        call_conv_f32(product, context)


def phase_products(op: Op, context: Context) -> Iterator[tuple[tuple[Phase, Phase], FloatProduct]]:
    """The phases down and across, and the product that each pair of them is."""
    layouts = context.layout(operand(op, _DATA)), context.layout(op.outputs[0])
    for phases in itertools.product(*phases_of(op)):
        yield phases, _phase(op, layouts, phases)


def _phase(op: Op, layouts: tuple[Layout, Layout], phases: tuple[Phase, Phase]) -> FloatProduct:
    (source, result), (down, across) = layouts, phases
    window = transposed_window_of(op)
    stored = float_weights(operand(op, _WEIGHTS))
    weights = stored[:, list(down.taps)][:, :, list(across.taps)]
    filters, rows, columns, channels = weights.shape
    activation = activation_of(op)
    first = down.first * source.row_stride + across.first * source.pixel_stride
    start = down.start * result.row_stride + across.start * result.pixel_stride
    row = window.rows.stride * result.row_stride
    pixel = window.columns.stride * result.pixel_stride
    return Product(
        op,
        View.whole(operand(op, _DATA), source).moved(first),
        View(op.outputs[0], start, result.batch_stride, row, pixel),
        (result.batch, down.count, across.count),
        (filters, rows, columns, channels),
        (source.row_stride, source.pixel_stride),
        lambda: weights,
        FloatEpilogue(constant_floats(op.input(_BIAS)), activation),
        part=str((*down.taps, -1, *across.taps)),
    )


LOWERINGS.add(
    Lowering(
        kind="TRANSPOSE_CONV",
        name="transpose_conv_f32",
        refuses=_refuses,
        lower=_lower,
        borders=borders_of,
        strided_inputs=True,
        strided_output=True,
    )
)
