"""The phases of a TRANSPOSE_CONV: output elements that are equal modulo the stride."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from circlet.backends.cpu.layout import Border
from circlet.ir import Op
from circlet.ops.geometry import AxisPadding, Window, axis_padding, padding_sizes
from circlet.ops.operands import operand
from circlet.ops.transpose_conv import transposed_window_of

_DATA = 2
_MOST_PRODUCTS = 256


@dataclass(frozen=True)
class Phase:
    """The output elements of one axis that are equal modulo the stride.

    Attributes:
        start: The first of them.
        count: How many there are.
        first: Input element that the first tap of the first of them meets; may be negative.
        taps: Their taps of the window, in the order of the input.
    """

    start: int
    count: int
    first: int
    taps: tuple[int, ...]


def _phases(padding: AxisPadding, size: int, window: Window) -> Iterator[Phase]:
    before, _ = padding_sizes(padding, size, -(-size // window.stride), window)
    for start in range(min(window.stride, size)):
        least = (start + before) % window.stride
        taps = tuple(range(least, window.size, window.stride))[::-1]
        first = (start + before - least) // window.stride - (len(taps) - 1)
        yield Phase(start, -(-(size - start) // window.stride), first, taps)


def many_phases(op: Op) -> str | None:
    """Why an op is not cut into its phases, or None: each pair of them is a product."""
    window = transposed_window_of(op)
    _, height, width, _ = op.outputs[0].static_shape
    count = min(window.rows.stride, height) * min(window.columns.stride, width)
    return f"its strides make {count} products" if count > _MOST_PRODUCTS else None


def phases_of(op: Op) -> tuple[list[Phase], list[Phase]]:
    """Phases down and across."""
    window = transposed_window_of(op)
    _, height, width, _ = op.outputs[0].static_shape
    rows = list(_phases(axis_padding(window.padding, 0), height, window.rows))
    return rows, list(_phases(axis_padding(window.padding, 1), width, window.columns))


def _reach(phases: list[Phase], size: int) -> tuple[int, int]:
    """Input elements met before the first and behind the last."""
    met = [phase for phase in phases if phase.taps]
    before = max((-phase.first for phase in met), default=0)
    ends = (phase.first + len(phase.taps) + phase.count - 1 for phase in met)
    return max(0, before), max(0, max(ends, default=0) - size)


def borders_of(op: Op) -> dict[int, Border]:
    """The border that windows over the input reach into."""
    rows, columns = phases_of(op)
    _, height, width, _ = operand(op, _DATA).static_shape
    (top, bottom), (left, right) = _reach(rows, height), _reach(columns, width)
    border = Border(top, left, bottom, right)
    return {_DATA: border} if border else {}
