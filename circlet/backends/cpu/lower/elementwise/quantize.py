"""QUANTIZE, DEQUANTIZE and CAST: tables between 8-bit types, expressions otherwise.

ONNX's QuantizeLinear is QUANTIZE with halves to even, by one scale or by one for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.copy import not_copyable
from circlet.backends.cpu.lower.elementwise.body import not_printable
from circlet.backends.cpu.lower.elementwise.elementwise import lower_scalar
from circlet.backends.cpu.lower.elementwise.lut import lut_loops
from circlet.backends.cpu.lower.printer import ELEMENT_TYPES, EXPRESSION_TYPES
from circlet.backends.cpu.lower.views import (
    Loops,
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
from circlet.ops.onnx.record import OnnxAttrs
from circlet.ops.operands import operand, scale_of, zero_of
from circlet.ops.scalars import FORM_SCALARS
from circlet.target.targets import Target

_SHORTEST = 32  # of rows of one scale, which take a division each


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
    params: dict[str, ParamValue] = {
        **fields,
        "source": stride_fields(loops.strides[0]),
        "result": stride_fields(loops.strides[1]),
        "flip": _flip(result),
        "scale": affine.scale,
        "zero": affine.zero,
    }
    operands = (source_ref(context, source), TensorRef(result))
    kernel = Kernel("quantize.h", "quantize", (int(affine.to_even),))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _flip(result: Tensor) -> int:
    return 128 * (result.dtype is DType.UINT8)


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
    if operand(op, 1).dtype is not DType.FLOAT32:
        return "the scale is not FLOAT32"
    affine = (op.input(1), op.input(2))
    if _is_single(affine):
        return not_copyable(result)
    if op.input(2) is None or op.attributes(OnnxAttrs).get("block_size", 0):
        return "a zero point is not given, or scales are those of blocks"
    if _length(affine, result) < _SHORTEST:
        return "rows of one scale are short"
    return not_copyable(result)


def _is_single(affine: Sequence[Tensor | None]) -> bool:
    """Whether the scale and the zero point are one constant each."""
    return all(t is None or (t.is_constant and t.elements == 1) for t in affine)


def _length(affine: Sequence[Tensor | None], result: Tensor) -> int:
    """How many elements in a row have one scale and one zero point."""
    shape = result.static_shape
    wide = [t.static_shape for t in affine if t is not None and t.elements != 1]
    if any(len(sizes) != len(shape) for sizes in wide):
        return 0
    axes = [axis for sizes in wide for axis, size in enumerate(sizes) if size != 1]
    return prod(shape[max(axes, default=-1) + 1 :])


def _lower_linear(op: Op, context: Context) -> None:
    affine = (op.input(1), op.input(2))
    if not _is_single(affine):
        _lower_rows(op, context)
        return
    scale, zero = (None if t is None else t.data for t in affine)
    assert scale is not None
    whole = 0 if zero is None else int(zero.reshape(-1)[0])
    _lower_floats(op, context, Affine(float(scale.reshape(-1)[0]), whole, True))


def _lower_rows(op: Op, context: Context) -> None:
    """Each row by a scale and a zero point that it reads."""
    tensors, result = [operand(op, index) for index in range(3)], op.outputs[0]
    loops = element_loops(context, (*tensors, result), result.static_shape)
    if [row[-1] for row in loops.strides] != [1, 0, 0, 1]:
        loops = Loops((*loops.sizes, 1), tuple((*row, 0) for row in loops.strides))
    fields, tasks = row_fields(loops.sizes, 5)
    names = ("source", "scale", "zero", "result")
    strides = {name: stride_fields(row) for name, row in zip(names, loops.strides, strict=True)}
    operands = (*(source_ref(context, tensor) for tensor in tensors), TensorRef(result))
    kernel = Kernel("quantize.h", "quantize_rows", (1,))
    params: dict[str, ParamValue] = {**fields, **strides, "flip": _flip(result)}
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


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
