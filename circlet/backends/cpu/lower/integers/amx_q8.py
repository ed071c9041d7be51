"""8-bit convolutions and matrix products on AMX tiles, where they beat dot products of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from circlet.backends.cpu.lower.integers.conv_q8 import (
    Product,
    integer_conv,
    lower_integer_conv,
    refuses_conv,
)
from circlet.backends.cpu.lower.integers.fully_connected_q8 import integer_product, rows_of
from circlet.backends.cpu.lower.integers.q8 import (
    Int8,
    Tile,
    refuses_weighted,
    signed_weights,
    woven_order,
)
from circlet.backends.cpu.lower.windows import Places, Runs, conv_border, runs_of, splits_of
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    TensorRef,
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

    def pays(self, runs: Runs) -> bool:
        """Whether the step takes fewer cycles than the same products of vectors.

        With few pixels the weights come too slowly for either.
        """
        products = self.pixels * self.tiles
        depth = runs.down * runs.across * -(-runs.bytes // _DEPTH)
        loads = _LOAD_CYCLES * (self.groups + self.tiles)
        cycles = depth * max(self.groups * self.tiles * self.tile_pixels, loads)
        vectors = runs.down * runs.across * runs.padded // 4 * _DOT_CYCLES
        faster = cycles + products * _FINISH_CYCLES < products * vectors
        return faster and self.pixels >= _FEWEST_PIXELS

    @property
    def columns(self) -> int:
        """Channels of a block."""
        return self.tiles * ROWS

    def dealt(
        self, runs: Runs, rows: int, row_pixels: int, channels: int
    ) -> tuple[dict[str, ParamValue], int]:
        """The kernels' parameters of blocks and tasks, and the number of tasks."""
        blocks = -(-channels // self.columns)
        depth = runs.down * runs.across * -(-runs.bytes // _DEPTH) * _DEPTH
        row_tasks = -(-row_pixels // self.pixels)
        splits = splits_of(blocks, depth * self.columns, rows * row_tasks)
        params: dict[str, ParamValue] = {
            "block_bytes": depth * self.columns,
            "row_tasks": row_tasks,
            "pixels": self.pixels,
            "tile_pixels": self.tile_pixels,
            "blocks": blocks,
            "splits": splits,
        }
        return params, rows * row_tasks * splits


def fits_tiles(runs: Runs) -> bool:
    """Whether rows of tiles can be read without touching what lies behind a run."""
    return runs.bytes >= _DEPTH or runs.bytes % 4 == 0


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


def _call(product: Product, step: Step, context: Context) -> None:
    runs, places, result = product.runs, product.places, product.op.outputs[0]
    name = f"amx_conv_q8 {step.tiles} {runs.down} {runs.across} {runs.bytes}"
    packed = context.packed(
        product.op, name, lambda: _pack_product(product, step.columns, context.vector_bytes // 4)
    )
    params, tasks = step.dealt(runs, places.rows, places.row_pixels, product.channels)
    weights, records, *ones = packed.refs
    operands: tuple[Ref, ...] = (product.data, weights, records, TensorRef(result))
    signed = int(operand(product.op, 0).dtype is DType.INT8)
    tail = int(product.channels % step.columns != 0)
    arguments = (step.groups, step.tiles, packed.fact, signed, len(ones), tail)
    context.call(
        product.op,
        Kernel("amx_conv_q8.h", "amx_conv_q8", arguments),
        {**product.params(), **params},
        (*operands, ones[0] if ones else NoRef()),
        (result,),
        tasks=tasks,
        scratch_bytes=2 * ROWS * (step.columns + 2 * ROWS) * 4,
    )


def _pack_product(product: Product, columns: int, lanes: int) -> tuple[list[np.ndarray], str]:
    """Weights, records and perhaps weights of one; and the form of scaling."""
    runs, weights = product.runs, product.weights()
    scaling = product.scaling(weights, Tile(1, columns // lanes))
    shape = runs.down, runs.across, runs.bytes
    order = woven_order(columns // lanes, lanes)
    arrays: list[np.ndarray] = [pack_tiles(weights.reshape(-1, *shape), order), scaling.records]
    if product.weight_zero:
        arrays.append(pack_tiles(np.ones((ROWS, *shape), np.int8), np.arange(ROWS)))
    return arrays, scaling.form


def _refuses_target(op: Op, target: Target) -> str | None:
    if not target.has("amx_int8"):
        return "needs AMX tiles"
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return None


def _judge(places: Places, channels: int, runs: Runs) -> str | None:
    if not fits_tiles(runs):
        return "runs of taps are short and no multiple of 4 bytes"
    if not Step.of(places.row_pixels, channels).pays(runs):
        return "vectors are faster for so few pixels or taps"
    return None


def _refuses_conv(op: Op, target: Target) -> str | None:
    reason = _refuses_target(op, target) or refuses_conv(op, target)
    if reason is not None:
        return reason
    channels, _, _, depth = operand(op, 1).static_shape
    window, (batch, height, width, _) = window_of(op), op.outputs[0].static_shape
    down, across = window.rows.size, window.columns.size
    single = down * across == 1 and (window.rows.stride, window.columns.stride) == (1, 1)
    pixels = batch * height * width if single else width
    places = Places(1, 1, pixels, (0, 0, 0), (0, 0, 0))
    together = window.columns.dilation == 1
    runs = Runs(down, 1, across * depth, 0, 0) if together else Runs(down, across, depth, 0, 0)
    return _judge(places, channels, runs)


def _lower_conv(op: Op, context: Context) -> None:
    channels = operand(op, 1).static_shape[0]
    weights = partial(signed_weights, op)
    if not fits_tiles(runs_of(op, context.layout(operand(op, 0)))):
        lower_integer_conv(op, context, weights, channels)
        return
    product = integer_conv(op, context, weights, channels, 0)
    _call(product, Step.of(product.places.row_pixels, channels), context)


def _refuses_product(op: Op, target: Target) -> str | None:
    reason = _refuses_target(op, target) or refuses_weighted(op, target)
    if reason is not None:
        return reason
    units, depth = operand(op, 1).static_shape
    return _judge(rows_of(op), units, Runs(1, 1, depth, 0, 0))


def _lower_product(op: Op, context: Context) -> None:
    product = integer_product(op, context, 0)
    _call(product, Step.of(product.places.row_pixels, product.channels), context)


LOWERINGS.prefer(
    Lowering(
        "CONV_2D",
        "amx_conv_q8",
        _refuses_conv,
        _lower_conv,
        conv_border,
        strided_inputs=True,
        strided_output=True,
    )
)
LOWERINGS.prefer(
    Lowering("FULLY_CONNECTED", "amx_fully_connected_q8", _refuses_product, _lower_product)
)
