"""Element types and tensors of ONNX files; elements stay views where the file allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from circlet.errors import FileError, FormatError, LimitError
from circlet.formats.onnx.skeleton import MARK
from circlet.ir import DType, Tensor
from circlet.ir.builder import constant
from circlet.ir.packed import unpacked
from circlet.limits import Limits
from circlet.stored import StoredFile
from circlet.words import counted

# By the numbers of onnx.TensorProto.DataType.
DTYPES = {
    1: DType.FLOAT32,
    2: DType.UINT8,
    3: DType.INT8,
    4: DType.UINT16,
    5: DType.INT16,
    6: DType.INT32,
    7: DType.INT64,
    9: DType.BOOL,
    10: DType.FLOAT16,
    11: DType.FLOAT64,
    12: DType.UINT32,
    13: DType.UINT64,
    14: DType.COMPLEX64,
    15: DType.COMPLEX128,
    16: DType.BFLOAT16,
    17: DType.FLOAT8_E4M3FN,
    18: DType.FLOAT8_E4M3FNUZ,
    19: DType.FLOAT8_E5M2,
    20: DType.FLOAT8_E5M2FNUZ,
    21: DType.UINT4,
    22: DType.INT4,
    23: DType.FLOAT4_E2M1FN,
    24: DType.FLOAT8_E8M0FNU,
    25: DType.UINT2,
    26: DType.INT2,
}
_OTHERS = {8: "STRING"}
_EXTERNAL = 1
# Where elements are that are stored as numbers, and their type there; others are in int32_data.
_LISTS: dict[DType, tuple[str, type[np.generic]]] = {
    DType.FLOAT32: ("float_data", np.float32),
    DType.FLOAT64: ("double_data", np.float64),
    DType.INT64: ("int64_data", np.int64),
    DType.UINT32: ("uint64_data", np.uint64),
    DType.UINT64: ("uint64_data", np.uint64),
    DType.COMPLEX64: ("float_data", np.float32),
    DType.COMPLEX128: ("double_data", np.float64),
}


def dtype_of(number: int, where: str) -> DType:
    """The element type of a number in a file.

    Raises:
        FormatError: There is no such type, or none that a tensor here can have.
    """
    found = DTYPES.get(number)
    if found is None:
        why = f"it is {_OTHERS[number]}" if number in _OTHERS else f"type {number} is not defined"
        raise FormatError("a tensor has an element type that is not read", where=where, why=why)
    return found


@dataclass
class TensorStore:
    """Where the elements of a model's tensors are: views, and files beside the model.

    Attributes:
        views: Large tensors within the file.
        folder: Where the model's file is; None for bytes, which have no files beside them.
        files: The files beside the model that were read.
    """

    views: list[memoryview]
    limits: Limits
    folder: Path | None = None
    files: dict[str, memoryview] = field(default_factory=dict)

    def tensor(self, proto: Any, where: str = "") -> Tensor:
        """A constant; its elements are a read-only view where they are stored as raw bytes.

        Raises:
            FormatError: The elements do not fit the type and the sizes.
            LimitError: It is larger than a tensor may be.
        """
        where = where or proto.name
        elements, dtype = self._stored(proto, where), dtype_of(proto.data_type, where)
        if dtype.is_small:
            return constant(proto.name, elements, dtype=dtype, shape=tuple(proto.dims))
        return constant(proto.name, elements)

    def array(self, proto: Any, where: str) -> np.ndarray:
        """The elements of a tensor; raises as `tensor`."""
        tensor = self.tensor(proto, where)
        assert tensor.data is not None
        return unpacked(tensor) if tensor.dtype.is_small else tensor.data

    def _stored(self, proto: Any, where: str) -> np.ndarray:
        """The elements, in bytes where numpy lacks their type."""
        dtype, sizes = dtype_of(proto.data_type, where), tuple(proto.dims)
        if any(size < 0 for size in sizes) or len(sizes) > self.limits.rank:
            raise FormatError("a tensor has impossible sizes", where=where, why=str(list(sizes)))
        wanted = (prod(sizes) * dtype.bits + 7) // 8
        if wanted > self.limits.tensor_bytes:
            why = f"{wanted} bytes, the limit is {self.limits.tensor_bytes}"
            raise LimitError("a tensor is larger than allowed", where=where, why=why)
        raw = self._raw(proto, wanted, where)
        if raw is None:
            return _listed(proto, dtype, sizes, where)
        if len(raw) != wanted:
            raise FormatError(
                "a tensor's elements do not fit its sizes",
                where=where,
                why=f"{len(raw)} bytes for {list(sizes)} of {dtype.name}",
            )
        if dtype.is_small:
            return np.frombuffer(raw, np.uint8)
        return np.frombuffer(raw, dtype.numpy).reshape(sizes)

    def _raw(self, proto: Any, wanted: int, where: str) -> memoryview | bytes | None:
        if proto.data_location == _EXTERNAL:
            return self._external(proto, wanted, where)
        return proto.raw_data if proto.HasField("raw_data") else None

    def _external(self, proto: Any, wanted: int, where: str) -> memoryview:
        entries = {entry.key: entry.value for entry in proto.external_data}
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), where)
        if location == MARK:
            if offset >= len(self.views):
                raise FormatError("a tensor has no elements", where=where)
            return self.views[offset]
        size = _number(entries.get("length", str(wanted)), where)
        data = self._file(location, where)
        if offset + size > len(data):
            raise FormatError(
                "a tensor's external data ends too early",
                where=where,
                why=f"bytes {offset} to {offset + size} of {len(data)} in {location}",
            )
        return data[offset : offset + size]

    def _file(self, location: str, where: str) -> memoryview:
        """A file beside the model; nothing outside of the model's folder is ever opened."""
        if location in self.files:
            return self.files[location]
        if self.folder is None:
            raise FormatError(
                "external data needs the model's file",
                where=where,
                why="the model was given as bytes, which lie in no folder",
                fix="give the path of the .onnx file",
            )
        folder = self.folder.resolve()
        path = folder if "\0" in location else (folder / location).resolve()
        if Path(location).is_absolute() or path == folder or not path.is_relative_to(folder):
            raise FormatError(
                "external data lies outside of the model's folder",
                where=where,
                why=repr(location),
                fix="put the data beside the .onnx file and name it by a relative path",
            )
        try:
            file = StoredFile(path, "the external data")
        except FileError as error:
            raise FileError(error.what, where=where, why=error.reasons, fix=error.fix) from None
        self.limits.check_file(file.size, str(path))
        self.files[location] = file.data()
        return self.files[location]


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise FormatError("a place in external data is no number", where=where, why=repr(text))
    return int(text)


