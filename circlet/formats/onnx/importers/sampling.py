"""GridSample: a gather for each tap, the taps added by their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import compared, floats, scaled, split
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs

_MOST_TAPS = 16
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@dataclass(frozen=True)
class _Axis:
    """How one axis of an image is sampled.

    Attributes:
        size: Its elements.
        aligned: Whether -1 and 1 are the centres of the outermost elements, not their edges.
        padding: What lies outside: "zeros", "border" or "reflection".
    """

    node: Node
    size: int
    aligned: bool
    padding: str

    def _with(self, kind: str, x: Tensor, number: float) -> Tensor:
        return self.node.op(kind, [x, self.node.const(np.float32(number))])

    def place(self, unit: Tensor) -> Tensor:
        """Where -1 to 1 lies, in elements."""
        moved = self._with("ADD", unit, 1)
        if self.aligned:
            return self._with("MUL", self._with("MUL", moved, 0.5), self.size - 1)
        return self._with("MUL", self._with("SUB", self._with("MUL", moved, self.size), 1), 0.5)

    def taps(self, place: Tensor, mode: str) -> list[tuple[Tensor, Tensor | None]]:
        """Whole places of elements, and the share of each; None for the whole."""
        node = self.node
        if mode == "nearest":
            return [(node.op("ROUND", [place]), None)]
        first = node.op("FLOOR", [place])
        part = node.op("SUB", [place, first])
        steps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        share = self._linear if mode == "linear" else self._cubic
        return [(self._with("ADD", first, k) if k else first, share(part, k)) for k in steps]

    def _linear(self, part: Tensor, step: int) -> Tensor:
        one = self.node.const(np.float32(1))
        return part if step else self.node.op("SUB", [one, part])

    def _cubic(self, part: Tensor, step: int) -> Tensor:
        """The cubic convolution of a = -0.75 at a distance of up to 1, or of 1 to 2."""
        a = -0.75
        near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
        distance = self._with("SUB", part, step) if step else part
        if step > 0:
            distance = self.node.op("NEG", [distance])
        first, *rest = near if step in (0, 1) else far
        total = scaled(self.node, distance, first)
        for index, factor in enumerate(rest):
            total = self._with("ADD", total, factor) if factor else total
            total = self.node.op("MUL", [total, distance]) if index < 2 else total
        return total

    def inside(self, place: Tensor, share: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """A tap as a place that exists, INT32, and its share; 0 where only zeros lie."""
        node, last = self.node, self.size - 1
        if self.padding == "zeros":
            zero = node.const(np.float32(0))
            above = compared(node, "GREATER_EQUAL", place, zero)
            below = compared(node, "LESS_EQUAL", place, node.const(np.float32(last)))
            both = node.op("LOGICAL_AND", [above, below])
            whole = node.const(np.float32(1)) if share is None else share
            share = node.op("SELECT_V2", [both, whole, zero], dtype=DType.FLOAT32)
        elif self.padding == "reflection":
            place = self._reflected(place)
        clamped = self._with("MINIMUM", self._with("MAXIMUM", place, 0), last)
        return node.cast(clamped, DType.INT32), share

    def _reflected(self, place: Tensor) -> Tensor:
        """Mirrored at the ends as often as it takes: half a turn there, half a turn back."""
        low = 0.0 if self.aligned else -0.5
        span = self.size - 1 - 2 * low
        if not span:
            return place
        away = self.node.op("ABS", [self._with("SUB", place, low)])
        turns = self.node.op("FLOOR", [self._with("DIV", away, 2 * span)])
        rest = self.node.op("SUB", [away, self._with("MUL", turns, 2 * span)])
        back = self.node.op("ABS", [self._with("SUB", rest, span)])
        mirrored = self.node.op("SUB", [self.node.const(np.float32(low + span)), back])
        return self.node.op("ROUND", [mirrored])


@importer("GridSample")
def _grid_sample(node: Node) -> Tensor:
    x, grid = floats(node, 0), floats(node, 1)
    rank, mode = node.rank(x), node.text("mode", "linear")
    mode = _MODES.get(mode, mode)
    if None in (*x.shape, *grid.shape) or 0 in (*x.shape, *grid.shape):
        raise NotLoweredError("sizes are open, or 0")
    sizes = x.static_shape[2:]
    if node.rank(grid) != rank or grid.shape[-1] != len(sizes) or grid.shape[0] != x.shape[0]:
        raise node.wrong("a grid does not fit what it samples", f"{x.shape}, {grid.shape}")
    if {"nearest": 1, "linear": 2, "cubic": 4}[mode] ** len(sizes) > _MOST_TAPS:
        raise NotLoweredError("many elements are read for each one")
    aligned, padding = bool(node.whole("align_corners")), node.text("padding_mode", "zeros")
    axes = [_Axis(node, size, aligned, padding) for size in sizes]
    units = reversed(split(node, grid, -1, [1] * len(sizes)))
    taps = [axis.taps(axis.place(u), mode) for axis, u in zip(axes, units, strict=True)]
    found = [[axis.inside(*tap) for tap in listed] for axis, listed in zip(axes, taps, strict=True)]
    return node.channels_first(_sum(node, x, found, grid.static_shape[:-1]))


def _sum(
    node: Node,
    x: Tensor,
    taps: Sequence[Sequence[tuple[Tensor, Tensor | None]]],
    points: Sequence[int],
) -> Tensor:
    """[batch, *points, channels]: the elements of all taps by the products of their shares."""
    batch, channels, *sizes = x.static_shape
    pixels = node.reshape(node.channels_last(x), [-1, channels])
    first = np.arange(batch).reshape(-1, *[1] * len(points)) * prod(sizes)
    total: Tensor | None = None
    for tap in product(*taps):
        at, share = node.const(first, np.int32), None
        for axis, (place, part) in enumerate(tap):
            step = node.const(prod(sizes[axis + 1 :]), np.int32)
            at = node.op("ADD", [at, node.op("MUL", [place, step])], dtype=DType.INT32)
            if part is not None:
                share = part if share is None else node.op("MUL", [share, part])
        made = node.op("GATHER", [pixels, node.reshape(at, points)], GatherAttrs(0), x.dtype)
        made = made if share is None else node.op("MUL", [made, share])
        total = made if total is None else node.op("ADD", [total, made])
    assert total is not None
    return total
