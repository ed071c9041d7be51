"""CONV_2D in float32, also grouped; and DEPTHWISE_CONV_2D that makes several maps per channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.backends.cpu.layout import Border, Layout, bordered, nhwc
from circlet.backends.cpu.lower.floats.bf16 import registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.float_matrix import (
    call_matrix,
    constant_floats,
    float_weights,
    reach,
    why_not_float,
)
from circlet.backends.cpu.lower.floats.folding import fold_of, folded
from circlet.backends.cpu.lower.floats.matrix import Matrix, View
from circlet.backends.cpu.lower.floats.tiles import lanes_of, registers_of
from circlet.backends.cpu.lower.floats.winograd import WINOGRAD, call_winograd, method_of
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand
from circlet.target.targets import Target


def window_borders(op: Op) -> dict[int, Border]:
    """The border that a convolution's padding needs around its image."""
    (top, bottom), (left, right) = _pads(op)
    border = Border(top, left, bottom, right)
    return {0: border} if border else {}


def first_taps(op: Op, layout: Layout) -> View:
    """The input at the first tap of each output pixel of a convolution."""
    window = window_of(op)
    (top, _), (left, _) = _pads(op)
    offset = -(top * layout.row_stride + left * layout.pixel_stride)
    row = window.rows.stride * layout.row_stride
    pixel = window.columns.stride * layout.pixel_stride
    return View(operand(op, 0), offset, layout.batch_stride, row, pixel)


def tap_strides(window: Window2D, layout: Layout) -> tuple[int, int]:
    """Input elements between rows and between columns of a window."""
    rows, columns = window.rows, window.columns
    return rows.dilation * layout.row_stride, columns.dilation * layout.pixel_stride


def _pads(op: Op) -> tuple[tuple[int, int], tuple[int, int]]:
    _, height, width, _ = nhwc(operand(op, 0).static_shape)
    return window_of(op).pads(height, width)


def _refuses(op: Op, target: Target) -> str | None:
    return why_not_float(op, 0, 1, 2)


def _lower(op: Op, context: Context) -> None:
    call_convolution(op, context, convolution(op, context))


def _lower_multiplied(op: Op, context: Context) -> None:
    """Each input channel is a group whose filters are its maps."""
    weights = np.asarray(operand(op, 1).data, np.float32).transpose(3, 1, 2, 0)
    matrix = replace(
        convolution(op, context), weights=weights, groups=operand(op, 0).static_shape[3]
    )
    call_convolution(op, context, matrix)


def convolution(op: Op, context: Context, result: Tensor | None = None) -> Matrix:
    """A CONV_2D as a matrix product, written to `result` or its own output."""
    written = op.outputs[0] if result is None else result
    source, layout = image_layout(op, context), context.layout(written)
    weights = float_weights(operand(op, 1))
    window = window_of(op)
    return Matrix(
        source=first_taps(op, source),
        result=View.whole(written, layout),
        sizes=_row_sizes(window, source, layout),
        weights=weights,
        bias=constant_floats(op.input(2)),
        taps=tap_strides(window, source),
        groups=source.channels // weights.shape[3],
        activation=getattr(op.attrs, "fused_activation_function", "NONE"),
    )


def image_layout(op: Op, context: Context) -> Layout:
    """Where the image is; a constant one stands inside the border that windows reach into."""
    image = operand(op, 0)
    if image.is_constant:
        return bordered(image, window_borders(op).get(0, Border()))
    return context.layout(image)


def call_convolution(op: Op, context: Context, matrix: Matrix) -> None:
    """Append the kernel calls that compute `matrix` in the least time."""
    if context.choose(op, method_of(context, matrix)) == WINOGRAD:
        call_winograd(op, context, matrix)
        return
    registers = registers_of(context.target, context.vector_bytes)
    if rounds(context, matrix.multiply_adds, reach(matrix)):
        registers = registers_for_pairs(registers)
    folds = fold_of(matrix, registers, lanes_of(context.vector_bytes))
    for part in folded(matrix, context.choose(op, folds)):
        call_matrix(op, context, part)


def _row_sizes(window: Window2D, source: Layout, result: Layout) -> tuple[int, int, int]:
    """Images, rows, pixels; one long row where the window is a point and pixels are even."""
    axes = (window.rows, window.columns)
    is_point = all(axis.size == 1 and axis.stride == 1 for axis in axes)
    if is_point and source.has_even_pixels and result.has_even_pixels:
        return 1, 1, result.pixels
    return result.batch, result.height, result.width


LOWERINGS.add(
    Lowering(
        kind="CONV_2D",
        name="conv_f32",
        refuses=_refuses,
        lower=_lower,
        borders=window_borders,
        strided_inputs=True,
        strided_output=True,
    )
)

DEPTHWISE_MULTIPLIED = Lowering(
    kind="DEPTHWISE_CONV_2D",
    name="depthwise_f32_grouped",
    refuses=_refuses,
    lower=_lower_multiplied,
    borders=window_borders,
    strided_inputs=True,
    strided_output=True,
)
