"""Reads FlexBuffers, the self-describing form in which TFLite stores options of custom operators.

Every read is checked against the bytes, and depth and number of values are bounded, so hostile
bytes end in a FormatError.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack_from

from circlet.errors import FormatError, check_type

Scalar = bool | int | float | str
Value = None | bool | int | float | str | bytes | list["Value"] | dict[str, "Value"]

_MOST_DEPTH = 32
_MOST_VALUES = 1 << 16
_NULL, _INT, _UINT, _FLOAT, _KEY, _STRING = range(6)
_INDIRECT_INT, _INDIRECT_UINT, _INDIRECT_FLOAT, _MAP, _VECTOR = range(6, 11)
_BLOB, _BOOL, _VECTOR_BOOL = 25, 26, 36
_INDIRECT = {_INDIRECT_INT: _INT, _INDIRECT_UINT: _UINT, _INDIRECT_FLOAT: _FLOAT}
_VECTORS = {11: _INT, 12: _UINT, 13: _FLOAT, 14: _KEY, 15: _STRING, _VECTOR_BOOL: _BOOL}
# Vectors of two, three or four numbers carry no length.
_TUPLES = {16 + 3 * (size - 2) + kind: (size, kind + 1) for size in (2, 3, 4) for kind in range(3)}
_INTEGER_CODES = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOAT_CODES = {2: "e", 4: "f", 8: "d"}


def read_map(data: bytes) -> dict[str, Scalar]:
    """The scalar and text values of a map by key; values of other types are left out.

    Raises:
        FormatError: The bytes are no FlexBuffers map.
    """
    values = flexbuffer(data)
    if not isinstance(values, dict):
        raise _damaged("its root is no map")
    return {key: value for key, value in values.items() if isinstance(value, Scalar)}


def flexbuffer(data: bytes) -> Value:
    """The value that the bytes hold: a map is a dict, a vector a list; None for no bytes.

    Raises:
        FormatError: The bytes are no FlexBuffers value.
    """
    if not data:
        return None
    check_type(data, bytes | bytearray | memoryview, "data", "the option bytes of an operator")
    if len(data) < 3:
        raise _damaged("it ends before its root")
    root = _Place(len(data) - 2 - data[-1], data[-1], data[-2])
    return _Reader(bytes(data)).value(root, 0)


@dataclass(frozen=True)
class _Place:
    """Where a value is, how wide it or its offset is there, and its type byte."""

    at: int
    width: int
    packed: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._values_left = _MOST_VALUES

    def value(self, place: _Place, depth: int) -> Value:
        self._charge(depth)
        kind, width = place.packed >> 2, 1 << (place.packed & 3)
        if kind in (_NULL, _INT, _UINT, _FLOAT, _BOOL):
            return self._scalar(kind, place.at, place.width)
        at = place.at - self._unsigned(place.at, place.width)
        if kind in _INDIRECT:
            return self._scalar(_INDIRECT[kind], at, width)
        if kind == _KEY:
            return self._key(at)
        if kind in (_STRING, _BLOB):
            return self._text(at, width, kind)
        if kind == _MAP:
            return self._map(at, width, depth)
        return self._list(kind, at, width, depth)

    def _list(self, kind: int, at: int, width: int, depth: int) -> list[Value]:
        if kind in _TUPLES:
            count, element = _TUPLES[kind]
            return self._typed(element, at, width, count, depth)
        count = self._unsigned(at - width, width)
        if kind in _VECTORS:
            return self._typed(_VECTORS[kind], at, width, count, depth)
        if kind != _VECTOR:
            raise _damaged(f"type {kind} is unknown")
        return self._mixed(at, width, count, depth)

    def _mixed(self, at: int, width: int, count: int, depth: int) -> list[Value]:
        """Elements whose types follow them, one byte each."""
        types = self._bytes(at + count * width, count)
        return [
            self.value(_Place(at + index * width, width, packed), depth + 1)
            for index, packed in enumerate(types)
        ]

    def _typed(self, kind: int, at: int, width: int, count: int, depth: int) -> list[Value]:
        self._bytes(at, count * width)
        places = (_Place(at + index * width, width, kind << 2) for index in range(count))
        return [self.value(place, depth + 1) for place in places]

    def _map(self, at: int, width: int, depth: int) -> dict[str, Value]:
        count = self._unsigned(at - width, width)
        keys_at = at - 3 * width
        keys_at -= self._unsigned(keys_at, width)
        keys_width = self._unsigned(at - 2 * width, width)
        keys = self._typed(_KEY, keys_at, keys_width, count, depth)
        return dict(zip(map(str, keys), self._mixed(at, width, count, depth), strict=True))

    def _scalar(self, kind: int, at: int, width: int) -> Value:
        if kind == _NULL:
            return None
        if kind == _FLOAT:
            number: float = unpack_from(f"<{_code(_FLOAT_CODES, width)}", self._bytes(at, width))[0]
            return number
        if kind == _INT:
            signed: int = unpack_from(f"<{_code(_INTEGER_CODES, width)}", self._bytes(at, width))[0]
            return signed
        unsigned = self._unsigned(at, width)
        return bool(unsigned) if kind == _BOOL else unsigned

    def _text(self, at: int, width: int, kind: int) -> str | bytes:
        data = self._bytes(at, self._unsigned(at - width, width))
        return data if kind == _BLOB else _decoded(data)

    def _key(self, at: int) -> str:
        end = self._data.find(b"\0", max(at, 0))
        return _decoded(self._bytes(at, end - at))

    def _unsigned(self, at: int, width: int) -> int:
        _code(_INTEGER_CODES, width)
        return int.from_bytes(self._bytes(at, width), "little")

    def _bytes(self, at: int, count: int) -> bytes:
        if at < 0 or count < 0 or at + count > len(self._data):
            raise _damaged(f"byte {at + count} of {len(self._data)} is read")
        return self._data[at : at + count]

    def _charge(self, depth: int) -> None:
        self._values_left -= 1
        if depth > _MOST_DEPTH or self._values_left < 0:
            raise _damaged("it is nested too deeply or has too many values")


def _code(codes: dict[int, str], width: int) -> str:
    if width not in codes:
        raise _damaged(f"a number is {width} bytes wide")
    return codes[width]


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _damaged(str(error)) from None


def _damaged(why: str) -> FormatError:
    return FormatError("custom options are damaged", why=why)
