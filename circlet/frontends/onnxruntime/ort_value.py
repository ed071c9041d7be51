"""`OrtValue`: an input or an output as an object, over memory that it shares with numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from circlet.errors import InputError
from circlet.frontends.builtin_errors import also
from circlet.frontends.onnxruntime.devices import check_is_cpu
from circlet.frontends.onnxruntime.element_types import (
    bits_of,
    element_named,
    element_number,
    element_of,
)


class OrtValue:
    """A tensor, or a sequence of tensors; the functions below make one."""

    def __init__(self, value: Any, element: str) -> None:
        self._value, self._element = value, element

    @classmethod
    def ortvalue_from_numpy(
        cls, numpy_obj: np.ndarray, /, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """The value of an array, whose memory it shares where that is contiguous.

        Raises:
            RuntimeError: It is no array of numbers, or is wanted on another device.
        """
        check_is_cpu(device_type, device_id)
        if not isinstance(numpy_obj, np.ndarray) or element_of(numpy_obj.dtype) == "string":
            error = InputError.mistyped("the value", numpy_obj, "a numpy array of numbers")
            sentence = "Creation of OrtValues is currently only supported from non-string"
            raise also(error, RuntimeError, f"{sentence} numpy arrays")
        return cls(np.require(numpy_obj, requirements="C"), element_of(numpy_obj.dtype))

    @classmethod
    def ortvalue_from_numpy_with_onnx_type(
        cls, data: np.ndarray, /, onnx_element_type: int
    ) -> OrtValue:
        """The value of an array whose bits are elements of the type of this number.

        Raises:
            RuntimeError: There is no such type, or its elements have another size.
        """
        element = element_named(onnx_element_type)
        bits = bits_of(element)
        if bits is None or bits.itemsize != data.dtype.itemsize:
            error = InputError("the array's elements have another size", where=element)
            raise also(error, RuntimeError, f"Items size in the incoming array: {data.itemsize}")
        return cls(np.require(data, requirements="C"), element)

    @classmethod
    def ortvalue_from_shape_and_type(
        cls,
        shape: Sequence[int],
        element_type: object,
        device_type: str = "cpu",
        device_id: int = 0,
    ) -> OrtValue:
        """A tensor whose contents are undefined.

        Args:
            shape: Its sizes.
            element_type: A numpy type, or a number of onnx.TensorProto.DataType.
            device_type, device_id: The CPU.

        Raises:
            RuntimeError: There is no such type or device.
        """
        check_is_cpu(device_type, device_id)
        element = element_named(element_type)
        bits = bits_of(element)
        if bits is None or element == "string":
            error = InputError("tensors of this type cannot be made", where=element)
            raise also(error, RuntimeError, "Creation of OrtValues of this type is not supported")
        return cls(np.empty(tuple(shape), bits), element)

    @classmethod
    def from_dlpack(cls, data: Any, /) -> OrtValue:
        """The value of whatever offers its memory through DLPack; it is shared."""
        return cls.ortvalue_from_numpy(np.from_dlpack(data))

    @classmethod
    def of(cls, value: Any) -> OrtValue:
        """The value of an output."""
        if isinstance(value, np.ndarray):
            return cls(value, element_of(value.dtype))
        first = value[0] if isinstance(value, list) and value else None
        return cls(value, element_of(first.dtype) if isinstance(first, np.ndarray) else "float")

    def numpy(self) -> np.ndarray:
        """The tensor as an array that shares its memory.

        Raises:
            RuntimeError: It is no tensor.
        """
        if not self.is_tensor():
            error = InputError("the value is no tensor", where=self.data_type())
            raise also(error, RuntimeError, "Only OrtValues that are Tensors are supported")
        array: np.ndarray = self._value
        return array

    def held(self) -> Any:
        """What it holds: an array, or a list of arrays."""
        return self._value

    def update_inplace(self, np_arr: np.ndarray) -> None:
        """Write other elements; RuntimeError where their type, or how many they are, differs."""
        array = self.numpy()
        if np_arr.size != array.size:
            error = InputError("the array has another size", why=f"{np_arr.shape}, {array.shape}")
            sentence = "The input size of numpy arrays does not match the size of the OrtValue."
            raise also(error, RuntimeError, sentence)
        if np_arr.dtype != array.dtype:
            error = InputError("the array has another type", why=f"{np_arr.dtype}, {array.dtype}")
            raise also(error, RuntimeError, "The type of the numpy array does not match.")
        array[...] = np_arr.reshape(array.shape)

    def shape(self) -> list[int]:
        """Its sizes."""
        return list(self.numpy().shape)

    def data_type(self) -> str:
        """Its type, such as "tensor(float)"."""
        text = f"tensor({self._element})"
        return text if self.is_tensor() else f"seq({text})"

    def element_type(self) -> int:
        """The number of onnx.TensorProto.DataType of its elements."""
        return element_number(self._element)

    def device_name(self) -> str:
        """The CPU's: "cpu"."""
        return "cpu"

    def data_ptr(self) -> int:
        """The address of its first element."""
        return int(self.numpy().ctypes.data)

    def tensor_size_in_bytes(self) -> int:
        """How many bytes its elements take."""
        return int(self.numpy().nbytes)

    def has_value(self) -> bool:
        """Whether it is not the absent value of an optional type."""
        return self._value is not None

    def is_tensor(self) -> bool:
        """Whether it is a tensor."""
        return isinstance(self._value, np.ndarray)

    def is_sparse_tensor(self) -> bool:
        """Whether it is a sparse tensor; never here."""
        return False

    def is_tensor_sequence(self) -> bool:
        """Whether it is a sequence of tensors."""
        return isinstance(self._value, list)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype, copy=copy)

    def __dlpack__(self, *, stream: object = None) -> Any:
        return self.numpy().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
