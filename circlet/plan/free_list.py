"""Free memory of an arena, in order of addresses."""

from __future__ import annotations

from bisect import bisect_right
from sys import maxsize

_MOST_IN_CHUNK = 128
Hole = tuple[int, int]  # first byte, byte behind the last


class FreeList:
    """Holes between what is taken; behind all that ever was, there is no end of memory.

    They are kept in chunks whose largest hole is known, so that finding the first that is large
    enough looks at few of them, however many there are.

    Args:
        unit: What all addresses that are asked for will be multiples of.
    """

    def __init__(self, unit: int) -> None:
        self._unit = unit
        self._chunks: list[list[Hole]] = [[(0, maxsize)]]
        self._largest = [maxsize]

    def take(self, size_bytes: int, alignment: int) -> int:
        """The lowest aligned address with as many free bytes, which are free no more."""
        for number, largest in enumerate(self._largest):
            found = self._find(number, size_bytes, alignment) if largest >= size_bytes else None
            if found is None:
                continue
            place, at = found
            first, stop = self._chunks[number][place]
            rest = [(a, b) for a, b in ((first, at), (at + size_bytes, stop)) if a < b]
            self._chunks[number][place : place + 1] = rest
            self._update(number)
            return at
        raise AssertionError("the last hole has no end")

    def give(self, first: int, stop: int) -> None:
        """Have bytes that were taken free again."""
        number = max(0, bisect_right(self._chunks, first, key=lambda chunk: chunk[0][0]) - 1)
        chunk = self._chunks[number]
        place = bisect_right(chunk, (first, first))
        if place < len(chunk) and chunk[place][0] == stop:
            stop = chunk.pop(place)[1]
        elif place == len(chunk) and self._next_starts_at(number + 1, stop):
            stop = self._chunks[number + 1].pop(0)[1]
            self._update(number + 1)
        if place and chunk[place - 1][1] == first:
            place -= 1
            first = chunk.pop(place)[0]
        chunk.insert(place, (first, stop))
        self._update(number)

    def _find(self, number: int, size_bytes: int, alignment: int) -> tuple[int, int] | None:
        """The first hole of a chunk that is large enough, and the aligned address in it."""
        for place, (first, stop) in enumerate(self._chunks[number]):
            at = -(-first // alignment) * alignment
            if at + size_bytes <= stop:
                return place, at
        return None

    def _next_starts_at(self, number: int, address: int) -> bool:
        return number < len(self._chunks) and self._chunks[number][0][0] == address

    def _update(self, number: int) -> None:
        """After a change of a chunk: drop it where it is empty, halve it where it is long."""
        chunk, middle = self._chunks[number], _MOST_IN_CHUNK // 2
        halves = [chunk[:middle], chunk[middle:]] if len(chunk) > _MOST_IN_CHUNK else [chunk]
        kept = [half for half in halves if half]
        self._chunks[number : number + 1] = kept
        self._largest[number : number + 1] = [max(map(self._room, half)) for half in kept]

    def _room(self, hole: Hole) -> int:
        """The bytes of a hole from its first usable address on."""
        first, stop = hole
        return stop - -(-first // self._unit) * self._unit
