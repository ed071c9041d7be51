"""QUANTIZE, DEQUANTIZE and CAST: tables between 8-bit types, expressions otherwise.

ONNX's QuantizeLinear by one scale is QUANTIZE with halves to even.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.elementwise.body import not_printable
from circlet.backends.cpu.lower.elementwise.elementwise import lower_scalar
from circlet.backends.cpu.lower.elementwise.lut import lut_loops
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES, EXPRESSION_TYPES
from circlet.backends.cpu.lower.views import (
    element_loops,
    merged,
    row_fields,
    source_ref,
    stride_fields,
    with_inner,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
    always_overwrites,
)
from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.lut import EIGHT_BIT
from circlet.ops.onnx.quantisation import QUANTIZE
from circlet.ops.operands import limits, operand, scale_of, zero_of
from circlet.ops.scalars import FORM_SCALARS
from circlet.target.targets import Target


class Affine(NamedTuple):
    """How numbers are stored.

    Attributes:
        scale, zero: A stored number less `zero`, times `scale`, is the number.
        to_even: Whether halves are rounded to even, or else away from zero.
    """

    scale: float
    zero: int
    to_even: bool


def _channel_operands(source: Tensor) -> list[Tensor]:
    quant = source.quant
    if quant is None or not quant.is_per_channel:
        return []
    shape = [1] * len(source.static_shape)
    shape[quant.axis] = -1
    zero = quant.zero_point.astype(np.int32).reshape(shape)
    scale = quant.scale.astype(np.float32).reshape(shape)
    return [constant("zero points", zero), constant("scales", scale)]


def _refuses(op: Op, target: Target) -> str | None:
    types = {operand(op, 0).dtype, op.outputs[0].dtype}
    unknown = types - set(EXPRESSION_TYPES if op.kind == "CAST" else ELEMENT_TYPES)
    if unknown:
        return f"does not take {', '.join(sorted(dtype.name for dtype in unknown))}"
    try:
        scalar = FORM_SCALARS[op.kind](op)
    except GraphError as error:
        return error.what
    return not_copyable(op.outputs[0]) or not_printable(scalar)


def _lower(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype in EIGHT_BIT and result.dtype in EIGHT_BIT:
        _lower_table(op, context)
        return
    if source.dtype is DType.FLOAT32 and result.dtype in EIGHT_BIT and op.kind == "QUANTIZE":
        _lower_floats(op, context, Affine(scale_of(result), zero_of(result), False))
        return
    extra = _channel_operands(source) if op.kind == "DEQUANTIZE" else []
    lower_scalar(op, context, FORM_SCALARS[op.kind](op), [source, *extra])


def _lower_floats(op: Op, context: Context, affine: Affine) -> None:
    source, result = operand(op, 0), op.outputs[0]
    loops = element_loops(context, (source, result), result.static_shape)
    loops = with_inner(merged(loops), (1,))
    fields, tasks = row_fields(loops.sizes, 5)
    (low, high), zero = limits(result.dtype), affine.zero
    params: dict[str, ParamValue] = {
        **fields,
        "source": stride_fields(loops.strides[0]),
        "result": stride_fields(loops.strides[1]),
        "flip": 128 * (result.dtype is DType.UINT8),
        "scale": affine.scale,
        "low": low - zero,
        "high": high - zero,
        "zero": zero,
    }
    operands = (source_ref(context, source), TensorRef(result))
    kernel = Kernel("quantize.h", "quantize", (int(affine.to_even),))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _lower_table(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    values = np.arange(256, dtype=np.uint8).view(source.dtype.numpy)
    (table,) = context.packed(op, "lut", lambda: (get(op).evaluate(op, [values]), None)).refs
    loops = element_loops(context, (source, result), result.static_shape)
    lut_loops(op, context, source, table, TensorRef(result), loops)


for _kind in FORM_SCALARS:
    LOWERINGS.add(
        Lowering(
            _kind,
            _kind.lower(),
            _refuses,
            _lower,
            strided_inputs=True,
            strided_any_rank=True,
            strided_output=True,
            overwrites=always_overwrites,
        )
    )


def _refuses_linear(op: Op, target: Target) -> str | None:
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype is not DType.FLOAT32 or result.dtype not in EIGHT_BIT:
        return f"{source.dtype.name} to {result.dtype.name}, not FLOAT32 to a byte"
    affine = (op.input(1), op.input(2))
    if not all(tensor is None or tensor.is_constant for tensor in affine):
        return "the scale or the zero point is computed"
    if any(tensor is not None and tensor.elements != 1 for tensor in affine):
        return "scales are those of an axis or of blocks"
    if operand(op, 1).dtype is not DType.FLOAT32:
        return "the scale is not FLOAT32"
    return not_copyable(result)


def _lower_linear(op: Op, context: Context) -> None:
    scale, zero = (None if t is None else t.data for t in (op.input(1), op.input(2)))
    assert scale is not None
    whole = 0 if zero is None else int(zero.reshape(-1)[0])
    _lower_floats(op, context, Affine(float(scale.reshape(-1)[0]), whole, True))


LOWERINGS.add(
    Lowering(
        QUANTIZE,
        "quantize_linear",
        _refuses_linear,
        _lower_linear,
        strided_inputs=True,
        strided_any_rank=True,
        strided_output=True,
        overwrites=always_overwrites,
        rank=Rank.INT8,
    )
)
