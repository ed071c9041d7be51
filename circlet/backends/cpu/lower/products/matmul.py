"""BATCH_MATMUL: constant right operands are packed ahead, others block by block at run time.

Products of a stack that share their right operand are one product of more rows. Where the left
operand is stored transposed, a step ahead brings it into rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from circlet.backends.cpu.lower.floats.bf16 import call_cast, registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.epilogue import clamp_params
from circlet.backends.cpu.lower.floats.float_matrix import call_conv_f32
from circlet.backends.cpu.lower.floats.tiles import (
    FLOAT_BYTES,
    Registers,
    choose_tile,
    lanes_of,
    registers_of,
    sums_over_lanes,
    task_panels,
    tiles_of,
)
from circlet.backends.cpu.lower.integers.conv_q16 import Q16Epilogue, call_conv_q16, wide_tile
from circlet.backends.cpu.lower.integers.sum_int import bounds, column_parameters
from circlet.backends.cpu.lower.integers.tiles import choose_tile as choose_integer_tile
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES
from circlet.backends.cpu.lower.products.matmul_operands import (
    columns_of,
    one_matrix,
    row_major,
    shared_axes,
)
from circlet.backends.cpu.lower.products.product import of_rows
from circlet.backends.cpu.lower.products.tiles import Tile
from circlet.backends.cpu.lower.views import MAX_AXES, broadcast_strides, outer_fields, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    StopRef,
    TensorRef,
)
from circlet.backends.cpu.tuning.knobs import Knob, always_there, joined
from circlet.ir import DType, Op
from circlet.ops.batch_matmul import BatchMatMulAttrs, adjoint, factors, is_hybrid
from circlet.ops.operands import operand, zero_of
from circlet.target.targets import Target

_MOST_VECTORS = 4
_FEW_ROWS = 8
_PACKED, _DIRECT, _DOTS = "MATMUL_PACKED", "MATMUL_DIRECT", "MATMUL_DOTS"
_WORTH_A_STEP = 1 << 15  # multiply-adds of vectors
_FEW_COLUMNS = 8  # vectors
MOST_STACK_AXES = MAX_AXES - 1


def product_sizes(op: Op) -> tuple[int, int, int]:
    """Rows, depth and columns of each product."""
    left_transposed, right_transposed = adjoint(op)
    first, second = (operand(op, index).static_shape[-2:] for index in (0, 1))
    rows, depth = first[::-1] if left_transposed else first
    return rows, depth, second[0] if right_transposed else second[1]


def refuses_sizes(op: Op, target: Target) -> str | None:
    """Why no kernel takes operands of these sizes, or None."""
    tensors = [operand(op, 0), operand(op, 1), op.outputs[0]]
    if any(tensor.elements == 0 for tensor in tensors):
        return "a size is 0"
    if not all(tensor.has_rank for tensor in tensors):
        return "a rank is not known"
    stack = len(op.outputs[0].static_shape) - 2
    return f"{stack} stacked axes" if stack > MOST_STACK_AXES else None


def _refuses_float(op: Op, target: Target) -> str | None:
    if is_hybrid(op):
        return "float rows over stored integers"
    return refuses_sizes(op, target) if _is_float(op) else "not float32"


def _refuses_integer(op: Op, target: Target) -> str | None:
    is_int16 = operand(op, 0).dtype == DType.INT16
    return refuses_sizes(op, target) if is_int16 else "not int16"


def _is_float(op: Op) -> bool:
    return operand(op, 0).dtype == DType.FLOAT32


def stack_strides(op: Op, index: int) -> list[int]:
    """Elements between the matrices of an operand along each axis of the result's stack."""
    shape, stack = operand(op, index).static_shape, op.outputs[0].static_shape[:-2]
    own = shape[:-2]
    strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(own)))
    steps = broadcast_strides(strides, own, stack)
    return [0] * (MOST_STACK_AXES - len(steps)) + list(steps) + [0]


