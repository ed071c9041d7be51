"""DEPTHWISE_CONV_2D in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.lower.floats.conv_float import DEPTHWISE_MULTIPLIED
from circlet.backends.cpu.lower.floats.epilogue import FloatArray, clamp_params
from circlet.backends.cpu.lower.floats.float_matrix import (
    constant_floats,
    float_weights,
    why_not_float,
)
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, Registers, lanes_of, registers_of
from circlet.backends.cpu.lower.products.product import View
from circlet.backends.cpu.lower.products.windows import (
    depthwise_border,
    first_taps,
    image_layout,
    multiplier_of,
    tap_strides,
    why_not_repeated,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Ref,
    vector_bytes,
)
from circlet.backends.cpu.tuning.knobs import Knob
from circlet.ir import Op
from circlet.ops.conv import window_of
from circlet.ops.geometry import Window2D
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target

_MOST_PIXELS = 8
_PAIR_PIXELS = 5  # of each of two rows that are computed together
_PAIR_TAPS = 9
_MOST_TAPS = 200  # of a window whose taps are unrolled
_MOST_UNROLLED = 400  # products of a tile
_MOST_COLUMNS = 16
_FEW_REGISTERS = 16  # that hold no taps beside the sums of two rows
_HELD_TAPS, _HELD_BY_FEW = 25, 9  # that registers hold beside the sums of a tile
_TASKS_WANTED = 64
_LINE_BYTES = 64
_FEW_TAPS = 9  # of windows over one channel

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """The rows of a depthwise convolution, in the terms of `depthwise_f32.h`.

    Attributes:
        source, result: Input at the first taps, and output pixels.
        images, height, width, channels: Sizes of the output.
        multiplier: Filters of each channel of the input.
        window: The window.
        taps: Input elements between rows and between columns of the window.
        weights: [1 + taps, channels], the bias first.
    """

    source: View
    result: View
    images: int
    height: int
    width: int
    channels: int
    multiplier: int
    window: Window2D
    taps: tuple[int, int]
    weights: FloatArray

    @property
    def column(self) -> int:
        """Input elements of which the distances of pixels and of taps are multiples."""
        return gcd(self.source.pixel, self.taps[1])

    def loads(self, pixels: int) -> int:
        """Distinct columns that a tile of `pixels` meets in a row of the window."""
        step, dilation = self.source.pixel // self.column, self.taps[1] // self.column
        taps = range(self.window.columns.size)
        return len({m * step + tap * dilation for m in range(pixels) for tap in taps})


def _refuses(op: Op, target: Target) -> str | None:
    reason = why_not_float(op, 0, 1, 2) or why_not_repeated(op)
    if reason is None and _is_product(op, target):
        return "one channel, whose windows are a product with its filters"
    return reason


def _is_product(op: Op, target: Target) -> bool:
    """Whether one channel has filters that a product with its windows computes in less time."""
    _, height, width, filters = operand(op, 1).static_shape
    is_single = filters == multiplier_of(op) > 1
    few_filters = filters < lanes_of(vector_bytes(target))
    return is_single and (height * width > _FEW_TAPS or few_filters)


def _lower(op: Op, context: Context) -> None:
    lanes = lanes_of(context.vector_bytes)
    rows = _folded(depthwise_rows(op, context), lanes)
    packed = context.packed(
        op, f"depthwise_f32 {rows.channels}", lambda: ([_packed(rows.weights, lanes)], None)
    )
    call_depthwise(op, context, rows, packed.refs[0])


def call_depthwise(op: Op, context: Context, rows: Rows, weights: Ref) -> None:
    """Append the call over packed weights."""
    lanes = lanes_of(context.vector_bytes)
    masked = rows.channels < lanes
    registers = registers_of(context.target, context.vector_bytes)
    row_count, blocks = rows.images * rows.height, -(-rows.channels // lanes)
    task_blocks = _task_blocks(row_count, blocks)
    window = rows.window
    params: dict[str, ParamValue] = {
        **rows.source.strides("in"),
        **rows.result.strides("out"),
        "tap_row": rows.taps[0],
        "tap_column": rows.taps[1],
        "column": rows.column,
        "tap_rows": window.rows.size,
        "tap_columns": window.columns.size,
        "width": rows.width,
        "height": rows.height,
        "channels": rows.channels,
        "blocks": blocks,
        "task_blocks": task_blocks,
        **clamp_params(activation_of(op)),
    }
    shapes = _shapes(rows, registers)
    has_pairs = _has_pairs(rows, registers)
    kernel = partial(_kernel, (rows.multiplier, masked), _ways(rows, blocks, context), context)
    shape = context.choose(op, _choice(rows, has_pairs, shapes, kernel, context))
    half = max((s for s in shapes if s[-1] <= -(-rows.width // 2)), key=lambda shape: shape[-1])
    if shape[-1] > half[-1]:
        context.precompile(op, kernel(half))
    context.call(
        op,
        kernel(shape),
        params,
        (rows.source.ref, weights, rows.result.ref),
        op.outputs,
        tasks=row_count * -(-blocks // task_blocks),
    )


def _choice(
    rows: Rows,
    has_pairs: bool,
    shapes: Sequence[Shape],
    kernel: Callable[[Shape], Kernel],
    context: Context,
) -> Knob[Shape]:
    return Knob(
        f"depthwise_f32 {rows.height}x{rows.width}x{rows.channels}",
        shapes,
        lambda shape: _row_cycles(rows, has_pairs, shape[-1]),
        lambda shape: context.has(kernel(shape)),
    )


def _kernel(
    loads: tuple[int, bool], ways: Sequence[bool], context: Context, shape: Shape
) -> Kernel:
    """The kernel of the first way; for another size of the network, of one that is there."""
    kernels = [
        Kernel("depthwise_f32.h", "depthwise_f32", (*shape, *map(int, loads), int(way)))
        for way in ways
    ]
    return next(filter(context.has, kernels), kernels[0]) if context.reuses else kernels[0]


def _ways(rows: Rows, blocks: int, context: Context) -> tuple[bool, ...]:
    """Whether rows go tile by tile, not vector by vector of channels; the better way first.

    A vector that is half a line reads lines of the input twice, and the registers that would hold
    its weights are few. Whole lines gain where the input comes from beyond the near caches.
    """
    if context.target.arch != "x86_64" or blocks == 1:
        return (False,)
    if context.vector_bytes < _LINE_BYTES:
        return (True,)
    input_bytes = rows.images * rows.height * rows.source.row * FLOAT_BYTES
    is_near = costs.are_near(input_bytes)
    return not is_near, is_near


def depthwise_rows(op: Op, context: Context) -> Rows:
    """The rows that a DEPTHWISE_CONV_2D computes."""
    source, result = image_layout(op, context), context.layout(op.outputs[0])
    weights = float_weights(operand(op, 1)).reshape(-1, result.channels)
    bias = constant_floats(op.input(2))
    first = np.zeros(result.channels, np.float32) if bias is None else bias
    window = window_of(op)
    return Rows(
        source=first_taps(op, source),
        result=View.whole(op.outputs[0], result),
        images=result.batch,
        height=result.height,
        width=result.width,
        channels=result.channels,
        multiplier=multiplier_of(op),
        window=window,
        taps=tap_strides(window, source),
        weights=np.concatenate([first.reshape(1, -1), weights]),
    )


def _folded(rows: Rows, lanes: int) -> Rows:
    """Few channels: neighbouring pixels, where contiguous, as one pixel of more channels."""
    channels, count = rows.channels, lanes // gcd(lanes, rows.channels)
    contiguous = rows.source.pixel * rows.multiplier == rows.result.pixel == channels
    if not contiguous or channels >= 2 * lanes or rows.width % count or count == 1:
        return rows
    return replace(
        rows,
        source=rows.source._replace(pixel=count * rows.source.pixel),
        result=rows.result._replace(pixel=count * channels),
        width=rows.width // count,
        channels=count * channels,
        weights=np.tile(rows.weights, count),
    )


def _shapes(rows: Rows, registers: Registers) -> list[Shape]:
    """The kernel's window, distances of pixels and taps in shared columns, pixels of a tile.

    The best one comes first.
    """
    height, width = rows.window.rows.size, rows.window.columns.size
    if height * width > _MOST_TAPS or width > _MOST_COLUMNS:
        return [(0, 0, 0, 1, pixels) for pixels in range(min(4, rows.width), 0, -1)]
    has_pairs = _has_pairs(rows, registers)
    most = _PAIR_PIXELS if has_pairs else _most_pixels(height * width, registers)
    limit = max(1, min(most, rows.width, _MOST_UNROLLED // (height * width)))
    counts = sorted(range(limit, 0, -1), key=partial(_row_cycles, rows, has_pairs))
    return [_shape(rows, pixels) for pixels in counts]


def _most_pixels(taps: int, registers: Registers) -> int:
    """Pixels of a tile whose sums have registers beside the taps that are held there."""
    is_few = registers.count <= _FEW_REGISTERS
    held = taps if taps <= (_HELD_BY_FEW if is_few else _HELD_TAPS) else 0
    return min(_MOST_PIXELS, max(registers.count, _FEW_REGISTERS) - held)


def _has_pairs(rows: Rows, registers: Registers) -> bool:
    """Whether rows are computed two by two: their windows share all but a row of what they read."""
    taps = rows.window.rows.size * rows.window.columns.size
    if registers.count <= _FEW_REGISTERS:
        return False
    return rows.height > 1 and rows.source.row == rows.taps[0] and taps <= _PAIR_TAPS


def _row_cycles(rows: Rows, has_pairs: bool, pixels: int) -> float:
    """Predicted time of a row, per vector of channels."""
    taps = rows.window.rows.size * rows.window.columns.size
    tiles, together = -(-rows.width // pixels), 2 if has_pairs else 1
    return tiles * costs.window(pixels * together, taps) / together


def _shape(rows: Rows, pixels: int) -> Shape:
    height, width = rows.window.rows.size, rows.window.columns.size
    dilation = rows.taps[1] // rows.column
    if rows.loads(pixels) == pixels * width or dilation > _MOST_COLUMNS:
        return height, width, 0, 1, pixels
    return height, width, rows.source.pixel // rows.column, dilation, pixels


def _task_blocks(row_count: int, blocks: int) -> int:
    """Vectors of a task: rows are tasks, cut where there are few, so that threads find work.

    Threads that have rows of the layers before have the input in their caches.
    """
    return -(-blocks * row_count // max(_TASKS_WANTED, row_count))


def _packed(weights: FloatArray, lanes: int) -> FloatArray:
    """Per vector of channels the bias and the taps; the last vector overlaps the one before."""
    channels = weights.shape[1]
    if channels < lanes:
        return np.pad(weights, ((0, 0), (0, lanes - channels)))
    starts = [min(start, channels - lanes) for start in range(0, channels, lanes)]
    return np.concatenate([weights[:, start : start + lanes].reshape(-1) for start in starts])


LOWERINGS.add(
    Lowering(
        kind="DEPTHWISE_CONV_2D",
        name="depthwise_f32",
        refuses=_refuses,
        lower=_lower,
        borders=depthwise_border,
        strided_inputs=True,
        strided_output=True,
    )
)
LOWERINGS.add(DEPTHWISE_MULTIPLIED)
