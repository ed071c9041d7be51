"""8-bit convolutions and matrix products on AMX tiles, where they beat dot products of vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.lower.integers.conv_q8 import (
    integer_conv,
    lower_integer_conv,
    refuses_conv,
)
from circlet.backends.cpu.lower.integers.epilogue import Q8Product, product_params
from circlet.backends.cpu.lower.integers.fully_connected_q8 import integer_rows
from circlet.backends.cpu.lower.integers.q8 import Int8, refuses_weighted, signed_weights
from circlet.backends.cpu.lower.integers.requantisation import interleaved_lanes
from circlet.backends.cpu.lower.products.product import Im2colRow
from circlet.backends.cpu.lower.products.windows import (
    SPLIT_BYTES,
    conv_border,
    is_pointwise,
    splits_of,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
)
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.target.targets import Target

ROWS = 16
_DEPTH = 64
_LOAD_CYCLES = 8
_FINISH_CYCLES = 1
_DOT_CYCLES = 0.6
_FEWEST_PIXELS = 8


@dataclass(frozen=True)
class Step:
    """What is multiplied at a time: `groups` tiles of pixels by `tiles` tiles of channels.

    Attributes:
        pixels: Pixels of a task.
        tile_pixels: Pixels of one of its tiles.
    """

    groups: int
    tiles: int
    pixels: int
    tile_pixels: int

    @staticmethod
    def of(row_pixels: int, channels: int) -> Step:
        """Two by two tiles; one by up to four where a row of outputs is short."""
        columns = -(-channels // ROWS)
        if row_pixels <= ROWS:
            return Step(1, min(columns, 4), row_pixels, row_pixels)
        tasks = -(-row_pixels // (2 * ROWS))
        pixels = -(-row_pixels // tasks)
        return Step(2, min(columns, 2), pixels, -(-pixels // 2))

    def pays(self, row: Im2colRow) -> bool:
        """Whether the step takes fewer cycles than the same products of vectors.

        With few pixels the weights come too slowly for either.
        """
        products = self.pixels * self.tiles
        depth = row.runs * -(-row.length // _DEPTH)
        loads = _LOAD_CYCLES * (self.groups + self.tiles)
        cycles = depth * max(self.groups * self.tiles * self.tile_pixels, loads)
        vectors = row.runs * -(-row.length // 4) * _DOT_CYCLES
        faster = cycles + products * _FINISH_CYCLES < products * vectors
        return faster and self.pixels >= _FEWEST_PIXELS

    @property
    def columns(self) -> int:
        """Channels of a block."""
        return self.tiles * ROWS

    def dealt(
        self, row: Im2colRow, rows: int, row_pixels: int, channels: int
    ) -> tuple[dict[str, ParamValue], int]:
        """The kernels' parameters of blocks and tasks, and the number of tasks."""
        blocks = -(-channels // self.columns)
        depth = row.runs * -(-row.length // _DEPTH) * _DEPTH
        row_tasks = -(-row_pixels // self.pixels)
        splits = splits_of(blocks, depth * self.columns, rows * row_tasks)
        params: dict[str, ParamValue] = {
            "block_bytes": depth * self.columns,
            "row_tasks": row_tasks,
            "pixels": self.pixels,
            "tile_pixels": self.tile_pixels,
            "blocks": blocks,
            "splits": splits,
            "pixels_first": int(blocks * depth * self.columns > SPLIT_BYTES),
        }
        return params, rows * row_tasks * splits


def fits_tiles(row: Im2colRow) -> bool:
    """Whether rows of tiles can be read without touching what lies behind a run."""
    return row.length >= _DEPTH or row.length % 4 == 0


def pack_tiles(weights: Int8, order: np.ndarray) -> Int8:
    """[channels, down, across, bytes] to [blocks, steps, tiles, 16 fours of taps, 16 channels, 4].

    Column c of a block holds its channel order[c]. A run that does not fill its last 64 taps has
    them at their end, unless it is shorter than 64.
    """
    channels, down, across, length = weights.shape
    columns, steps = order.size, -(-length // _DEPTH)
    whole = length // _DEPTH * _DEPTH if length >= _DEPTH else length
    runs = np.zeros((-(-channels // columns) * columns, down, across, steps * _DEPTH), np.int8)
    runs[:channels, ..., :whole] = weights[..., :whole]
    if whole < length:
        runs[:channels, ..., whole - length :] = weights[..., whole:]
    blocks = runs.reshape(-1, columns, down * across * steps, _DEPTH)[:, order]
    split = blocks.reshape(len(blocks), columns // ROWS, ROWS, blocks.shape[2], _DEPTH // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 2, 5))


def _call(product: Q8Product, context: Context) -> None:
    row, step = product.im2col.joined(), Step.of(product.width, product.filters)
    name = f"amx_conv_q8 {step.tiles} {row.rows} {row.columns} {row.length}"
    packed = context.packed(
        product.op, name, lambda: _pack_product(product, step.columns, context.vector_bytes // 4)
    )
    params, tasks = step.dealt(row, product.rows, product.width, product.filters)
    weights, parameters, *ones = packed.refs
    operands: tuple[Ref, ...] = (product.source.ref, weights, parameters, product.result.ref)
    signed = int(operand(product.op, 0).dtype is DType.INT8)
    tail = int(product.filters % step.columns != 0)
    arguments = (step.groups, step.tiles, packed.fact, signed, len(ones), tail)
    context.call(
        product.op,
        Kernel("amx_conv_q8.h", "amx_conv_q8", arguments),
        {**product_params(product), **params},
        (*operands, ones[0] if ones else NoRef()),
        (product.result.tensor,),
        tasks=tasks,
        scratch_bytes=2 * ROWS * (step.columns + 2 * ROWS) * 4,
    )


def _pack_product(product: Q8Product, columns: int, lanes: int) -> tuple[list[np.ndarray], str]:
    """Weights, requantisation parameters and perhaps weights of one; and the form."""
    row, weights = product.im2col.joined(), product.weights()
    scaling = product.epilogue.requantise(weights, columns)
    shape = row.rows, row.columns, row.length
    order = interleaved_lanes(columns // lanes, lanes)
    packed = pack_tiles(weights.reshape(-1, *shape), order)
    arrays: list[np.ndarray] = [packed, scaling.parameters]
    if product.epilogue.weight_zero:
        arrays.append(pack_tiles(np.ones((ROWS, *shape), np.int8), np.arange(ROWS)))
    return arrays, scaling.form


def _refuses_target(op: Op, target: Target) -> str | None:
    if not target.has("amx_int8"):
        return "needs AMX tiles"
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return None


def _judge(width: int, channels: int, row: Im2colRow) -> str | None:
    if not fits_tiles(row):
        return "runs of taps are short and no multiple of 4 bytes"
    if not Step.of(width, channels).pays(row):
        return "vectors are faster for so few pixels or taps"
    return None


def _refuses_conv(op: Op, target: Target) -> str | None:
    reason = _refuses_target(op, target) or refuses_conv(op, target)
    if reason is not None:
        return reason
    channels, down, across, depth = operand(op, 1).static_shape
    window, (batch, height, width, _) = window_of(op), op.outputs[0].static_shape
    pixels = batch * height * width if is_pointwise(window) else width
    together = window.columns.dilation == 1
    row = Im2colRow(down, 1, across * depth) if together else Im2colRow(down, across, depth)
    return _judge(pixels, channels, row)


def _lower_conv(op: Op, context: Context) -> None:
    product = integer_conv(op, context, lambda: signed_weights(op), 0)
    if fits_tiles(product.im2col.joined()):
        _call(product, context)
        return
    lower_integer_conv(op, context, lambda: signed_weights(op))


def _refuses_product(op: Op, target: Target) -> str | None:
    reason = _refuses_target(op, target) or refuses_weighted(op, target)
    if reason is not None:
        return reason
    units, depth = operand(op, 1).static_shape
    return _judge(operand(op, 0).elements // depth, units, Im2colRow(1, 1, depth))


def _lower_product(op: Op, context: Context) -> None:
    _call(integer_rows(op, context, 0), context)


LOWERINGS.add(
    Lowering(
        "CONV_2D",
        "amx_conv_q8",
        _refuses_conv,
        _lower_conv,
        conv_border,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.MATRIX_UNIT,
    )
)
LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED",
        "amx_fully_connected_q8",
        _refuses_product,
        _lower_product,
        rank=Rank.MATRIX_UNIT,
    )
)
