"""FUSED_ATTENTION: blocks of rows whose scores stay in the cache."""

from __future__ import annotations

from math import prod

from circlet.backends.cpu.abi import align
from circlet.backends.cpu.lower.floats.bf16 import registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, lanes_of, registers_of
from circlet.backends.cpu.lower.products.matmul import MOST_STACK_AXES, product_sizes, stack_strides
from circlet.backends.cpu.lower.products.scores import (
    ScoreSizes,
    ScoreTiles,
    block_rows,
    choose_tiles,
    score_pitch,
)
from circlet.backends.cpu.lower.views import broadcast_strides, outer_fields, source_ref
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
from circlet.ir import Op
from circlet.ops.batch_matmul import adjoint
from circlet.ops.fused import FUSED_ATTENTION, AttentionAttrs
from circlet.ops.operands import operand
from circlet.target.targets import Target

_FUNCTION = {False: "attention_f32", True: "attention_bf16"}
_TASKS_WANTED = 8
_TASK_TILES = 4


def _takes(op: Op, target: Target) -> None:
    """The pass fuses only what this lowering takes."""


def _attrs(op: Op) -> AttentionAttrs:
    assert isinstance(op.attrs, AttentionAttrs)
    return op.attrs


def _lower(op: Op, context: Context) -> None:
    attrs = _attrs(op)
    first, last = attrs.parts[0], attrs.parts[-1]
    rows, depth, keys = product_sizes(first)
    columns = product_sizes(last)[2]
    lanes = lanes_of(context.vector_bytes)
    rounded = rounds(context, *_work(first, columns))
    registers = registers_of(context.target, context.vector_bytes)
    if rounded:
        registers = registers_for_pairs(registers)
    flags = int(len(op.inputs) > 3), int(attrs.is_guarded)

    def kernel(tiles: ScoreTiles) -> Kernel:
        return Kernel("attention_f32.h", _FUNCTION[rounded], (*tiles.arguments, *flags))

    tiles = choose_tiles(op, context, registers, ScoreSizes(rows, depth, keys, columns), kernel)
    width, out_width = tiles.scores.channels(lanes), tiles.results.channels(lanes)
    packed_keys = align(keys, width)
    pitch = score_pitch(packed_keys)
    stack = prod(first.outputs[0].static_shape[:-2])
    tasks, task_rows = _tasks(rows, stack, tiles)
    block = block_rows(task_rows, pitch, tiles)
    params: dict[str, ParamValue] = {
        "rows": rows,
        "depth": depth,
        "keys": keys,
        "columns": columns,
        "tasks": tasks,
        "task_rows": task_rows,
        "block_rows": block,
        "pitch": pitch,
        **_strides(first, last),
        **_mask(op),
        "scale": attrs.scale,
        "beta": attrs.beta,
    }
    if rounded:
        params = {f"f32_{name}": value for name, value in params.items()}
    packed = packed_keys * depth + align(align(columns, out_width) * keys, lanes)
    packed += block * depth if rounded else 0
    mask: Ref = source_ref(context, operand(op, 3)) if len(op.inputs) > 3 else NoRef()
    q, k, v = (source_ref(context, operand(op, index)) for index in range(3))
    context.call(
        op,
        kernel(tiles),
        params,
        (q, k, v, TensorRef(op.outputs[0]), mask),
        op.outputs,
        tasks=stack * tasks,
        scratch_bytes=(packed + block * (pitch + 1)) * FLOAT_BYTES,
    )


def _work(first: Op, columns: int) -> tuple[int, int]:
    """Multiply-adds of both products, and the elements that they read."""
    rows, depth, keys = product_sizes(first)
    stack = prod(first.outputs[0].static_shape[:-2])
    return (
        stack * rows * keys * (depth + columns),
        stack * (rows * (depth + keys) + keys * (depth + columns)),
    )


def _tasks(rows: int, stack: int, tiles: ScoreTiles) -> tuple[int, int]:
    """Tasks of a stacked matrix, and rows of a task."""
    tall = max(tile.pixels for tile in tiles)
    cut = min(-(-_TASKS_WANTED // stack), rows // (_TASK_TILES * tall))
    task_rows = -(-rows // max(1, cut))
    return -(-rows // task_rows), task_rows


def _strides(first: Op, last: Op) -> dict[str, ParamValue]:
    _, depth, keys = product_sizes(first)
    columns = product_sizes(last)[2]
    keys_transposed, values_transposed = adjoint(first)[1], adjoint(last)[1]
    return {
        "k_depth": 1 if keys_transposed else keys,
        "k_key": depth if keys_transposed else 1,
        "v_key": 1 if values_transposed else columns,
        "v_column": keys if values_transposed else 1,
        "sizes": outer_fields(first.outputs[0].static_shape[:-2], MOST_STACK_AXES),
        "q": stack_strides(first, 0),
        "k": stack_strides(first, 1),
        "v_sizes": outer_fields(last.outputs[0].static_shape[:-2], MOST_STACK_AXES),
        "v": stack_strides(last, 1),
    }


def _mask(op: Op) -> dict[str, ParamValue]:
    shape = _attrs(op).mask_shape
    if not shape:
        return {}
    mask = operand(op, 3)
    own = mask.static_shape
    strides = tuple(prod(own[axis + 1 :]) for axis in range(len(own)))
    *outer, row, key = broadcast_strides(strides, own, shape)
    return {
        "mask_row": row,
        "mask_key": key,
        "mask_sizes": outer_fields(shape[:-2], MOST_STACK_AXES),
        "mask": [0] * (MOST_STACK_AXES - len(outer)) + outer + [0],
    }


LOWERINGS.add(Lowering(FUSED_ATTENTION, "fused_attention", _takes, _lower))
