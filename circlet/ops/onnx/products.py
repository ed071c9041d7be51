"""Matrix products and normalisations in every type."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.onnx.integer_sums import check_zero_points
from circlet.ops.onnx.record import OnnxAttrs, axis_of, first_same, kinds, onnx_kind, same
from circlet.ops.opdef import Cost
from circlet.ops.operands import moves_bytes, operand

Array = np.ndarray
_STEPS = 8  # of an element that is normalised


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _mat_mul(attrs: OnnxAttrs, x: Array, y: Array) -> Array:
    return np.matmul(_wide(x), _wide(y))


def _gemm(attrs: OnnxAttrs, a: Array, b: Array, c: Any = None) -> Array:
    left = a.T if attrs.get("transA", 0) else a
    right = b.T if attrs.get("transB", 0) else b
    made = np.matmul(_wide(left), _wide(right))
    if attrs.get("alpha", 1.0) != 1:
        made = attrs.get("alpha", 1.0) * made
    if c is None:
        return made
    return made + (c if attrs.get("beta", 1.0) == 1 else attrs.get("beta", 1.0) * c)


def _centred(x: Array, zero: Any, *, left: bool) -> Array:
    """Integers less their zero point, which may be a list along the rows, or the columns."""
    wide = x.astype(np.int32)
    if zero is None:
        return wide
    check_zero_points(x.shape, zero.shape, left=left)
    if zero.size == 1:
        return wide - zero.astype(np.int32).reshape(())
    shaped = zero.reshape(-1, 1) if left and zero.ndim == 1 else zero
    return wide - shaped.astype(np.int32)


def _mat_mul_integer(
    attrs: OnnxAttrs, x: Array, y: Array, x_zero: Any = None, y_zero: Any = None
) -> Array:
    return np.matmul(_centred(x, x_zero, left=True), _centred(y, y_zero, left=False))


def _product_cost(op: Op) -> Cost:
    """Each element of the result is a sum over the depth."""
    x = operand(op, 0)
    depth = x.static_shape[-1] if x.shape else 1
    return Cost(op.outputs[0].elements * depth, moves_bytes(op).bytes)


onnx_kind("MatMul", _mat_mul, inputs=(2, 2), cost=_product_cost)
onnx_kind("Gemm", _gemm, inputs=(2, 3))
onnx_kind("MatMulInteger", _mat_mul_integer, inputs=(2, 4), cost=_product_cost)


def _channels(values: Array, x: Array) -> Array:
    return _wide(values).reshape(-1, *[1] * (x.ndim - 2))


def _batch_normalization(
    attrs: OnnxAttrs, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> Any:
    if attrs.get("training_mode", 0):
        return _trained(attrs, x, scale, bias, mean, variance)
    factor = _channels(scale, x) / np.sqrt(_channels(variance, x) + attrs.get("epsilon", 1e-5))
    return (_wide(x) - _channels(mean, x)) * factor + _channels(bias, x)


def _trained(
    attrs: OnnxAttrs, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> tuple[Array, ...]:
    """Normalised by its own statistics, which join the running ones."""
    axes = tuple(i for i in range(x.ndim) if i != 1)
    own, spread = x.mean(axes), x.var(axes)
    kept = attrs.get("momentum", 0.9)
    factor = _channels(scale, x) / np.sqrt(_channels(spread, x) + attrs.get("epsilon", 1e-5))
    made = (x - _channels(own, x)) * factor + _channels(bias, x)
    return made, mean * kept + own * (1 - kept), variance * kept + spread * (1 - kept)


onnx_kind("BatchNormalization", _batch_normalization, inputs=(5, 5), infer=first_same)


def _normalisation_work(op: Op) -> Cost:
    """Some steps for each element, as INSTANCE_NORM has them."""
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=_STEPS * operand(op, 0).elements)


def _instance_normalization(attrs: OnnxAttrs, x: Array, scale: Array, bias: Array) -> Array:
    axes = tuple(range(2, x.ndim))
    wide = _wide(x)
    low = wide - wide.mean(axes, keepdims=True)
    deviation = np.sqrt((low * low).mean(axes, keepdims=True) + attrs.get("epsilon", 1e-5))
    return low / deviation * _channels(scale, x) + _channels(bias, x)


onnx_kind(
    "InstanceNormalization",
    _instance_normalization,
    inputs=(3, 3),
    infer=same,
    cost=_normalisation_work,
)


def _layer_normalization(
    attrs: OnnxAttrs, x: Array, scale: Array, bias: Any = None
) -> tuple[Array, Array, Array]:
    axes = tuple(range(axis_of(attrs.get("axis", -1), x.ndim), x.ndim))
    wide = _wide(x)
    mean = wide.mean(axes, keepdims=True)
    low = wide - mean
    inverse = 1 / np.sqrt((low * low).mean(axes, keepdims=True) + attrs.get("epsilon", 1e-5))
    made = low * inverse * scale
    return (made if bias is None else made + bias), mean, inverse


onnx_kind(
    "LayerNormalization",
    _layer_normalization,
    inputs=(2, 3),
    infer=first_same,
    cost=_normalisation_work,
)


def _lrn(attrs: OnnxAttrs, x: Array) -> Array:
    size = attrs.get("size")
    before = (size - 1) // 2
    squares = np.pad(np.square(x), [(0, 0), (before, size - 1 - before)] + [(0, 0)] * (x.ndim - 2))
    total = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    scaled = attrs.get("bias", 1.0) + attrs.get("alpha", 1e-4) / size * total
    return np.asarray(x / scaled ** attrs.get("beta", 0.75))


kinds({"LRN": _lrn}, infer=same)


def _standardised(attrs: OnnxAttrs, x: Array) -> Array:
    axes = tuple(attrs.get("axes") or (0, 2, 3))
    low = x - x.mean(axes, keepdims=True)
    return low / (np.sqrt((low * low).mean(axes, keepdims=True)) + 1e-9)


def _rms_normalised(attrs: OnnxAttrs, x: Array, scale: Array) -> Array:
    axes = tuple(range(axis_of(attrs.get("axis", -1), x.ndim), x.ndim))
    wide = _wide(x)
    squares = (wide * wide).mean(axes, keepdims=True)
    return wide / np.sqrt(squares + attrs.get("epsilon", 1e-5)) * scale


kinds({"MeanVarianceNormalization": _standardised}, infer=same)
onnx_kind("RMSNormalization", _rms_normalised, inputs=(2, 2), infer=same)


def _dropped(attrs: OnnxAttrs, x: Array, ratio: Any = None, training: Any = None) -> Any:
    if training is not None and bool(training.any()) and (ratio is None or float(ratio) != 0):
        raise GraphError("Dropout in training mode is random and not run")
    return x, np.ones(x.shape, bool)


onnx_kind("Dropout", _dropped, inputs=(1, 3), infer=first_same)
