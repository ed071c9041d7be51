"""Element types of tensors, named as Circle and TFLite name them."""

from __future__ import annotations

from enum import Enum

import numpy as np

from circlet.small_dtypes import SMALL_BITS, small_dtype

_NUMPY_NAMES = frozenset(
    f"{kind}{bits}"
    for kind, sizes in {
        "float": (16, 32, 64),
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
        "complex": (64, 128),
    }.items()
    for bits in sizes
) | {"bool"}


class DType(Enum):
    """One element type; the value is its name in the file schemas.

    Attributes:
        bits: Bits per element; 0 where the size is not fixed (strings, handles, block formats).
        is_float: Whether elements are real floating-point numbers.
        is_integer: Whether elements are plain integers, packed ones included; not booleans.
    """

    FLOAT32 = "FLOAT32"
    FLOAT16 = "FLOAT16"
    FLOAT64 = "FLOAT64"
    BFLOAT16 = "BFLOAT16"
    FLOAT8_E4M3FN = "FLOAT8_E4M3FN"
    FLOAT8_E4M3FNUZ = "FLOAT8_E4M3FNUZ"
    FLOAT8_E5M2 = "FLOAT8_E5M2"
    FLOAT8_E5M2FNUZ = "FLOAT8_E5M2FNUZ"
    FLOAT8_E8M0FNU = "FLOAT8_E8M0FNU"
    FLOAT4_E2M1FN = "FLOAT4_E2M1FN"
    INT2 = "INT2"
    INT4 = "INT4"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    UINT2 = "UINT2"
    UINT4 = "UINT4"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    BOOL = "BOOL"
    COMPLEX64 = "COMPLEX64"
    COMPLEX128 = "COMPLEX128"
    STRING = "STRING"
    RESOURCE = "RESOURCE"
    VARIANT = "VARIANT"
    GGML_Q4_0 = "GGML_Q4_0"
    GGML_Q4_1 = "GGML_Q4_1"
    GGML_Q8_0 = "GGML_Q8_0"
    GGML_Q8_1 = "GGML_Q8_1"
    MXFP4 = "MXFP4"
    MXINT8 = "MXINT8"

    def __init__(self, name: str) -> None:
        self._numpy = np.dtype(name.lower()) if name.lower() in _NUMPY_NAMES else None
        itemsize = self._numpy.itemsize if self._numpy else 0
        self.bits = itemsize * 8 or SMALL_BITS.get(name, 0)
        self.is_float = "FLOAT" in name
        self.is_integer = name.startswith(("INT", "UINT"))

    __hash__ = object.__hash__  # Members are equal only to themselves; Enum's is far slower.

    @property
    def has_numpy(self) -> bool:
        """Whether one numpy element holds one tensor element."""
        return self._numpy is not None

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy dtype; TypeError where `has_numpy` is false."""
        if self._numpy is None:
            raise TypeError(f"{self.name} has no numpy dtype")
        return self._numpy

    @property
    def is_small(self) -> bool:
        """Whether it is one of the types that numpy has from the package ml_dtypes."""
        return self.value in SMALL_BITS

    @property
    def in_arrays(self) -> np.dtype[np.generic] | None:
        """The dtype of arrays that hold such values in a run; strings are objects, of `bytes`.

        None for handles and blocks, and for types of ml_dtypes where that is not installed.
        """
        if self is DType.STRING:
            return np.dtype(object)
        if self.is_small:
            return small_dtype(self.name)
        return self.numpy if self.has_numpy else None

    @staticmethod
    def of(array: np.ndarray) -> DType:
        """The element type of a numpy array; ValueError for a type no schema knows."""
        return DType(array.dtype.name.upper())
