"""The rules every tensor keeps: sizes, constant data and quantisation parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.ir.dtype import DType
from circlet.ir.graph import Tensor
from circlet.ir.quant import Quantization


@dataclass(frozen=True)
class TensorRule:
    """One condition on a tensor."""

    name: str
    holds: Callable[[Tensor], bool]
    message: str


def broken_rule(tensor: Tensor) -> TensorRule | None:
    """The first rule that a tensor breaks, or None."""
    return next((rule for rule in TENSOR_RULES if not rule.holds(tensor)), None)


def integer_range(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of a plain integer type."""
    if dtype.name.startswith("U"):
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _sizes_hold(tensor: Tensor) -> bool:
    return all(size is None or size >= 0 for size in tensor.shape)


def _default_holds(tensor: Tensor) -> bool:
    default = tensor.default_shape
    if default is None:
        return True
    pairs = zip(tensor.shape, default, strict=False)
    return len(default) == len(tensor.shape) and all(size in (None, given) for size, given in pairs)


def _constant_is_static(tensor: Tensor) -> bool:
    return not tensor.is_constant or None not in tensor.shape


def _constant_fits(tensor: Tensor) -> bool:
    data = tensor.data
    if data is None or tensor.sparsity is not None:
        return True
    if tensor.dtype.has_numpy:
        return data.dtype == tensor.dtype.numpy and data.shape == tensor.shape
    fixed = tensor.dtype.bits > 0
    return data.dtype == np.uint8 and (not fixed or data.nbytes == tensor.size_bytes)


def _affine(tensor: Tensor) -> Quantization | None:
    """Quantisation with scales, else None."""
    return tensor.quant if tensor.quant is not None and tensor.quant.is_affine else None


def _quant_sizes_hold(tensor: Tensor) -> bool:
    quant = tensor.quant
    return quant is None or (quant.scale.ndim == 1 and quant.zero_point.shape == quant.scale.shape)


def _axis(tensor: Tensor) -> int | None:
    """The axis along which scales run, None where there is one scale or the rank is open.

    A list has one axis whatever its parameters say: TensorFlow Lite for Microcontrollers' models
    repeat the axis of the weights on the bias.
    """
    quant = _affine(tensor)
    if quant is None or not quant.is_per_channel or not tensor.has_rank:
        return None
    return 0 if len(tensor.shape) == 1 else quant.axis


def _axis_holds(tensor: Tensor) -> bool:
    axis = _axis(tensor)
    return axis is None or 0 <= axis < len(tensor.shape)


def _channels_hold(tensor: Tensor) -> bool:
    axis, quant = _axis(tensor), _affine(tensor)
    return axis is None or quant is None or tensor.shape[axis] in (None, quant.scale.size)


def _scale_holds(tensor: Tensor) -> bool:
    quant = _affine(tensor)
    if quant is None or not tensor.dtype.is_integer:
        return True
    positive = quant.scale >= 0 if tensor.is_constant else quant.scale > 0
    return bool(np.all(np.isfinite(quant.scale) & positive))


def _zero_point_holds(tensor: Tensor) -> bool:
    quant = _affine(tensor)
    if quant is None or not tensor.dtype.is_integer:
        return True
    least, greatest = integer_range(tensor.dtype)
    if tensor.dtype.bits == 8:
        least, greatest = -128, 255  # converters write one for the other, and LiteRT runs it
    return all(
        least <= int(zero) <= greatest for zero in (quant.zero_point.min(), quant.zero_point.max())
    )


TENSOR_RULES: tuple[TensorRule, ...] = (
    TensorRule("sizes", _sizes_hold, "a tensor has a negative size"),
    TensorRule("default-shape", _default_holds, "a tensor's default shape contradicts its shape"),
    TensorRule("constant-static", _constant_is_static, "a constant has an unknown size"),
    TensorRule(
        "constant-data", _constant_fits, "a constant's data does not fit its type and shape"
    ),
    TensorRule(
        "constant-variable",
        lambda tensor: not (tensor.is_constant and tensor.is_variable),
        "a variable tensor has constant data",
    ),
    TensorRule(
        "variable-rank",
        lambda tensor: tensor.has_rank or not tensor.is_variable,
        "a variable tensor has no rank",
    ),
    TensorRule(
        "variable-type",
        lambda tensor: tensor.dtype is not DType.STRING or not tensor.is_variable,
        "a variable tensor holds strings",
    ),
    TensorRule("quant-sizes", _quant_sizes_hold, "a tensor has not one zero point for each scale"),
    TensorRule("quant-axis", _axis_holds, "a quantisation axis is not a dimension of its tensor"),
    TensorRule(
        "quant-channels", _channels_hold, "a tensor has not one scale for each index of its axis"
    ),
    TensorRule("quant-scale", _scale_holds, "a quantisation scale is not finite and positive"),
    TensorRule("quant-zero-point", _zero_point_holds, "a zero point is outside its tensor's type"),
)
