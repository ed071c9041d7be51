"""Changes of number form: QUANTIZE, DEQUANTIZE, CAST."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Quantization, Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.functions import round_half_away
from circlet.ops.opdef import Arrays, OpDef, Rule, TensorType, register
from circlet.ops.operands import (
    affine,
    always,
    is_affine,
    limits,
    operand,
    present,
    scale_of,
    zero_of,
)
from circlet.ops.requantize import multiply_by_quantized_multiplier, quantize_multiplier

_SHORT_PAIRS = tuple(
    f"{source} -> {result}"
    for source in ("INT8", "UINT8", "INT16")
    for result in ("INT8", "UINT8", "INT16")
    if (source, result) != ("INT16", "UINT8")
)
_PAIRS = (*_SHORT_PAIRS, "INT16 -> INT32", "INT32 -> INT16", "INT32 -> INT8")


def _infer_as_declared(op: Op) -> list[TensorType]:
    """The output's own type, with the sizes of the input."""
    return [TensorType(op.outputs[0].dtype, operand(op, 0).shape)]


def requantised(values: np.ndarray, source: Tensor, result: Tensor) -> np.ndarray:
    """Stored values moved from one scale to another in fixed point."""
    mantissa, shift = quantize_multiplier(scale_of(source) / scale_of(result))
    centred = values.astype(np.int32) - zero_of(source)
    scaled = multiply_by_quantized_multiplier(centred, mantissa, shift) + zero_of(result)
    return np.clip(scaled, *limits(result.dtype)).astype(result.dtype.numpy)


def quantised(values: np.ndarray, result: Tensor) -> np.ndarray:
    """Real values as stored ones: float32 division, halves away from zero, saturating."""
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = values.astype(np.float32) / np.float32(scale_of(result))
        whole = np.nan_to_num(round_half_away(scaled).astype(np.float64), nan=0.0)
    low, high = limits(result.dtype)
    shifted = whole + zero_of(result)
    return np.clip(shifted, low, high).astype(result.dtype.numpy)


def _evaluate_quantize(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, source, result = present(inputs[0]), operand(op, 0), op.outputs[0]
    if source.dtype == DType.FLOAT32:
        return [quantised(values, result)]
    return [requantised(values, source, result)]


def _ratio_in_reach(op: Op) -> bool:
    source, result = operand(op, 0), op.outputs[0]
    if source.dtype == DType.FLOAT32:
        return True
    return scale_of(source) / scale_of(result) < 1 << 14


register(
    OpDef(
        kind="QUANTIZE",
        arity=(1, 1),
        dtypes=(*(f"FLOAT32 -> {name}" for name in ("INT8", "UINT8", "INT16")), *_PAIRS),
        infer=_infer_as_declared,
        evaluate=_evaluate_quantize,
        identity=always,
        rules=(
            affine(0),
            Rule("output-scale", _ratio_in_reach, "the scales are too far apart"),
        ),
    )
)


def _has_scales(op: Op) -> bool:
    source = operand(op, 0)
    if source.dtype == DType.FLOAT16:
        return True
    quant = source.quant
    if quant is None or not quant.is_per_channel:
        return is_affine(source)
    return _channel_scales_fit(source, quant)


def _channel_scales_fit(source: Tensor, quant: Quantization) -> bool:
    fits = 0 <= quant.axis < len(source.shape) and quant.zero_point.size == quant.scale.size
    return fits and source.shape[quant.axis] in (quant.scale.size, None)


def dequantised(values: np.ndarray, source: Tensor) -> np.ndarray:
    """Stored values as real ones, in float32; per channel where the scales are."""
    if source.dtype == DType.FLOAT16:
        return values.astype(np.float32)
    quant = source.quant
    if quant is None:
        raise GraphError("a quantised tensor has no scale", where=source.name)
    scale, zero = quant.scale.astype(np.float32), quant.zero_point.astype(np.int32)
    if quant.is_per_channel:
        spread = [-1 if axis == quant.axis else 1 for axis in range(values.ndim)]
        scale, zero = scale.reshape(spread), zero.reshape(spread)
    else:
        scale, zero = scale[0], zero[0]
    return np.asarray((values.astype(np.int32) - zero).astype(np.float32) * scale, np.float32)


def _evaluate_dequantize(op: Op, inputs: Arrays) -> list[np.ndarray]:
    return [dequantised(present(inputs[0]), operand(op, 0))]


register(
    OpDef(
        kind="DEQUANTIZE",
        arity=(1, 1),
        dtypes=tuple(f"{name} -> FLOAT32" for name in ("INT8", "UINT8", "INT16", "FLOAT16")),
        infer=lambda op: [TensorType(DType.FLOAT32, operand(op, 0).shape)],
        evaluate=_evaluate_dequantize,
        rules=(Rule("quantised", _has_scales, "the input needs valid scales and zero points"),),
        numerics="tolerance",
    )
)


@dataclass(frozen=True)
class CastAttrs:
    """Types as the options state them; the tensors' own types decide."""

    in_data_type: str = "FLOAT32"
    out_data_type: str = "FLOAT32"


CASTABLE = (
    *("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "UINT16", "UINT32", "BOOL"),
    *("FLOAT16", "FLOAT64", "UINT64"),
)


_COMPLEX = "COMPLEX64"


def _evaluate_cast(op: Op, inputs: Arrays) -> list[np.ndarray]:
    values, result = present(inputs[0]), op.outputs[0].dtype
    if values.dtype.kind == "c" and result is not DType.COMPLEX64:
        values = values.real
    is_float = values.dtype.kind == "f"
    if is_float and result.is_integer:
        return [truncated(values, result)]
    if result is DType.FLOAT16 and not is_float:
        values = values.astype(np.float32)
    with np.errstate(over="ignore"):
        return [values.astype(result.numpy)]


def truncated(values: np.ndarray, result: DType) -> np.ndarray:
    """Floats towards zero; what does not fit saturates and NaN gives 0 (C leaves it open)."""
    low, high = limits(result)
    whole = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0)
    inside = np.clip(whole, low, high)
    result_values = np.where(inside >= high, 0, inside).astype(result.numpy)
    return np.where(inside >= high, np.asarray(high, result.numpy), result_values)


def _decompose_cast(op: Op) -> list[Op]:
    """Of complex numbers it takes the real parts, as LiteRT's kernel does."""
    parts, result = Parts(op), op.outputs[0]
    if operand(op, 0).dtype is not DType.COMPLEX64 or result.dtype is DType.COMPLEX64:
        return []
    if result.dtype is DType.FLOAT32:
        parts.make("REAL", [operand(op, 0)], result=result)
    else:
        parts.make("CAST", [parts.make("REAL", [operand(op, 0)])], op.attrs, result)
    return parts.ops


register(
    OpDef(
        kind="CAST",
        attrs=CastAttrs,
        arity=(1, 1),
        dtypes=tuple(f"{a} -> {b}" for a in (*CASTABLE, _COMPLEX) for b in (*CASTABLE, _COMPLEX)),
        decompose=_decompose_cast,
        infer=_infer_as_declared,
        evaluate=_evaluate_cast,
        identity=always,
    )
)