def matrix_params(
    op: Op, width: int, *, in_rows: bool = False
) -> tuple[dict[str, ParamValue], int]:
    """Sizes and strides, and the tasks.

    Args:
        op: The product.
        width: Columns of a block.
        in_rows: Whether rows of the left operand follow each other: products of one matrix on the
            right then are one of more rows.
    """
    rows, depth, columns = product_sizes(op)
    left_transposed, right_transposed = not in_rows and adjoint(op)[0], adjoint(op)[1]
    blocks = -(-columns // width)
    stack = op.outputs[0].static_shape[:-2]
    shared = shared_axes(op) if in_rows else 0
    outer = stack[: len(stack) - shared]
    params: dict[str, ParamValue] = {
        "rows": rows * prod(stack[len(outer) :]),
        "depth": depth,
        "columns": columns,
        "blocks": blocks,
        "x_row": 1 if left_transposed else depth,
        "x_depth": rows if left_transposed else 1,
        "y_depth": 1 if right_transposed else columns,
        "y_column": depth if right_transposed else 1,
        "sizes": outer_fields((*outer, *(1,) * shared), MOST_STACK_AXES),
        "x": stack_strides(op, 0),
        "y": stack_strides(op, 1),
    }
    named = {f"size_{name}": value for name, value in params.items()}
    return named, prod(outer) * blocks


def _is_one_matrix(op: Op) -> bool:
    """Whether one matrix serves all rows of the left operand, which is computed."""
    return not operand(op, 0).is_constant and prod(operand(op, 1).static_shape[:-2]) == 1


def _lower_float(op: Op, context: Context) -> None:
    if _is_one_matrix(op) and operand(op, 1).is_constant:
        call_conv_f32(one_matrix(op, context), context)
        return
    _, depth, columns = product_sizes(op)
    lanes = lanes_of(context.vector_bytes)
    registers = registers_of(context.target, context.vector_bytes)
    form = _form(op, registers, lanes)
    if form == _PACKED and _rounds(op, context):
        _lower_rounded(op, context)
        return
    if form == _PACKED and _is_one_matrix(op) and _packs_once(op, lanes):
        call_conv_f32(one_matrix(op, context), context)
        return
    whole = columns // lanes if form == _DIRECT else -(-columns // lanes)
    tile = _tile(op, context, form, whole)
    in_rows = form == _PACKED or not adjoint(op)[0]
    width = tile.channels(lanes)
    params, tasks = matrix_params(op, width, in_rows=in_rows)
    panel_bytes = (depth + 1) * width * FLOAT_BYTES
    panels = task_panels(-(-columns // width), tasks, panel_bytes) if form == _PACKED else 1
    if panels > 1:
        params, tasks = matrix_params(op, width * panels, in_rows=in_rows)
    scratch = panels * panel_bytes if form == _PACKED else 0
    kernel = Kernel("matmul_f32.h", "matmul_f32", (tile.pixels, tile.whole, form))
    result = op.outputs[0]
    left = row_major(op, context) if in_rows else source_ref(context, operand(op, 0))
    right = source_ref(context, operand(op, 1))
    context.call(
        op,
        kernel,
        params | {"task_blocks": panels} | clamp_params("NONE"),
        (left, right, TensorRef(result), StopRef(), NoRef()),
        (result,),
        tasks=tasks,
        scratch_bytes=scratch,
    )


def _rounds(op: Op, context: Context) -> bool:
    """Whether operands are rounded to bfloat16; where the left one is transposed they are not."""
    _, depth, _ = product_sizes(op)
    elements = operand(op, 0).elements + operand(op, 1).elements
    return not adjoint(op)[0] and rounds(context, op.outputs[0].elements * depth, elements)


def _lower_rounded(op: Op, context: Context) -> None:
    rows, depth, columns = product_sizes(op)
    lanes = lanes_of(context.vector_bytes)
    registers = registers_for_pairs(registers_of(context.target, context.vector_bytes))
    tile = choose_tile(registers, rows, -(-columns // lanes), depth)
    width = tile.channels(lanes)
    params, tasks = matrix_params(op, width)
    left, right = (source_ref(context, operand(op, index)) for index in (0, 1))
    rounded = call_cast(op, context, left, operand(op, 0).elements)
    context.call(
        op,
        Kernel("matmul_bf16.h", "matmul_bf16", (tile.pixels, tile.whole)),
        params,
        (rounded, right, TensorRef(op.outputs[0]), StopRef()),
        op.outputs,
        tasks=tasks,
        scratch_bytes=(depth + 1) * width * FLOAT_BYTES,
    )


def _tile(op: Op, context: Context, form: str, vectors: int) -> Tile:
    """The best tile; a matrix that is read where it lies is read once, for all rows."""
    _, depth, columns = product_sizes(op)
    rows = _rows_of(op, form)
    registers = registers_of(context.target, context.vector_bytes)
    sizes = rows, vectors, depth, 0 if adjoint(op)[0] else depth * FLOAT_BYTES
    tiles = tiles_of(registers, *sizes)
    if form == _DIRECT:
        tiles = tuple(tile for tile in tiles if tile.pixels == rows)
    elif form == _DOTS:
        tiles = (tiles[0]._replace(pixels=rows),)
    knob = Knob(
        f"matmul_f32 {joined((rows, depth, columns))}",
        tiles,
        lambda tile: registers.row_cycles(tile, *sizes),
        always_there,
    )
    return context.choose(op, knob)


def _rows_of(op: Op, form: str) -> int:
    """Rows that one matrix on the right meets, where the rows of the left operand follow."""
    rows, _, _ = product_sizes(op)
    stack = op.outputs[0].static_shape[:-2]
    if form != _PACKED and adjoint(op)[0]:
        return rows
    return rows * prod(stack[len(stack) - shared_axes(op) :])


def _form(op: Op, registers: Registers, lanes: int) -> str:
    """How `matmul_f32.h` reads the right operand."""
    _, depth, columns = product_sizes(op)
    left_transposed, right_transposed = adjoint(op)
    if _rows_of(op, _PACKED) > _FEW_ROWS:
        return _PACKED
    rows = _rows_of(op, _DIRECT)
    as_rows = not left_transposed or product_sizes(op)[0] == 1
    if right_transposed and as_rows and sums_over_lanes(rows, depth, columns, registers, lanes):
        return _DOTS
    if right_transposed or columns < lanes:
        return _PACKED
    return _DIRECT if choose_tile(registers, rows, columns // lanes).pixels == rows else _PACKED


def _packs_once(op: Op, lanes: int) -> bool:
    """Whether one computed matrix is packed for all rows ahead of them.

    Block by block takes about 4 % fewer instructions, but few blocks are few tasks.
    """
    _, depth, columns = product_sizes(op)
    multiply_adds = op.outputs[0].elements * depth // lanes
    return columns <= _FEW_COLUMNS * lanes and multiply_adds > _WORTH_A_STEP


def _lower_int16(op: Op, context: Context) -> None:
    """A constant right operand of 8 bits is packed ahead."""
    weights = columns_of(op, np.asarray(operand(op, 1).data, np.int16))
    left, result, (columns, depth) = operand(op, 0), op.outputs[0], weights.shape
    epilogue = Q16Epilogue(np.zeros(columns, np.int64), factors(op), wide=True)
    product = of_rows(op, left, result, (columns, depth), lambda: weights, epilogue)
    call_conv_q16(product, context)


def _refuses_int16(op: Op, target: Target) -> str | None:
    left, right = operand(op, 0), operand(op, 1)
    if (left.dtype, right.dtype) != (DType.INT16, DType.INT8):
        return "not int16 and int8"
    if not (_is_one_matrix(op) and right.is_constant) or adjoint(op)[0]:
        return "the right operand is not one constant matrix, or the left one is transposed"
    if zero_of(left) or zero_of(right):
        return "a zero point is not 0"
    return refuses_sizes(op, target)


@dataclass(frozen=True)
class _Integer:
    """How a product of int16 is computed: the form of its sums, its tile, and its results."""

    form: str
    tile: Tile
    parameters: np.ndarray
    bounds: dict[str, ParamValue]


def _wide(op: Op, tile: Tile, lanes: int) -> _Integer:
    """Products of int16: 64-bit sums."""
    both = operand(op, 1).dtype == DType.INT16
    tile, columns = wide_tile(tile), product_sizes(op)[2]
    parameters = column_parameters(columns, tile.channels(lanes), None, factors(op), wide=True)
    form = "MATMUL_INT_SPLIT" if both else "MATMUL_INT_WIDE"
    return _Integer(form, tile, parameters, bounds(op))


def _lower_integer(op: Op, context: Context) -> None:
    _call_integer(op, op, lambda tile, lanes: _wide(op, tile, lanes), context)


def _lower_rows(op: Op, context: Context) -> None:
    attrs = BatchMatMulAttrs(adj_y=True)
    product = Op("BATCH_MATMUL", op.inputs[:2], op.outputs, attrs, op.origin)

    def form(tile: Tile, lanes: int) -> _Integer:
        return replace(_wide(product, tile, lanes), bounds=bounds(op))

    _call_integer(op, product, form, context)


def _refuses_rows(op: Op, target: Target) -> str | None:
    data, weights, bias, result = operand(op, 0), operand(op, 1), op.input(2), op.outputs[0]
    if {data.dtype, weights.dtype, result.dtype} != {DType.INT16}:
        return "not all int16"
    if bias is not None:
        return "a bias joins int16"
    if zero_of(weights):
        return "weights of int16 have a zero point"
    as_many = 2 <= len(data.static_shape) == len(result.static_shape) <= MOST_STACK_AXES + 2
    if not as_many or data.static_shape[-1] != weights.static_shape[1]:
        return "the result is not as many rows as the input"
    return "a size is 0" if data.elements == 0 or result.elements == 0 else None


def _call_integer(
    op: Op, product: Op, form: Callable[[Tile, int], _Integer], context: Context
) -> None:
    """Compute an op's result as a product of matrices, in a form."""
    rows, depth, columns = product_sizes(product)
    left, right, result = operand(op, 0), operand(op, 1), op.outputs[0]
    lanes = lanes_of(context.vector_bytes)
    tile = choose_integer_tile(rows, columns, context.target, lanes)
    tile = Tile(tile.pixels, min(tile.whole, _MOST_VECTORS))
    chosen = form(tile, lanes)
    pixels, width = chosen.tile.pixels, chosen.tile.channels(lanes)
    params, tasks = matrix_params(product, width)
    per_tensor = right.quant is not None and not right.quant.is_per_channel
    params |= {"x_zero": zero_of(left), "y_zero": zero_of(right) if per_tensor else 0}
    types = ELEMENT_TYPES[left.dtype], ELEMENT_TYPES[right.dtype]
    arguments = (*types, pixels, chosen.tile.whole, chosen.form)
    refs = (source_ref(context, left), source_ref(context, right))
    even = depth + depth % 2
    context.call(
        op,
        Kernel("matmul_int.h", "matmul_int", arguments),
        params | chosen.bounds,
        (*refs, context.constant(chosen.parameters), TensorRef(result), StopRef()),
        (result,),
        tasks=tasks,
        scratch_bytes=2 * (width * even + 2 * (pixels * even + 2 * lanes)),
    )


LOWERINGS.add(Lowering("BATCH_MATMUL", "matmul_f32", _refuses_float, _lower_float))
LOWERINGS.add(Lowering("BATCH_MATMUL", "matmul_q16", _refuses_int16, _lower_int16, rank=Rank.INT16))
LOWERINGS.add(
    Lowering("BATCH_MATMUL", "matmul_int", _refuses_integer, _lower_integer, rank=Rank.COMPUTED)
)
LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED",
        "fully_connected_rows",
        _refuses_rows,
        _lower_rows,
        rank=Rank.COMPUTED_INT16,
    )
)