def _listed(proto: Any, dtype: DType, sizes: tuple[int, ...], where: str) -> np.ndarray:
    """Elements that are stored as numbers, 16-bit floats as their bits."""
    if dtype.is_small:
        word = np.uint16 if dtype.bits == 16 else np.uint8
        values = np.array(proto.int32_data, np.int32).astype(word).view(np.uint8)
        return _as_many(values, (prod(sizes) * dtype.bits + 7) // 8, dtype, sizes, where)
    if dtype is DType.FLOAT16:
        values = np.array(proto.int32_data, np.int32).astype(np.uint16).view(np.float16)
    elif dtype in (DType.COMPLEX64, DType.COMPLEX128):
        field, part = _LISTS[dtype]
        values = np.array(getattr(proto, field), part).view(dtype.numpy)
    else:
        field, part = _LISTS.get(dtype, ("int32_data", np.int32))
        values = np.array(getattr(proto, field), part).astype(dtype.numpy, copy=False)
    return _as_many(values, prod(sizes), dtype, sizes, where).reshape(sizes)


def _as_many(
    values: np.ndarray, count: int, dtype: DType, sizes: tuple[int, ...], where: str
) -> np.ndarray:
    """The values, if there are so many."""
    if values.size == count:
        return values
    raise FormatError(
        "a tensor's elements do not fit its sizes",
        where=where,
        why=f"{counted(values.size, 'element')} for {list(sizes)} of {dtype.name}",
    )
