"""FULLY_CONNECTED of few float rows over computed weights, which are read where they lie.

A row of weights lies along its sum, so that sums over lanes need no packing: packing takes as long
as products with some rows.
"""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.epilogue import clamp_params
from circlet.backends.cpu.lower.floats.float_matrix import why_not_activation
from circlet.backends.cpu.lower.floats.tiles import (
    lanes_of,
    registers_of,
    sums_over_lanes,
    tiles_of,
)
from circlet.backends.cpu.lower.products.matmul import MOST_STACK_AXES
from circlet.backends.cpu.lower.views import source_ref
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
    vector_bytes,
)
from circlet.ir import DType, Op
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    data, weights, result = operand(op, 0), operand(op, 1), op.outputs[0]
    if {data.dtype, weights.dtype, result.dtype} != {DType.FLOAT32}:
        return "not float32"
    if weights.is_constant or 0 in (data.elements, weights.elements):
        return "constant weights, or a size is 0"
    units, depth = weights.static_shape
    width = vector_bytes(target)
    lanes, registers = lanes_of(width), registers_of(target, width)
    if not sums_over_lanes(data.elements // depth, depth, units, registers, lanes):
        return "more rows than registers hold sums of, or short ones"
    return why_not_activation(op)


def _lower(op: Op, context: Context) -> None:
    data, weights, result = operand(op, 0), operand(op, 1), op.outputs[0]
    units, depth = weights.static_shape
    rows, lanes = data.elements // depth, lanes_of(context.vector_bytes)
    registers = registers_of(context.target, context.vector_bytes)
    tile = tiles_of(registers, rows, -(-units // lanes), depth)[0]._replace(pixels=rows)
    blocks = -(-units // tile.channels(lanes))
    sizes: dict[str, ParamValue] = {
        "rows": rows,
        "depth": depth,
        "columns": units,
        "blocks": blocks,
        "x_row": depth,
        "x_depth": 1,
        "y_depth": 1,
        "y_column": depth,
        "sizes": [1] * MOST_STACK_AXES,
        "x": [0] * (MOST_STACK_AXES + 1),
        "y": [0] * (MOST_STACK_AXES + 1),
    }
    params = {f"size_{name}": value for name, value in sizes.items()}
    bias = op.input(2)
    context.call(
        op,
        Kernel("matmul_f32.h", "matmul_f32", (rows, tile.whole, "MATMUL_DOTS")),
        params | {"task_blocks": 1} | clamp_params(activation_of(op)),
        (
            source_ref(context, data),
            source_ref(context, weights),
            TensorRef(result),
            StopRef(),
            NoRef() if bias is None else source_ref(context, bias),
        ),
        (result,),
        tasks=blocks,
    )


LOWERINGS.add(
    Lowering("FULLY_CONNECTED", "fully_connected_few_rows", _refuses, _lower, rank=Rank.DENSE)
)
