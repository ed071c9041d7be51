"""MatMulInteger over constant weights: sums of bytes less a zero point that a run computes."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.integers.conv_q8 import Q8Epilogue, Q8Product, call_conv_q8
from circlet.backends.cpu.lower.integers.q8 import Int8, dot_is_signed
from circlet.backends.cpu.lower.integers.requantisation import SUMS, Requantisation, in_order
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.onnx.integer_sums import centred_weights, has_one_zero
from circlet.ops.onnx.record import PREFIX
from circlet.ops.operands import operand
from circlet.target.targets import Target

_RECORD_BYTES = 8
_TOP = 128


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).is_constant or operand(op, 0).dtype.bits != 8:
        return "the rows are not computed bytes"
    if centred_weights(op) is None:
        return "the weights are no constant matrix of int8 around 0"
    if not has_one_zero(op):
        return "rows have zero points of their own"
    return "a size is 0" if 0 in (operand(op, 0).elements, op.outputs[0].elements) else None


def _lower(op: Op, context: Context) -> None:
    """The rows as they are stored, or as the dot product takes them; then the product."""
    weights = centred_weights(op)
    assert weights is not None
    depth, units = weights.shape
    source, scales = _rows(op, context, depth)
    lanes = context.vector_bytes // 4

    def parameters(values: Int8, width: int) -> Requantisation:
        sums = values.reshape(units, -1).sum(axis=1, dtype=np.int32)
        return Requantisation(SUMS, in_order(units, width, lanes).table({2: sums}))

    bounds: dict[str, ParamValue] = {"float_low": 0.0, "float_high": 0.0}
    epilogue = Q8Epilogue(parameters, 0, False, bounds, scales)
    product: Q8Product = of_rows(
        op,
        operand(op, 0),
        op.outputs[0],
        (units, depth),
        lambda: np.ascontiguousarray(weights.T),
        epilogue,
    )
    call_conv_q8(product._replace(source=source), context)


def _rows(op: Op, context: Context, depth: int) -> tuple[View, TensorRef]:
    data, zero = operand(op, 0), op.input(2)
    is_signed, wanted = data.dtype is DType.INT8, dot_is_signed(context.target)
    copies = is_signed != wanted
    params: dict[str, ParamValue] = {"bytes": data.elements, "flip": 0}
    if copies:
        params["flip"] = _TOP if is_signed else -_TOP
    scales = context.temporary(op, _RECORD_BYTES)
    made = context.temporary(op, data.elements) if copies else None
    zero_ref: Ref = (
        NoRef() if zero is None else context.stored(zero) if zero.is_constant else TensorRef(zero)
    )
    operands: tuple[Ref, ...] = (TensorRef(data), zero_ref, made or NoRef(), scales)
    written = (scales.tensor, *((made.tensor,) if made else ()))
    kernel = Kernel("stored_rows.h", "stored_rows", (int(is_signed), int(copies)))
    context.call(op, kernel, params, operands, written, tasks=1)
    if made is None:
        return View(data, 0, 0, 0, depth), scales
    return View(made.tensor, made.offset, 0, 0, depth), scales


LOWERINGS.add(
    Lowering(f"CUSTOM:{PREFIX}MatMulInteger", "mat_mul_integer", _refuses, _lower, rank=Rank.INT8)
)
