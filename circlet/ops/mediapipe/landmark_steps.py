"""What MediaPipe does with landmarks, in small operators that kernels know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import Tensor
from circlet.ops.decomposition import Parts
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.reduce import ReducerAttrs

Pair = tuple[float, float]


@dataclass(frozen=True)
class Region:
    """How points become a matrix that maps the places of an output to those of the points.

    Attributes:
        line: The points, (left, right), whose line is made level.
        points: Those that the region is around.
        angle: What the line's angle is taken from.
        by_slope: Whether the line's angle is that of its slope: within a quarter of a turn.
        grown: What the region's sides are multiplied by.
        steps: Places of the output for a whole side of the region.
        unit: Places of the input for a unit of the points.
    """

    line: tuple[int, int]
    points: tuple[int, ...]
    angle: float
    by_slope: bool
    grown: Pair
    steps: Pair
    unit: Pair


class _Steps:
    """Appends small operators over float32 tensors of two dimensions."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def real(self, values: npt.ArrayLike) -> Tensor:
        return self.parts.constant(np.array(values, np.float32))

    def two(self, kind: str, left: Tensor, right: Tensor) -> Tensor:
        return self.parts.make(kind, [left, right])

    def part(self, data: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        constants = [self.parts.constant(np.array(v, np.int32)) for v in (begin, size)]
        return self.parts.make("SLICE", [data, *constants])

    def rows(self, data: Tensor, indices: Sequence[int]) -> Tensor:
        picked = self.parts.constant(np.array(indices, np.int32))
        return self.parts.make("GATHER", [data, picked], GatherAttrs(0))

    def joined(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return self.parts.make("CONCATENATION", tensors, ConcatenationAttrs(axis))

    def columns(self, data: Tensor) -> tuple[Tensor, Tensor]:
        """The first two columns."""
        count = data.static_shape[0]
        return self.part(data, (0, 0), (count, 1)), self.part(data, (0, 1), (count, 1))

    def extent(self, kind: str, data: Tensor) -> Tensor:
        axes = self.parts.constant(np.zeros(1, np.int32))
        return self.parts.make(kind, [data, axes], ReducerAttrs(keep_dims=True))


def transform_points(
    parts: Parts, points: Tensor, matrix: Tensor, count: int, scale: float, result: Tensor
) -> None:
    """Append what turns the first two of `count` coordinates by a matrix, its shift scaled."""
    steps = _Steps(parts)
    flat = parts.reshape(points, (points.elements // count, count))
    square = parts.reshape(matrix, (4, 4))
    turned = None
    for axis, column in enumerate(steps.columns(flat)):
        factors = parts.reshape(steps.part(square, (0, axis), (2, 1)), (1, 2))
        product = steps.two("MUL", column, factors)
        turned = product if turned is None else steps.two("ADD", turned, product)
    assert turned is not None
    shift = parts.reshape(steps.part(square, (0, 3), (2, 1)), (1, 2))
    moved = steps.two("ADD", turned, steps.two("MUL", shift, steps.real([[scale]])))
    kept = [steps.part(flat, (0, 2), (flat.static_shape[0], count - 2))] if count > 2 else []
    whole = steps.joined([moved, *kept], 1) if kept else moved
    parts.reshape(whole, points.static_shape, result)


def region_matrix(parts: Parts, points: Tensor, region: Region, result: Tensor) -> None:
    """Append what makes a matrix of landmarks of three coordinates."""
    steps = _Steps(parts)
    flat = parts.reshape(points, (points.elements // 3, 3))
    places = steps.part(flat, (0, 0), (flat.static_shape[0], 2))
    x, y = steps.columns(steps.rows(places, region.points))
    turn = _turn(steps, places, region)
    level = steps.joined([_turned(steps, x, y, turn, -1), _turned(steps, y, x, turn, 1)], 1)
    low, high = (steps.extent(kind, level) for kind in ("REDUCE_MIN", "REDUCE_MAX"))
    sides = steps.two("MUL", steps.two("SUB", high, low), steps.real([region.grown]))
    middle = steps.two("MUL", steps.two("ADD", high, low), steps.real([[0.5, 0.5]]))
    corner = steps.two("SUB", middle, steps.two("MUL", sides, steps.real([[0.5, 0.5]])))
    scale = steps.two("MUL", sides, steps.real([region.steps]))
    rows = _turned_back(steps, turn, scale, corner)
    for index, unit in enumerate(region.unit):
        rows[index] = steps.two("MUL", rows[index], steps.real([[unit]]))
    rest = steps.real([[0, 0, 1, 0], [0, 0, 0, 1]])
    parts.reshape(steps.joined([*rows, rest], 0), (1, 4, 4), result)


def _turned_back(
    steps: _Steps, turn: tuple[Tensor, Tensor], scale: Tensor, corner: Tensor
) -> list[Tensor]:
    """The first two rows of the matrix that scales, shifts to a corner, and undoes a turn."""
    cosine, sine = turn
    (wide, high), (x, y) = steps.columns(scale), steps.columns(corner)
    minus, nothing = steps.parts.make("NEG", [sine]), steps.real([[0]])
    upper = steps.two("MUL", cosine, wide), steps.two("MUL", sine, high)
    lower = steps.two("MUL", minus, wide), steps.two("MUL", cosine, high)
    shifts = _turned(steps, x, y, turn, 1), _turned(steps, y, x, turn, -1)
    pairs = zip((upper, lower), shifts, strict=True)
    return [steps.joined([*row, nothing, shift], 1) for row, shift in pairs]


def _turn(steps: _Steps, places: Tensor, region: Region) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angle by which points are turned to make the line level."""
    left, right = (steps.rows(places, [index]) for index in region.line)
    x, y = steps.columns(steps.two("SUB", right, left))
    if region.by_slope:
        x, y = steps.real([[1]]), steps.two("DIV", y, x)
    angle = steps.two("SUB", steps.real([[region.angle]]), steps.two("ATAN2", y, x))
    return steps.parts.make("COS", [angle]), steps.parts.make("SIN", [angle])


def _turned(
    steps: _Steps, own: Tensor, other: Tensor, turn: tuple[Tensor, Tensor], sign: int
) -> Tensor:
    """own * cosine + sign * other * sine."""
    cosine, sine = turn
    products = steps.two("MUL", own, cosine), steps.two("MUL", other, sine)
    return steps.two("ADD" if sign > 0 else "SUB", *products)
