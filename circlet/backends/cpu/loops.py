"""How long what loops read stays needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

Span = tuple[int, int]  # first step, last step


class Loops:
    """The loops of a plan, which lie one after the other or one in another."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = sorted(spans, key=lambda span: (span[0], -span[1]))
        self._firsts = [first for first, _ in self._spans]
        self._outer: list[int] = []  # for each loop the one around it, or -1
        for number, (first, _) in enumerate(self._spans):
            self._outer.append(self._around(number - 1, first))

    def end_of(self, first: int, last: int) -> int:
        """The last step in which something is needed that steps touch from `first` to `last`.

        What is made before a loop and read in it is read again in the next turn: it lives until
        the loop ends, not only to the last step that names it.
        """
        number = self._around(bisect_right(self._firsts, last) - 1, last)
        while number >= 0 and first < self._spans[number][0]:
            last = max(last, self._spans[number][1])
            number = self._outer[number]
        return last

    def _around(self, number: int, step: int) -> int:
        """The innermost loop around a step, looked for from one that starts before it."""
        while number >= 0 and self._spans[number][1] < step:
            number = self._outer[number]
        return number
