"""TRANSPOSE_CONV in float32: one convolution per phase of the stride.

Output rows that are equal modulo the stride meet the same rows of the window, each once, in
reverse order. So the pixels of one phase (row and column modulo the strides) are a plain
convolution of the input with some taps of the window, written with strides into the output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.layout import Border, Layout
from circlet.backends.cpu.lower.float_matrix import call_matrix, constant_floats, why_not_float
from circlet.backends.cpu.lower.matrix import Matrix, View
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.backends.cpu.targets import Target
from circlet.ir import Op
from circlet.ops.geometry import Window, padding_sizes
from circlet.ops.operands import operand
from circlet.ops.transpose_conv import transposed_window_of

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


@dataclass(frozen=True)
class Phase:
    """The output elements of one axis that are equal modulo the stride.

    Attributes:
        start: The first of them.
        count: How many there are.
        first: Input element that the first tap of the first of them meets; may be negative.
        taps: Their taps of the window, in the order of the input.
    """

    start: int
    count: int
    first: int
    taps: tuple[int, ...]


def _phases(padding: str, size: int, window: Window) -> Iterator[Phase]:
    before, _ = padding_sizes(padding, size, -(-size // window.stride), window)
    for start in range(min(window.stride, size)):
        least = (start + before) % window.stride
        taps = tuple(range(least, window.size, window.stride))[::-1]
        first = (start + before - least) // window.stride - (len(taps) - 1)
        yield Phase(start, -(-(size - start) // window.stride), first, taps)


def phases_of(op: Op) -> tuple[list[Phase], list[Phase]]:
    """Phases down and across."""
    window = transposed_window_of(op)
    _, height, width, _ = op.outputs[0].static_shape
    rows = list(_phases(window.padding, height, window.rows))
    return rows, list(_phases(window.padding, width, window.columns))


def _reach(phases: list[Phase], size: int) -> tuple[int, int]:
    """Input elements met before the first and behind the last."""
    met = [phase for phase in phases if phase.taps]
    before = max((-phase.first for phase in met), default=0)
    ends = (phase.first + len(phase.taps) + phase.count - 1 for phase in met)
    return max(0, before), max(0, max(ends, default=0) - size)


def borders_of(op: Op) -> dict[int, Border]:
    """The border that windows over the input reach into."""
    rows, columns = phases_of(op)
    _, height, width, _ = operand(op, _DATA).static_shape
    (top, bottom), (left, right) = _reach(rows, height), _reach(columns, width)
    border = Border(top, left, bottom, right)
    return {_DATA: border} if border else {}


def _refuses(op: Op, target: Target) -> str | None:
    if not operand(op, _SHAPE).is_constant:
        return "the output shape must be constant"
    return why_not_float(op, _DATA, _WEIGHTS, _BIAS)


def _lower(op: Op, context: Context) -> None:
    source, result = context.layout(operand(op, _DATA)), context.layout(op.outputs[0])
    rows, columns = phases_of(op)
    for down in rows:
        for across in columns:
            call_matrix(op, context, _phase_matrix(op, (source, result), (down, across)))


def _phase_matrix(op: Op, layouts: tuple[Layout, Layout], phases: tuple[Phase, Phase]) -> Matrix:
    (source, result), (down, across) = layouts, phases
    window = transposed_window_of(op)
    weights = np.asarray(operand(op, _WEIGHTS).data, np.float32)
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
