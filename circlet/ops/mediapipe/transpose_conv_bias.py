"""Convolution2DTransposeBias: TRANSPOSE_CONV with a bias, of sizes that the input decides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Op, Shape
from circlet.ir.builder import constant
from circlet.ops import checks
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import operand, present
from circlet.ops.transpose_conv import TRANSPOSE_CONV, TransposeConvAttrs

KIND = "CUSTOM:Convolution2DTransposeBias"
_DATA, _WEIGHTS, _BIAS = range(3)
_PADDINGS = ("SAME", "VALID")
Pads = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class TransposeConvBiasAttrs:
    """How windows move down and across, and whether their borders are cut off."""

    padding: str = "SAME"
    strides: tuple[int, int] = (1, 1)


def transpose_conv_of(op: Op, data: tuple[int, ...]) -> Op:
    """The TRANSPOSE_CONV that does the same to an input of these sizes, by the same origin."""
    attrs, (filters, *kernel, _) = op.attributes(TransposeConvBiasAttrs), _weights_shape(op)
    cut = _cut(attrs, data[1:3], (kernel[0], kernel[1]))
    sides = zip(data[1:3], kernel, attrs.strides, cut, strict=True)
    sizes = [stride * (size - 1) + taps - sum(pads) for size, taps, stride, pads in sides]
    shape = constant(f"{op.name}/sizes", np.array([data[0], *sizes, filters], np.int32))
    inputs = [shape, op.inputs[_WEIGHTS], op.inputs[_DATA], op.inputs[_BIAS]]
    made = TransposeConvAttrs(cut, attrs.strides)
    return Op("TRANSPOSE_CONV", inputs, op.outputs, made, op.origin)


def _cut(attrs: TransposeConvBiasAttrs, sizes: tuple[int, ...], kernel: tuple[int, int]) -> Pads:
    """Rows and columns that are cut off before and after the image."""
    if attrs.padding == "VALID":
        return ((0, 0), (0, 0))
    totals = [
        max(0, taps - (size - 1) % stride - 1)
        for size, taps, stride in zip(sizes, kernel, attrs.strides, strict=True)
    ]
    rows, columns = ((total // 2, total - total // 2) for total in totals)
    return rows, columns


def _weights_shape(op: Op) -> tuple[int, ...]:
    return operand(op, _WEIGHTS).static_shape


def _infer(op: Op) -> list[TensorType]:
    data, (filters, *kernel, _) = operand(op, _DATA), _weights_shape(op)
    attrs = op.attributes(TransposeConvBiasAttrs)
    sizes: list[int | None] = []
    for axis, (taps, stride) in enumerate(zip(kernel, attrs.strides, strict=True)):
        size = data.shape[axis + 1]
        pads = _cut(attrs, (size or 1,) * 2, (kernel[0], kernel[1]))[axis]
        sizes.append(None if size is None else stride * (size - 1) + taps - sum(pads))
    shape: Shape = (data.shape[0], *sizes, filters)
    return [TensorType(data.dtype, shape)]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    data = present(arrays[_DATA])
    made = transpose_conv_of(op, data.shape)
    shape = made.inputs[0]
    assert shape is not None
    return TRANSPOSE_CONV.evaluate(made, [shape.data, arrays[_WEIGHTS], data, arrays[_BIAS]])


def _depth_fits(op: Op) -> bool:
    depth, wanted = operand(op, _DATA).shape[3], operand(op, _WEIGHTS).shape[3]
    return depth in (None, wanted)


def _cost(op: Op) -> Cost:
    made = transpose_conv_of(op, operand(op, _DATA).static_shape)
    return TRANSPOSE_CONV.cost(made)


def _decompose(op: Op) -> list[Op]:
    """TRANSPOSE_CONV, which names the sizes of its result: they have to be known."""
    data = operand(op, _DATA)
    return [] if None in data.shape else [transpose_conv_of(op, data.static_shape)]


register(
    OpDef(
        kind=KIND,
        attrs=TransposeConvBiasAttrs,
        arity=(3, 3),
        required=3,
        dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",),
        infer=_infer,
        evaluate=_evaluate,
        rules=(
            checks.one_of("padding", _PADDINGS),
            checks.steps(2, "strides"),
            checks.rank_is(_DATA, 4, "input"),
            checks.rank_is(_WEIGHTS, 4, "weights"),
            checks.known_sizes(_WEIGHTS, "weights"),
            checks.not_empty(_DATA, _WEIGHTS),
            Rule("depth_fits", _depth_fits, "input and weights must have equal depth"),
            checks.bias_fits(_BIAS, lambda op: operand(op, _WEIGHTS).shape[0]),
        ),
        cost=_cost,
        decompose=_decompose,
    )
)
