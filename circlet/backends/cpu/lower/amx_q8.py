"""8-bit convolutions and matrix products on AMX tiles, where they beat dot products of vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.backends.cpu.lower.conv_q8 import (
    Places,
    Product,
    Runs,
    conv_border,
    fold_zero_points,
    lower_integer_conv,
    places_of,
    refuses_conv,
    runs_of,
    splits_of,
    start_of,
    woven_slots,
)
from circlet.backends.cpu.lower.fully_connected_q8 import rows_of
from circlet.backends.cpu.lower.q8 import (
    Int8,
    Scaling,
    Tile,
    double_scaling,
    fixed_scaling,
    output_bounds,
    refuses_weighted,
    signed_weights,
    woven_order,
)
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
from circlet.backends.cpu.targets import Target
from circlet.ir import DType, Op
from circlet.ops.conv import window_of
from circlet.ops.operands import operand

_ROWS = 16
_DEPTH = 64
_LOAD_CYCLES = 8
_FINISH_CYCLES = 4
_DOT_CYCLES = 0.6


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
        columns = -(-channels // _ROWS)
        if row_pixels <= _ROWS:
            return Step(1, min(columns, 4), row_pixels, row_pixels)
        tasks = -(-row_pixels // (2 * _ROWS))
        pixels = -(-row_pixels // tasks)
        return Step(2, min(columns, 2), pixels, -(-pixels // 2))

    def pays(self, runs: Runs) -> bool:
        """Whether the step takes fewer cycles than the same products of vectors."""
        products = self.pixels * self.tiles
        depth = runs.down * runs.across * -(-runs.bytes // _DEPTH)
        loads = _LOAD_CYCLES * (self.groups + self.tiles)
        cycles = depth * max(self.groups * self.tiles * self.tile_pixels, loads)
        vectors = runs.down * runs.across * runs.padded // 4 * _DOT_CYCLES
        return cycles + products * _FINISH_CYCLES < products * vectors


def _fits(runs: Runs) -> bool:
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
    split = blocks.reshape(len(blocks), columns // _ROWS, _ROWS, blocks.shape[2], _DEPTH // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 2, 5))


def _call(product: Product, scaling: Scaling, step: Step, context: Context) -> None:
    runs, places, result = product.runs, product.places, product.op.outputs[0]
    lanes, columns = context.vector_bytes // 4, step.tiles * _ROWS
    packed = pack_tiles(product.weights, woven_order(columns // lanes, lanes))
    row_tasks = -(-places.row_pixels // step.pixels)
    splits = splits_of(packed, places.rows * row_tasks)
    params: dict[str, ParamValue] = {
        **places.params(),
        "run_down": runs.step_down,
        "run_across": runs.step_across,
        "runs_down": runs.down,
        "runs_across": runs.across,
        "run_bytes": runs.bytes,
        "block_bytes": packed[0].nbytes,
        "row_tasks": row_tasks,
        "pixels": step.pixels,
        "tile_pixels": step.tile_pixels,
        "channels": product.weights.shape[0],
        "blocks": packed.shape[0],
        "splits": splits,
        "weight_zero": product.weight_zero,
        **product.extra,
    }
    ones: Ref = NoRef()
    if product.weight_zero:
        same = np.ones((_ROWS, *product.weights.shape[1:]), np.int8)
        ones = context.constant(pack_tiles(same, np.arange(_ROWS)))
    signed = int(operand(product.op, 0).dtype is DType.INT8)
    tail = product.weights.shape[0] % columns
    summed = int(product.weight_zero != 0)
    arguments = (step.groups, step.tiles, scaling.form, signed, summed, tail)
    context.call(
        product.op,
        Kernel("amx_conv_q8.h", "amx_conv_q8", arguments),
        params,
        (
            product.data,
            context.constant(packed),
            context.constant(scaling.records),
            TensorRef(result),
            ones,
        ),
        (result,),
        tasks=places.rows * row_tasks * splits,
        scratch_bytes=2 * _ROWS * (columns + _ROWS) * 4,
    )


def _refuses_target(op: Op, target: Target) -> str | None:
    if not target.has("amx_int8"):
        return "needs AMX tiles"
    if operand(op, 0).dtype is DType.FLOAT32:
        return "does not take FLOAT32"
    return None


def _judge(places: Places, channels: int, runs: Runs) -> str | None:
    if not _fits(runs):
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
    weights, weight_zero = signed_weights(op)
    data, out = context.layout(operand(op, 0)), context.layout(op.outputs[0])
    runs, places = runs_of(op, data), places_of(op, data, out)
    if not _fits(runs):
        lower_integer_conv(op, context, weights, weight_zero)
        return
    channels, lanes = weights.shape[0], context.vector_bytes // 4
    step = Step.of(places.row_pixels, channels)
    bias, reach = fold_zero_points(op, weights, weight_zero, 0)
    slots = woven_slots(channels, Tile(1, step.tiles * _ROWS // lanes), lanes)
    shaped = weights.reshape(channels, runs.down, runs.across, runs.bytes)
    source, bounds = TensorRef(operand(op, 0), start_of(op, data)), output_bounds(op)
    product = Product(op, runs, places, shaped, weight_zero, False, source, bounds)
    _call(product, fixed_scaling(op, bias, reach, slots), step, context)


def _refuses_product(op: Op, target: Target) -> str | None:
    reason = _refuses_target(op, target) or refuses_weighted(op, target)
    if reason is not None:
        return reason
    units, depth = operand(op, 1).static_shape
    return _judge(rows_of(op), units, Runs(1, 1, depth, 0, 0))


def _lower_product(op: Op, context: Context) -> None:
    weights, weight_zero = signed_weights(op)
    (units, depth), lanes = weights.shape, context.vector_bytes // 4
    places, runs = rows_of(op), Runs(1, 1, depth, 0, 0)
    step = Step.of(places.row_pixels, units)
    bias, _ = fold_zero_points(op, weights, weight_zero, 0)
    slots = woven_slots(units, Tile(1, step.tiles * _ROWS // lanes), lanes)
    shaped = np.reshape(weights, (units, 1, 1, depth))
    source = TensorRef(operand(op, 0))
    product = Product(op, runs, places, shaped, weight_zero, False, source, output_bounds(op))
    _call(product, double_scaling(op, bias, slots), step, context)


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
