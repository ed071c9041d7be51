"""Reads the scalars of a FlexBuffers map: the form in which files store custom options."""

from __future__ import annotations

import struct

from circlet.errors import FormatError

Scalar = bool | int | float | str

_INT, _UINT, _FLOAT, _KEY, _STRING = 1, 2, 3, 4, 5
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _BOOL = 9, 26
_FLOAT_FORMATS = {2: "<e", 4: "<f", 8: "<d"}


def read_map(data: bytes) -> dict[str, Scalar]:
    """The scalar and text values of a map by key; values of other types are left out.

    Raises:
        FormatError: The bytes are no FlexBuffers map.
    """
    reader = _Reader(data)
    if len(data) < 3:
        raise reader.error("it is too short")
    width, packed = data[-1], data[-2]
    if width not in (1, 2, 4, 8) or packed >> 2 != _MAP:
        raise reader.error("its root is no map")
    return reader.map(reader.target(len(data) - 2 - width, width), 1 << (packed & 3))


class _Reader:
    """Bounds-checked reads; every position is checked before it is used."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def error(self, why: str) -> FormatError:
        return FormatError("custom options are damaged", why=why)

    def map(self, start: int, width: int) -> dict[str, Scalar]:
        count = self._unsigned(start - width, width)
        key_width = self._unsigned(start - 2 * width, width)
        if key_width not in (1, 2, 4, 8) or count * width > len(self._data):
            raise self.error("a map is larger than its bytes")
        keys = self.target(start - 3 * width, width)
        types = self._span(start + count * width, count)
        values: dict[str, Scalar] = {}
        for index, packed in enumerate(types):
            key = self._text(self.target(keys + index * key_width, key_width))
            value = self._scalar(start + index * width, width, packed)
            if value is not None:
                values[key] = value
        return values

    def target(self, at: int, width: int) -> int:
        """Where the offset stored at a position leads."""
        return at - self._unsigned(at, width)

    def _scalar(self, at: int, width: int, packed: int) -> Scalar | None:
        kind, own_width = packed >> 2, 1 << (packed & 3)
        if kind in _INDIRECT:
            return self._number(self.target(at, width), own_width, _INDIRECT[kind])
        if kind in (_STRING, _KEY):
            return self._text(self.target(at, width))
        if kind == _BOOL:
            return bool(self._unsigned(at, width))
        return self._number(at, width, kind) if kind in (_INT, _UINT, _FLOAT) else None

    def _number(self, at: int, width: int, kind: int) -> int | float:
        raw = self._span(at, width)
        if kind != _FLOAT:
            return int.from_bytes(raw, "little", signed=kind == _INT)
        if width not in _FLOAT_FORMATS:
            raise self.error(f"a number has {width} bytes")
        value: float = struct.unpack(_FLOAT_FORMATS[width], raw)[0]
        return value

    def _unsigned(self, at: int, width: int) -> int:
        return int.from_bytes(self._span(at, width), "little")

    def _span(self, at: int, size: int) -> bytes:
        if at < 0 or at + size > len(self._data):
            raise self.error(f"byte {at} lies outside its {len(self._data)} bytes")
        return self._data[at : at + size]

    def _text(self, at: int) -> str:
        self._span(at, 1)
        end = self._data.find(b"\0", at)
        return self._data[at : len(self._data) if end < 0 else end].decode("utf-8", "replace")
