"""`TensorBuffer`: the memory of an input or output of a `CompiledModel`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also

# What LiteRT's buffers exchange with numpy; others are taken where they are the buffer's own.
_NAMES = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32"}
    | {"bool", "int8", "int32", "uint8"}
)


class TensorBuffer:
    """Memory that is written before a run, or read after it.

    `CompiledModel.create_input_buffers` and its like make such buffers, and
    `create_from_host_memory` has one share an array of the caller's.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array: np.ndarray | None = array

    @classmethod
    def create_from_host_memory(cls, data_array: np.ndarray) -> TensorBuffer:
        """A buffer that shares the memory of an array, without a copy.

        Raises:
            ValueError: It is no array, not contiguous, or its elements are of another kind.
        """
        array = _checked_array(data_array)
        _check_name(array.dtype, array.dtype)
        if not array.flags.c_contiguous:
            error = InputError("an array is not C-contiguous", fix="pass np.ascontiguousarray")
            sentence = "data_array must be C-contiguous for zero-copy host-memory binding"
            raise also(error, ValueError, sentence)
        return cls(array.reshape(-1))

    def write(self, data_array: np.ndarray) -> None:
        """Copy an array's elements to the start of the buffer.

        Raises:
            ValueError: It is no array, or its elements are not the buffer's.
            RuntimeError: It is larger than the buffer, or the buffer is destroyed or read-only.
        """
        array = _checked_array(data_array)
        own = self._memory("WriteTensorBuffer")
        _check_name(array.dtype, array.dtype, own.dtype)
        if array.nbytes > own.nbytes:
            raise _too_large(array.nbytes, own, "WriteTensorBuffer: source")
        if not own.flags.writeable:
            raise also(InputError("a buffer is read-only"), RuntimeError)
        _bytes_of(own)[: array.nbytes] = _bytes_of(np.ascontiguousarray(array))

    def read(self, num_elements: int, output_dtype: npt.DTypeLike) -> np.ndarray:
        """A copy of the first elements, in one dimension.

        Raises:
            ValueError: The elements asked for are not the buffer's, or fewer than none.
            RuntimeError: The buffer has fewer of them, or is destroyed.
        """
        own = self._memory("ReadTensorToBuffer")
        try:
            dtype = np.dtype(output_dtype)
        except TypeError as error:
            raise _unsupported(output_dtype) from error
        _check_name(dtype, output_dtype, own.dtype)
        result = np.empty(num_elements, dtype)
        if result.nbytes > own.nbytes:
            raise _too_large(result.nbytes, own, "ReadTensorToBuffer: destination")
        _bytes_of(result)[:] = _bytes_of(own)[: result.nbytes]
        return result

    def get_tensor_details(self) -> dict[str, object]:
        """The buffer's `dtype`, as a name, and its `shape`, as a list."""
        own = self._memory("GetTensorDetails")
        return {"dtype": own.dtype.name, "shape": list(own.shape)}

    def destroy(self) -> None:
        """Let go of the memory; the buffer is of no use any more."""
        self._array = None

    @property
    def capsule(self) -> np.ndarray:
        """The memory, as an array; ValueError where the buffer is destroyed."""
        if self._array is None:
            error = InputError("a buffer is destroyed", fix="make another one")
            raise also(error, ValueError, "TensorBuffer has been destroyed")
        return self._array

    def _memory(self, caller: str) -> np.ndarray:
        if self._array is None:
            error = InputError("a buffer is destroyed", fix="make another one")
            raise also(error, RuntimeError, f"{caller}: invalid capsule")
        return self._array


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, in place."""
    return array.reshape(-1).view(np.uint8)


def _checked_array(given: object) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        error = InputError.mistyped("data_array", given, "a numpy array")
        raise also(error, ValueError, "data_array must be a NumPy array")
    return given


def _check_name(dtype: np.dtype, given: object, own: np.dtype | None = None) -> None:
    """ValueError unless elements are the buffer's, raw bytes, or parts of its integers."""
    if own is not None and dtype == own:
        return
    whole = own is not None and own.kind in "iub" and dtype.kind in "iub"
    if dtype.name in _NAMES and (own is None or whole or dtype.itemsize == 1):
        return
    raise _unsupported(given, own)


def _unsupported(given: object, own: np.dtype | None = None) -> Exception:
    why = "" if own is None else f"the buffer holds {own}"
    fix = "" if own is None else f"pass or read {own}; raw bytes as uint8"
    error = InputError("elements are not those of the buffer", where=str(given), why=why, fix=fix)
    return also(error, ValueError, f"Unsupported dtype: {given}")


def _too_large(nbytes: int, own: np.ndarray, what: str) -> Exception:
    error = InputError(
        "an array is larger than the buffer",
        why=f"it has {nbytes} bytes; the buffer, {own.dtype} {list(own.shape)}, has {own.nbytes}",
    )
    return also(error, RuntimeError, f"{what} buffer is larger than the tensor buffer")
