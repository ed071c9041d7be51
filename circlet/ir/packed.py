"""Constants of types that are smaller than a byte, or that numpy lacks: arrays and stored bytes.

The first element of a byte is in its lowest bits, as ONNX and TFLite store them.
"""

from __future__ import annotations

import numpy as np

from circlet.errors import FormatError
from circlet.ir.dtype import DType
from circlet.ir.graph import Tensor


def packed(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The stored bytes of an array of a type of ml_dtypes."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if dtype.bits >= 8:
        return flat.view(np.uint8)
    each = 8 // dtype.bits
    codes = flat.view(np.uint8) & ((1 << dtype.bits) - 1)
    codes = np.pad(codes, (0, -codes.size % each)).reshape(-1, each)
    shifts = np.arange(each, dtype=np.uint8) * dtype.bits
    return np.bitwise_or.reduce(codes << shifts, axis=1).astype(np.uint8)


def unpacked(tensor: Tensor) -> np.ndarray:
    """The elements of a constant whose type ml_dtypes has, as an array of it.

    Raises:
        FormatError: The bytes are too few, or ml_dtypes is not installed.
    """
    dtype = tensor.dtype.in_arrays
    raw, count = np.asarray(tensor.data, np.uint8).reshape(-1), tensor.elements
    if dtype is None or raw.size < tensor.size_bytes:
        raise FormatError(
            "the elements of a constant cannot be read",
            where=tensor.name,
            why="it has too few bytes" if dtype else f"{tensor.dtype.name} needs ml_dtypes",
            fix="pip install ml_dtypes" if dtype is None else "",
        )
    if tensor.dtype.bits >= 8:
        return raw[: tensor.size_bytes].view(dtype).reshape(tensor.static_shape)
    bits = tensor.dtype.bits
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    codes = ((raw[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if tensor.dtype.name.startswith("INT"):  # as ml_dtypes holds them: the sign reaches all bits
        codes = ((codes.astype(np.int8) << (8 - bits)) >> (8 - bits)).view(np.uint8)
    return codes.astype(np.uint8).view(dtype).reshape(tensor.static_shape)
