"""Quantisation as ONNX computes it: float scales, halves to even, saturation."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops.expr import Scalar, Var, call, clamp
from circlet.ops.onnx.casts import integer_limits, is_small_float, narrowed, numpy_type
from circlet.ops.onnx.record import OnnxAttrs, axis_of, onnx_kind, same
from circlet.ops.onnx.windows import convolved

Array = np.ndarray
QUANTIZE, DEQUANTIZE = "CUSTOM:onnx.QuantizeLinear", "CUSTOM:onnx.DequantizeLinear"
# By the numbers of onnx.TensorProto.DataType.
TYPES = {2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16}
_LIMITS = {
    DType.INT8: (-128.0, 127.0),
    DType.UINT8: (0.0, 255.0),
    DType.INT16: (-32768.0, 32767.0),
    DType.UINT16: (0.0, 65535.0),
}
_EXPRESSED = frozenset({*_LIMITS, DType.INT32})


def _spread(values: Any, x: Array, attrs: OnnxAttrs) -> Any:
    """Scales or zero points along their axis, or in blocks of it, as large as `x`."""
    if values is None or values.size == 1:
        return values if values is None else values.reshape(())
    if values.ndim == x.ndim and not attrs.get("block_size", 0):
        return values  # as wide as x already
    axis, block = axis_of(attrs.get("axis", 1), x.ndim), attrs.get("block_size", 0)
    if block:
        return np.repeat(values, block, axis).take(range(x.shape[axis]), axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)


def saturated(values: Array, dtype: Any) -> Array:
    """Whole numbers as a type, at its limits where they lie beyond."""
    return np.asarray(np.clip(values, *integer_limits(dtype))).astype(dtype)


def quantised(x: Array, scale: Any, zero: Any, dtype: Any) -> Array:
    """round(x / scale) + zero, halves to even."""
    whole = np.rint(x / scale)
    return saturated(whole + (0 if zero is None else zero.astype(np.float64)), dtype)


def _quantize(attrs: OnnxAttrs, x: Array, scale: Array, zero: Any = None) -> Array:
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    if zero is None and attrs.get("output_dtype", 0):
        dtype = numpy_type(attrs.get("output_dtype"))
    if is_small_float(dtype):
        return narrowed(x / _spread(scale, x, attrs), dtype, bool(attrs.get("saturate", 1)))
    return quantised(x, _spread(scale, x, attrs), _spread(zero, x, attrs), dtype)


def dequantised(x: Array, scale: Array, zero: Any) -> Array:
    """(x - zero) * scale in the type of the scale; all of them broadcast."""
    offset = 0 if zero is None else zero.astype(np.int64)
    return np.asarray((x.astype(np.int64) - offset).astype(scale.dtype) * scale)


def _dequantize(attrs: OnnxAttrs, x: Array, scale: Array, zero: Any = None) -> Array:
    if is_small_float(x.dtype):
        real = x.astype(np.float32) * _spread(scale, x, attrs).astype(np.float32)
        return np.asarray(real.astype(scale.dtype))
    return dequantised(x, _spread(scale, x, attrs), _spread(zero, x, attrs))


def _is_wide(values: Tensor, x: Tensor) -> bool:
    sizes = zip(values.shape, x.shape, strict=False)
    return len(values.shape) == len(x.shape) and all(a in (1, b) for a, b in sizes)


def _broadcast_operands(op: Op, stored: Tensor, real: Tensor) -> None:
    """GraphError unless scale and zero point broadcast as they are, and types are common ones."""
    x, scale, zero = (op.input(index) for index in range(3))
    if x is None or scale is None or zero is None or stored.dtype not in _EXPRESSED:
        raise GraphError("a zero point is not given, or integers are of another type")
    wide = all(t.elements == 1 or _is_wide(t, x) for t in (scale, zero))
    blocks = isinstance(op.attrs, OnnxAttrs) and op.attrs.get("block_size", 0)
    if blocks or not wide or not real.dtype is scale.dtype is DType.FLOAT32:
        raise GraphError("scales are those of an axis or of blocks, or not FLOAT32")


def _quantize_scalar(op: Op) -> Scalar:
    source, result = op.inputs[0], op.outputs[0]
    assert source is not None
    _broadcast_operands(op, result, source)
    if result.dtype not in _LIMITS:
        raise GraphError("integers of 32 bits are finer than floats")
    (low, high), zero = _LIMITS[result.dtype], call("to_f32", Var(2, "i32"))
    whole = call("round_half_even", Var(0) / Var(1))
    number = call("select", whole.equals(whole), whole, 0.0)
    inside = clamp(number, low - zero, high - zero)
    return Scalar(call("to_i32", inside) + Var(2, "i32"))


def _dequantize_scalar(op: Op) -> Scalar:
    source = op.inputs[0]
    assert source is not None
    _broadcast_operands(op, source, op.outputs[0])
    return Scalar(call("to_f32", Var(0, "i32") - Var(2, "i32")) * Var(1))


onnx_kind("QuantizeLinear", _quantize, inputs=(2, 3), infer=same, scalar=_quantize_scalar)
onnx_kind("DequantizeLinear", _dequantize, inputs=(2, 3), infer=same, scalar=_dequantize_scalar)


def _dynamic_quantize(attrs: OnnxAttrs, x: Array) -> tuple[Any, ...]:
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = np.float32((np.float32(high) - np.float32(low)) / 255)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255)) if scale else np.uint8(0)
    return quantised(x, scale, np.asarray(zero), np.uint8), scale, zero


onnx_kind("DynamicQuantizeLinear", _dynamic_quantize)


def _filters(values: Array, rank: int) -> Array:
    return values.reshape(-1, *[1] * rank) if values.size > 1 else values.reshape(())


def _qlinear_conv(
    attrs: OnnxAttrs,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    weights: Array,
    w_scale: Array,
    w_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Any = None,
) -> Array:
    rank = x.ndim - 2
    centred = weights.astype(np.int64) - _filters(w_zero.astype(np.int64), rank + 1)
    sums = convolved(attrs, x.astype(np.int64) - int(x_zero.reshape(())), centred)
    if bias is not None:
        sums = sums + bias.astype(np.int64).reshape(-1, *[1] * rank)
    factor = x_scale.reshape(()) * _filters(w_scale, rank) / y_scale.reshape(())
    return saturated(np.rint(sums * factor) + int(y_zero.reshape(())), y_zero.dtype)


onnx_kind("QLinearConv", _qlinear_conv, inputs=(8, 9))


def _along(values: Array, x: Array, axis: int) -> Array:
    if values.size == 1:
        return values.reshape(())
    if values.ndim > 1:
        return values
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)


def _qlinear_mat_mul(
    attrs: OnnxAttrs,
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    left = a.astype(np.int64) - _along(a_zero.astype(np.int64), a, -2)
    right = b.astype(np.int64) - _along(b_zero.astype(np.int64), b, -1)
    sums = np.matmul(left, right)
    scales = (s.astype(np.float32) for s in (a_scale, b_scale, y_scale))
    sa, sb, sy = scales
    factor = _along(sa, sums, -2) * _along(sb, sums, -1) / sy.reshape(())
    return saturated(np.rint(sums * factor) + int(y_zero.reshape(())), y_zero.dtype)


onnx_kind("QLinearMatMul", _qlinear_mat_mul, inputs=(8, 8))
