"""BATCH_MATMUL: products of stacks of matrices, float or integer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.hybrid import quantise_rows
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    affine,
    count,
    infer_ranked,
    is_affine,
    limits,
    operand,
    present,
    scale_of,
    when_ranked,
    zero_of,
)
from circlet.ops.parts import by_rows, centred, matmul
from circlet.ops.requantization import requantization_of, rounds_to_even
from circlet.ops.requantize import (
    multiply_by_quantized_multiplier,
    multiply_wide,
    quantize_multipliers,
    wrap_int32,
)
from circlet.ops.weighted import scaled_to_even

_STEPS = 16  # of a sum that is requantised


@dataclass(frozen=True)
class BatchMatMulAttrs:
    """Which operands are stored transposed."""

    adj_x: bool = False
    adj_y: bool = False
    asymmetric_quantize_inputs: bool = False


def adjoint(op: Op) -> tuple[bool, bool]:
    """Whether the first and the second operand are stored transposed."""
    attrs = op.attributes(BatchMatMulAttrs)
    return attrs.adj_x, attrs.adj_y


def _matrix(shape: Shape, transposed: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def matrix_shapes(op: Op) -> tuple[Shape, Shape]:
    """Sizes of both operands as they are multiplied: [..., m, k] and [..., k, n]."""
    first, second = adjoint(op)
    return _matrix(operand(op, 0).shape, first), _matrix(operand(op, 1).shape, second)


def _infer(op: Op) -> list[TensorType]:
    first, second = matrix_shapes(op)
    batches = broadcast_shape(first[:-2], second[:-2])
    if batches is None:
        raise GraphError("batch sizes do not broadcast", where=op.name)
    return [TensorType(op.outputs[0].dtype, (*batches, first[-2], second[-1]))]


def column_scales(op: Op) -> npt.NDArray[np.float32]:
    """Scales of the second operand: one, or one per column of the result."""
    quant = operand(op, 1).quant
    assert quant is not None
    return quant.scale


def factors(op: Op) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Mantissas and shifts from the accumulator to the output's steps.

    The real factors are formed in double from float32 scales.
    """
    scales = column_scales(op).astype(np.float64) * scale_of(operand(op, 0))
    return quantize_multipliers(scales / scale_of(op.outputs[0]))


def _integer(op: Op, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Exact sums in double, requantised from 32-bit or, for int16, 64-bit accumulators."""
    total = matmul(centred(x, zero_of(operand(op, 0))), centred(y, zero_of(operand(op, 1))))
    (stored,) = by_rows(lambda rows: [_requantised(op, rows.astype(np.int64))], total, _STEPS)
    return stored


def _requantised(op: Op, total: npt.NDArray[np.int64]) -> np.ndarray:
    result = op.outputs[0]
    if rounds_to_even(op):
        scaled = scaled_to_even(total, operand(op, 0), operand(op, 1), result)
    elif requantization_of(op).accumulator_bits == 64:
        scaled = multiply_wide(total, *factors(op))
    else:
        scaled = multiply_by_quantized_multiplier(wrap_int32(total), *factors(op))
    return np.clip(scaled + zero_of(result), *limits(result.dtype)).astype(result.dtype.numpy)


def is_hybrid(op: Op) -> bool:
    """Whether rows of floats meet stored integers."""
    return operand(op, 0).dtype is DType.FLOAT32 and operand(op, 1).dtype is not DType.FLOAT32


def _hybrid(op: Op, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows that are quantised by themselves, times stored values, times both scales."""
    asymmetric = op.attributes(BatchMatMulAttrs).asymmetric_quantize_inputs
    rows = quantise_rows(x.reshape(-1, x.shape[-1]), asymmetric=asymmetric)
    values, scales = rows.values.reshape(x.shape), rows.scales.reshape(*x.shape[:-1], 1)
    total: np.ndarray = matmul(values, y.astype(np.float64)) * (scales * column_scales(op))
    return total.astype(np.float32)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    transposed = adjoint(op)
    pair = [present(array) for array in inputs[:2]]
    x, y = (
        np.swapaxes(array, -1, -2) if turned else array
        for array, turned in zip(pair, transposed, strict=True)
    )
    if is_hybrid(op):
        return [_hybrid(op, x, y)]
    if x.dtype == np.float32:
        return [np.asarray(matmul(x, y), np.float32)]
    return [_integer(op, x, y)]


def _are_matrices(op: Op) -> bool:
    return all(len(operand(op, index).shape) >= 2 for index in (0, 1))


def _depths_agree(op: Op) -> bool:
    first, second = matrix_shapes(op)
    return None in (first[-1], second[-2]) or first[-1] == second[-2]


def _batches_agree(op: Op) -> bool:
    first, second = matrix_shapes(op)
    return broadcast_shape(first[:-2], second[:-2]) is not None


def _scales_fit(tensor: Tensor, transposed: bool) -> bool:
    """One scale, or for constant int8 one per column without zero points."""
    if tensor.dtype not in QUANTISED or is_affine(tensor):
        return True
    quant, rank = tensor.quant, len(tensor.shape)
    if quant is None or not quant.is_affine or quant.zero_point.any():
        return False
    column = rank - 2 if transposed else rank - 1
    inside = (quant.scale >= 2.0**-70).all() and (quant.scale <= 2.0**70).all()
    return bool(inside) and quant.axis == column and tensor.shape[column] == quant.scale.size


def _factors_in_reach(op: Op) -> bool:
    if operand(op, 0).dtype not in QUANTISED:
        return True
    _, shift = factors(op)
    most = 7 if operand(op, 0).dtype == DType.INT16 else 30
    return bool((shift >= -31).all() and (shift <= most).all())


def matmul_cost(op: Op) -> Cost:
    """One multiply-add per result and depth."""
    results = count(op.outputs[0].static_shape) or 0
    tensors = [operand(op, 0), operand(op, 1), op.outputs[0]]
    depth = operand(op, 0).shape[-2 if adjoint(op)[0] else -1] or 0
    return Cost(macs=results * depth, bytes=sum(t.size_bytes for t in tensors))


register(
    OpDef(
        kind="BATCH_MATMUL",
        attrs=BatchMatMulAttrs,
        arity=(2, 2),
        required=2,
        dtypes=(
            "FLOAT32 FLOAT32 -> FLOAT32",
            "FLOAT32 INT8 -> FLOAT32",
            "INT8 INT8 -> INT8",
            "INT16 INT16 -> INT16",
            "INT16 INT8 -> INT16",
        ),
        infer=infer_ranked(_infer),
        evaluate=_evaluate,
        rules=(
            when_ranked("matrices", _are_matrices, "both operands must have rank 2 or more"),
            when_ranked("depths", _depths_agree, "the inner sizes must be equal"),
            when_ranked("batches", _batches_agree, "outer sizes must be equal or 1"),
            affine(0),
            Rule(
                "second-scales",
                lambda op: _scales_fit(operand(op, 1), adjoint(op)[1]),
                "the second operand needs one scale, or one per column and no zero points",
            ),
            Rule("output-scale", _factors_in_reach, "the output scale is out of reach"),
        ),
        numerics="tolerance",
        cost=matmul_cost,
    )
)
