"""Loops whose turns stand one behind the other: of few turns, or the first turn alone."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.sequences import TensorList
from circlet.ir import Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.split import PackAttrs

_MOST_NODES = 2048  # of all turns


class Loop(Protocol):
    """What is asked of a loop."""

    node: Node
    body: Any
    count: Tensor
    keep: Tensor | None
    given: list[Tensor]
    scanned: list[tuple[Tensor, int, bool]]
    stacked: list[tuple[int, bool]]
    has_turn: bool


class Taken(NamedTuple):
    """What a turn gave: whether to take another one, what lives on, a slice of each result."""

    goes_on: Tensor | None
    states: list[Tensor]
    rows: list[Tensor]


def unrolled(loop: Loop) -> list[Tensor]:
    """The results of a loop, as ops of all of its turns.

    Raises:
        NotLoweredError: How many turns it takes is not known, or they are too many.
    """
    count = _count(loop)
    if count * len(loop.body.node) > _MOST_NODES:
        raise NotLoweredError("what a turn of the loop changes has other sizes in each of many")
    if not count and len(loop.body.output) > len(loop.given) + loop.has_turn:
        raise NotLoweredError("no turn of the loop gives a slice of a result")
    states, taken = loop.given, list[Taken]()
    for turn in range(count):
        taken.append(one_turn(loop, turn, states))
        states, goes_on = taken[-1].states, taken[-1].goes_on
        if goes_on is not None and loop.keep is not None:
            if goes_on.data is None:
                raise NotLoweredError("the number of turns is not known ahead")
            if not goes_on.data.any():
                break
    columns = [list(column) for column in zip(*(turn.rows for turn in taken), strict=True)]
    modes = loop.stacked or [(0, False)] * len(columns)
    pairs = zip(columns, modes, strict=True)
    return [*states, *(_stacked(loop.node, rows, *mode) for rows, mode in pairs)]


def one_turn(loop: Loop, turn: int, states: list[Tensor]) -> Taken:
    """A turn of a loop that is known to take it, as ops of its node.

    Raises:
        NotLoweredError: Whether it takes one is not known, or too many were tried.
    """
    node = loop.node
    if turn >= _count(loop):
        raise NotLoweredError("a loop may take no turn")
    if not node.graph.state.may_try(len(loop.body.node)):
        raise NotLoweredError("the turns of all loops are too many to stand one behind the other")
    first = [node.const(turn, np.int64), node.const(True)] if loop.has_turn else []
    slices = [_slice(loop, *one, turn) for one in loop.scanned]
    ops, made = node.graph.unfolded(loop.body, [*first, *states, *slices])
    node.ops += ops
    if node.graph.state.unsupported:
        raise NotLoweredError("an operator in the loop is missing")
    goes_on = made.pop(0) if loop.has_turn else None
    return Taken(goes_on, made[: len(states)], made[len(states) :])


def is_true(flag: Tensor | None) -> bool:
    """Whether a condition holds in every run; one that is left out does."""
    return flag is None or (flag.data is not None and bool(flag.data.all()))


def _count(loop: Loop) -> int:
    """How many turns a loop takes at most, where that is known and it takes the first."""
    if loop.count.data is None or not is_true(loop.keep):
        raise NotLoweredError("the number of turns is not known ahead")
    return max(0, int(loop.count.data.reshape(())))


def _slice(loop: Loop, whole: Tensor, axis: int, is_reversed: bool, turn: int) -> Tensor:
    at = _count(loop) - 1 - turn if is_reversed else turn
    return loop.node.op("GATHER", [whole, loop.node.const(at, np.int64)], GatherAttrs(axis))


def _stacked(node: Node, rows: list[Tensor], axis: int, is_reversed: bool) -> Tensor:
    if any(isinstance(row, TensorList) for row in rows):
        raise NotLoweredError("a loop gives a sequence of sequences")
    place = node.axis(axis, node.rank(rows[0]) + 1)
    parts = rows[::-1] if is_reversed else rows
    return node.op("PACK", parts, PackAttrs(len(parts), place))
