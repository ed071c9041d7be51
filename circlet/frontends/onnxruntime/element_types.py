"""Element types in the words of ONNX, by numpy's types and by ONNX's numbers."""

from __future__ import annotations

import numpy as np

from circlet.errors import InputError
from circlet.formats.onnx.header import ELEMENTS
from circlet.frontends.builtin_errors import also

_NUMPY = {
    "float": np.float32,
    "double": np.float64,
    **{name: getattr(np, name) for name in ("float16", "complex64", "complex128")},
    **{f"int{bits}": np.dtype(f"int{bits}").type for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": np.dtype(f"uint{bits}").type for bits in (8, 16, 32, 64)},
    "bool": np.bool_,
}
_NAMES = {np.dtype(kind): name for name, kind in _NUMPY.items()}
_OTHER_BITS = {"bfloat16": np.uint16, "float8e4m3fn": np.uint8, "float8e4m3fnuz": np.uint8}
_OTHER_BITS |= {"float8e5m2": np.uint8, "float8e5m2fnuz": np.uint8, "float8e8m0": np.uint8}


def element_of(dtype: np.dtype) -> str:
    """ONNX's word for a numpy type; texts and objects are "string".

    Raises:
        RuntimeError: ONNX has no such type.
    """
    if dtype.kind in "OUSVT":
        return "string"
    found = _NAMES.get(dtype.newbyteorder("="))
    if found is None:
        error = InputError("ONNX has no such element type", where=str(dtype))
        raise also(error, RuntimeError, f"Numpy_type {dtype} can't be converted to MLDataType.")
    return found


def dtype_of(element: str) -> np.dtype | None:
    """The numpy type of ONNX's word; None where numpy has none."""
    kind = np.object_ if element == "string" else _NUMPY.get(element)
    return None if kind is None else np.dtype(kind)


def bits_of(element: str) -> np.dtype | None:
    """The numpy type that has as many bits as ONNX's, for types that numpy lacks as well."""
    other = _OTHER_BITS.get(element)
    return dtype_of(element) if other is None else np.dtype(other)


def element_number(element: str) -> int:
    """The number of onnx.TensorProto.DataType of ONNX's word."""
    return ELEMENTS.index(element)


def element_named(kind: object) -> str:
    """ONNX's word for a numpy type or one of ONNX's numbers.

    Raises:
        RuntimeError: ONNX has no such type.
    """
    if not isinstance(kind, int):
        return element_of(np.dtype(kind))  # type: ignore[call-overload]
    if not 0 < kind < len(ELEMENTS):
        error = InputError("ONNX has no element type of this number", where=str(kind))
        raise also(error, RuntimeError, f"Not a valid ONNX Tensor data type: {kind}")
    return ELEMENTS[kind]
