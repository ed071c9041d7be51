"""Writes maps of numbers as FlexBuffers, the form of custom operators' options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

from circlet.errors import FormatError

Number = bool | int | float
_INT, _FLOAT, _STRING, _MAP, _VECTOR_INT, _BOOL = 1, 3, 5, 9, 11, 26
_WIDTH, _WIDTH_CODE = 8, 3


def flexbuffer_map(values: Mapping[str, Number | str | Sequence[int]]) -> bytes:
    """A FlexBuffers map of numbers, texts and lists of whole numbers, all 64 bits wide.

    Raises:
        FormatError: A value is of another type, or a number has more bits.
    """
    keys = sorted(values, key=str.encode)
    data, places = bytearray(), []
    for key in keys:
        places.append(len(data))
        data += key.encode() + b"\0"
    _align(data)
    slots = [_Slot.of(values[key], data) for key in keys]
    data += pack("<q", len(keys))
    key_vector = len(data)
    for place in places:
        data += pack("<q", len(data) - place)
    data += pack("<qqq", len(data) - key_vector, _WIDTH, len(keys))
    root = len(data)
    for slot in slots:
        data += slot.stored(len(data))
    data += bytes(slot.kind << 2 | _WIDTH_CODE for slot in slots)
    _align(data)
    data += pack("<q", len(data) - root)
    return bytes(data) + bytes([_MAP << 2 | _WIDTH_CODE, _WIDTH])


class _Slot:
    """One value of the map: its bytes, or where they lie."""

    def __init__(self, kind: int, inline: bytes = b"", place: int = 0) -> None:
        self.kind, self._inline, self._place = kind, inline, place

    @staticmethod
    def of(value: object, data: bytearray) -> _Slot:
        if isinstance(value, bool):
            return _Slot(_BOOL, pack("<q", value))
        if isinstance(value, int):
            return _Slot(_INT, _integers([value]))
        if isinstance(value, float):
            return _Slot(_FLOAT, pack("<d", value))
        if isinstance(value, str):
            text = value.encode()
            data += pack("<q", len(text))
            slot = _Slot(_STRING, place=len(data))
            data += text + b"\0"
            _align(data)
            return slot
        if isinstance(value, Sequence) and all(isinstance(n, int) for n in value):
            data += pack("<q", len(value))
            slot = _Slot(_VECTOR_INT, place=len(data))
            data += _integers(value)
            return slot
        raise FormatError("an option cannot be stored", why=f"{value!r} is no number or text")

    def stored(self, at: int) -> bytes:
        """What stands in the map at a place."""
        return self._inline or pack("<q", at - self._place)


def _integers(values: Sequence[int]) -> bytes:
    if any(not -(1 << 63) <= value < 1 << 63 for value in values):
        raise FormatError("an option cannot be stored", why="a number has more than 64 bits")
    return pack(f"<{len(values)}q", *values)


def _align(data: bytearray) -> None:
    data += b"\0" * (-len(data) % _WIDTH)
