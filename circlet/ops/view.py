"""Outputs that repeat elements of an input: what moves elements, or only names them anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from circlet.ir import Op, Shape


@dataclass(frozen=True)
class Range:
    """Elements start, start + step, ... of one axis, `count` of them (None while unknown)."""

    start: int
    count: int | None
    step: int = 1

    def fits(self, size: int) -> bool:
        """Whether every element lies within an axis of `size`."""
        if self.count is None:
            return False
        last = self.start + (self.count - 1) * self.step
        return self.count == 0 or (0 <= self.start < size and 0 <= last < size)


class View(NamedTuple):
    """Elements of an input that an output repeats in their order, whatever sizes it has.

    Attributes:
        source: Number of the input.
        ranges: The elements of each of its axes.
    """

    source: int
    ranges: tuple[Range, ...]


def whole_ranges(shape: Shape) -> tuple[Range, ...]:
    """All elements of every axis."""
    return tuple(Range(0, size) for size in shape)


def whole_view(op: Op, index: int) -> View | None:
    """The view of kinds that change sizes alone: all elements of input 0."""
    source = op.input(0)
    return None if source is None else View(0, whole_ranges(source.shape))


def view_along(source: int, shape: Shape, axis: int, part: Range) -> View:
    """Some elements of one axis, all of the others."""
    ranges = list(whole_ranges(shape))
    ranges[axis] = part
    return View(source, tuple(ranges))
