"""Operands broadcast along short rows, repeated until rows are long enough for vectors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from circlet.backends.cpu.lower.views import Loops
from circlet.ir import Tensor

_SHORT, _LONG = 64, 1024
_MOST_ELEMENTS = 1 << 14


def repeat_constant(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A constant of one row as several rows of the result, or the tensor itself.

    Loops over a result of three channels would otherwise have three elements, since the constant
    starts again with each pixel.
    """
    own = tensor.static_shape
    if tensor.data is None or not own or not shape or prod(own) != own[-1] or own[-1] == 1:
        return tensor
    rows, axis = shape[-1], len(shape) - 1
    while rows < _SHORT and axis > 0:
        axis -= 1
        rows *= shape[axis]
    if own[-1] != shape[-1] or axis == len(shape) - 1 or rows > _MOST_ELEMENTS:
        return tensor
    data = np.broadcast_to(np.asarray(tensor.data).reshape(-1), shape[axis:])
    return replace(tensor, shape=shape[axis:], data=np.ascontiguousarray(data), default_shape=None)


def repetitions(loops: Loops) -> int:
    """How often an operand of one short row is to stand in memory for rows to be long; 1 for once.

    The outer one of the two inner loops moves some operands by a whole row, and others not at all.
    """
    if len(loops.sizes) < 2 or not 1 < loops.sizes[-1] < _SHORT:
        return 1
    outer, inner = loops.sizes[-2:]
    moves = all(row[-2] in (0, row[-1] * inner) for row in loops.strides)
    single = all(not any(row[:-1]) for row in loops.strides if not row[-2])
    if not moves or not single:
        return 1
    most = min(outer, _LONG // inner)
    return next((n for n in range(most, 1, -1) if outer % n == 0), 1)


def joined(loops: Loops, count: int) -> Loops:
    """Loops over rows of so many rows, for operands of one row that stand in memory as often."""
    outer, inner = loops.sizes[-2:]
    strides = tuple((*row[:-2], row[-2] * count, row[-1]) for row in loops.strides)
    return Loops((*loops.sizes[:-2], outer // count, inner * count), strides)


def cycled(loops: Loops, lanes: int) -> tuple[Loops, tuple[int, ...]]:
    """Loops whose short inner one is joined with the one around it, and the cycle of each operand.

    An operand that the outer one of the two does not move is read over and over, as many elements
    as the inner one has: a whole number of times in a vector of so many lanes. Its cycle is 0
    where it is read on.
    """
    nothing = loops, (0,) * len(loops.strides)
    if len(loops.sizes) < 2 or loops.sizes[-1] < 2 or lanes % loops.sizes[-1]:
        return nothing
    outer, inner = loops.sizes[-2:]
    if not all(row[-2] in (0, row[-1] * inner) for row in loops.strides):
        return nothing
    cycles = tuple(inner if row[-1] and not row[-2] else 0 for row in loops.strides)
    strides = tuple((*row[:-2], row[-1]) for row in loops.strides)
    return Loops((*loops.sizes[:-2], outer * inner), strides), cycles
