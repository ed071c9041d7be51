"""Casts between all element types of ONNX, with saturation, and bytes as another type."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.errors import InputError
from circlet.ops.onnx.record import OnnxAttrs, onnx_kind, same
from circlet.small_dtypes import SMALL_BITS, small_dtype

Array = np.ndarray

# By the numbers of onnx.TensorProto.DataType.
TYPE_NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}
_SATURATED = frozenset({"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"})
_SCALE = "float8_e8m0fnu"
_NO_NUMBER, _LARGEST_EXPONENT = 0xFF, 0xFE


def numpy_type(number: int) -> np.dtype[np.generic]:
    """The dtype of a type's number in ONNX.

    Raises:
        InputError: It is a type of ml_dtypes, and that is not installed.
    """
    name = TYPE_NAMES[number]
    if name.upper() not in SMALL_BITS:
        return np.dtype(name)
    found = small_dtype(name)
    if found is None:
        fix = "pip install ml_dtypes"
        raise InputError("a network has elements of a type that numpy lacks", why=name, fix=fix)
    return found


def is_small(dtype: Any) -> bool:
    """Whether a dtype is one of ml_dtypes."""
    return np.dtype(dtype).name.upper() in SMALL_BITS


def is_small_float(dtype: Any) -> bool:
    """Whether a dtype is a float of ml_dtypes."""
    return is_small(dtype) and "float" in np.dtype(dtype).name


def integer_limits(dtype: Any) -> tuple[int, int]:
    """Least and greatest value of an integer type, those of ml_dtypes included."""
    wanted = np.dtype(dtype)
    bits = SMALL_BITS.get(wanted.name.upper())
    if bits is None:
        limits = np.iinfo(wanted)
        return int(limits.min), int(limits.max)
    if wanted.name.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def narrowed(x: Array, dtype: Any, saturate: bool = True) -> Array:
    """Floats as a smaller float type; at its limits, if asked, where they lie beyond."""
    wanted = np.dtype(dtype)
    if not saturate or wanted.name not in _SATURATED:
        return np.asarray(x.astype(wanted))
    import ml_dtypes

    largest = float(ml_dtypes.finfo(wanted).max)  # type: ignore[no-untyped-call]
    return np.asarray(np.clip(x.astype(np.float32), -largest, largest).astype(wanted))


def _scales(x: Array, saturate: bool, mode: str) -> Array:
    """Powers of two: exponents of float32, rounded up, down or to the nearest."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    is_number = exponent < _NO_NUMBER
    if mode == "up":
        more = fraction > 0
    else:  # from one half on; the half itself is even where there is no exponent
        half = 1 << 22
        more = (fraction > half) | ((fraction == half) & (exponent > 0))
        more &= mode == "nearest"
    if saturate:
        more &= exponent < _LARGEST_EXPONENT
    made = np.where(is_number, exponent + more, _NO_NUMBER).astype(np.uint8)
    return made.view(numpy_type(24))


def cast(attrs: OnnxAttrs, x: Array, wanted: np.dtype[np.generic]) -> Array:
    """`x` as a type."""
    saturate = bool(attrs.get("saturate", 1))
    if wanted.name == _SCALE:
        return _scales(x, saturate, attrs.get("round_mode", "up"))
    if is_small_float(wanted):
        return narrowed(x, wanted, saturate)
    if is_small(x.dtype):
        return np.asarray(x.astype(np.float32).astype(wanted))
    return np.asarray(x.astype(wanted))


onnx_kind("Cast", lambda attrs, x: cast(attrs, x, numpy_type(attrs.get("to"))), infer=same)
onnx_kind("CastLike", lambda attrs, x, like: cast(attrs, x, like.dtype), infer=same, inputs=(2, 2))
onnx_kind("BitCast", lambda attrs, x: x.view(numpy_type(attrs.get("to"))), infer=same)
