"""MatMul and Gemm of doubles, whose right operands are packed as they are met, or ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.floats.tiles import choose_tile, registers_of
from circlet.backends.cpu.lower.products.matmul import matrix_params, product_sizes, refuses_sizes
from circlet.backends.cpu.lower.products.matmul_operands import columns_of
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Ref,
    StopRef,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import operand
from circlet.target.targets import Target

_MATMUL, _GEMM = (f"CUSTOM:{PREFIX}{kind}" for kind in ("MatMul", "Gemm"))
_BYTES = 8


class _Addend(NamedTuple):
    """What is added to products, times `beta`; and what these are times."""

    alpha: float = 1.0
    beta: float = 0.0
    values: Tensor | None = None


def _refuses(op: Op, target: Target) -> str | None:
    if {operand(op, index).dtype for index in (0, 1)} != {DType.FLOAT64}:
        return "not FLOAT64"
    if not all(operand(op, index).has_rank for index in (0, 1)):
        return "a rank is not known"
    return refuses_sizes(_product(op), target)


def _refuses_gemm(op: Op, target: Target) -> str | None:
    addend, sizes = op.input(2), op.outputs[0].static_shape
    if addend is not None and np.broadcast_shapes(addend.static_shape, sizes) != sizes:
        return "what is added is larger than the product"
    return _refuses(op, target)


def _lower(op: Op, context: Context) -> None:
    _call(op, _product(op), _Addend(), context)


def _lower_gemm(op: Op, context: Context) -> None:
    attrs = attributes(op)
    addend = _Addend(attrs.get("alpha", 1.0), attrs.get("beta", 1.0), op.input(2))
    _call(op, _product(op), addend, context)


def _product(op: Op) -> Op:
    """A BATCH_MATMUL of the same sizes: vectors are matrices of one row, or of one column."""
    attrs = attributes(op)
    left, right = operand(op, 0), operand(op, 1)
    if len(left.static_shape) == 1:
        left = _shaped(left, (1, *left.static_shape))
    if len(right.static_shape) == 1:
        right = _shaped(right, (*right.static_shape, 1))
    transposed = BatchMatMulAttrs(bool(attrs.get("transA", 0)), bool(attrs.get("transB", 0)))
    rows = left.static_shape[-1 if transposed.adj_x else -2]
    columns = right.static_shape[-2 if transposed.adj_y else -1]
    stack = np.broadcast_shapes(left.static_shape[:-2], right.static_shape[:-2])
    result = _shaped(op.outputs[0], (*stack, rows, columns))
    return Op("BATCH_MATMUL", [left, right], [result], transposed, op.origin)


def _shaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return replace(tensor, shape=shape, default_shape=None)


def _call(op: Op, product: Op, addend: _Addend, context: Context) -> None:
    rows, depth, columns = product_sizes(product)
    lanes = context.vector_bytes // _BYTES
    registers = registers_of(context.target, context.vector_bytes)
    splats = replace(registers, by_lane=False, broadcasts=registers.has_halves)
    tile = choose_tile(splats, rows, -(-columns // lanes), depth)
    width, right = tile.channels(lanes), operand(op, 1)
    params, tasks = matrix_params(product, width)
    params |= {"alpha": float(addend.alpha), "beta": float(addend.beta)}
    added, steps = _added(addend.values, rows, context)
    is_packed = right.data is not None and len(right.static_shape) <= 2
    if is_packed:
        matrix = np.reshape(np.asarray(right.data), operand(product, 1).static_shape)
        values = columns_of(product, matrix)
        packed = context.packed(op, f"matmul_f64 {width}", lambda: ([_packed(values, width)], None))
        ref: Ref = packed.refs[0]
        steps |= {"size_y_depth": width, "size_y_column": depth}
    else:
        ref = source_ref(context, right)
    context.call(
        op,
        Kernel("matmul_f64.h", "matmul_f64", (tile.pixels, tile.whole, int(is_packed))),
        params | steps,
        (source_ref(context, operand(op, 0)), ref, TensorRef(op.outputs[0]), added, StopRef()),
        (op.outputs[0],),
        tasks=tasks,
        scratch_bytes=0 if is_packed else width * depth * _BYTES,
    )


def _packed(columns: np.ndarray, width: int) -> np.ndarray:
    """Columns in blocks of `width`, with zeros behind the last: all elements of a sum in turn."""
    padded = np.pad(columns, ((0, -len(columns) % width), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, width, columns.shape[1]).swapaxes(1, 2))


def _added(values: Tensor | None, rows: int, context: Context) -> tuple[Ref, dict[str, ParamValue]]:
    """The addend, and the elements between its rows and columns."""
    if values is None:
        return NoRef(), {"add_row": 0, "add_column": 0}
    height, width = (1, 1, *values.static_shape)[-2:]
    steps: dict[str, ParamValue] = {
        "add_row": width if height == rows and height > 1 else 0,
        "add_column": int(width > 1),
    }
    return source_ref(context, values), steps


LOWERINGS.add(Lowering(_MATMUL, "matmul_f64", _refuses, _lower))
LOWERINGS.add(Lowering(_GEMM, "gemm_f64", _refuses_gemm, _lower_gemm))
