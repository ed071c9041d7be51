"""TRANSPOSE_CONV in float32: one convolution per phase of the stride.

Output rows that are equal modulo the stride meet the same rows of the window, each once, in
reverse order. So the pixels of one phase (row and column modulo the strides) are a plain
convolution of the input with some taps of the window, written with strides into the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.floats.float_matrix import (
    call_matrix,
    constant_floats,
    float_weights,
    why_not_float,
)
from circlet.backends.cpu.lower.floats.matrix import Matrix, View
from circlet.backends.cpu.lower.phases import Phase, borders_of, phases_of
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op
from circlet.ops.operands import operand
from circlet.ops.transpose_conv import transposed_window_of
from circlet.target.targets import Target

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


def _refuses(op: Op, target: Target) -> str | None:
    if not operand(op, _SHAPE).is_constant:
        return "the output shape must be constant"
    return why_not_float(op, _DATA, _WEIGHTS, _BIAS)


def _lower(op: Op, context: Context) -> None:
    for _, matrix in phase_matrices(op, context):
        call_matrix(op, context, matrix)


def phase_matrices(op: Op, context: Context) -> Iterator[tuple[tuple[Phase, Phase], Matrix]]:
    """The phases down and across, and the product that each pair of them is."""
    layouts = context.layout(operand(op, _DATA)), context.layout(op.outputs[0])
    for phases in product(*phases_of(op)):
        yield phases, _phase_matrix(op, layouts, phases)


def _phase_matrix(op: Op, layouts: tuple[Layout, Layout], phases: tuple[Phase, Phase]) -> Matrix:
    (source, result), (down, across) = layouts, phases
    window = transposed_window_of(op)
    weights = float_weights(operand(op, _WEIGHTS))
    return Matrix(
        source=View(
            operand(op, _DATA),
            down.first * source.row_stride + across.first * source.pixel_stride,
            source.batch_stride,
            source.row_stride,
            source.pixel_stride,
        ),
        result=View(
            op.outputs[0],
            down.start * result.row_stride + across.start * result.pixel_stride,
            result.batch_stride,
            window.rows.stride * result.row_stride,
            window.columns.stride * result.pixel_stride,
        ),
        sizes=(result.batch, down.count, across.count),
        weights=weights[:, list(down.taps)][:, :, list(across.taps)],
        bias=constant_floats(op.input(_BIAS)),
        taps=(source.row_stride, source.pixel_stride),
        activation=getattr(op.attrs, "fused_activation_function", "NONE"),
        part=(*down.taps, -1, *across.taps),
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
