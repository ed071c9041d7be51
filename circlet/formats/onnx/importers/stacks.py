"""Results that have one slice of each turn of a loop."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.ir import Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.onnx.record import PREFIX, OnnxAttrs

_MOST_ROWS = 1 << 20
_OF_SIZES = frozenset({"SHAPE", "RANK"})
_MOST_SEEN = 64  # tensors that a count of turns follows from
_MOST_UNTAKEN = 1 << 10  # rows of turns that may not be taken


class Turn(Protocol):
    """The turn of a loop that a stack takes a slice of."""

    maker: Node
    count: Tensor

    @property
    def loop(self) -> Loop:
        """The loop."""
        ...

    def place(self, is_reversed: bool) -> Tensor:
        """The number of the turn, or counted from the last one."""
        ...


class Loop(Protocol):
    """What a stack asks of a loop."""

    node: Node
    count: Tensor
    keep: Tensor | None
    has_turn: bool
    first: int


class Stack:
    """A tensor to which every turn adds a slice.

    Where the number of turns is known ahead, or follows from sizes, slices are put into a tensor of
    all; else the tensor grows.

    Attributes:
        start: What it is before the first turn.
        before, after: What it is before and behind a turn, in the loop's body.

    Args:
        earlier: The slice of a turn that was taken ahead of the loop.
    """

    def __init__(
        self, turn: Turn, row: Tensor, axis: int, is_reversed: bool, earlier: Tensor | None
    ) -> None:
        self._turn, self._row, self._axis, self._reversed = turn, row, axis, is_reversed
        self._earlier = earlier
        if earlier is not None and earlier.shape != row.shape:
            raise NotLoweredError("a turn of the loop changes the sizes of a result")
        if not row.has_rank:
            raise NotLoweredError("the number of dimensions of a loop's result is not known")
        self._is_whole = False
        ways = [self._placed, self._joined, self._appended]
        if turn.loop.keep is None and _is_given(turn.loop.count, turn.loop.node):
            ways[:2] = [self._joined, self._placed]  # nothing bounds a tensor for all turns
        for attempt in ways:
            kept = len(turn.maker.ops), len(turn.loop.node.ops)
            try:
                attempt()
                return
            except NotLoweredError as error:
                why = error
                del turn.maker.ops[kept[0] :], turn.loop.node.ops[kept[1] :]
        raise why

    def result(self, turns: Tensor, end: Tensor) -> Tensor:
        """The stack behind the loop, which took so many turns."""
        node = self._turn.loop.node
        if self._is_whole and self._turn.loop.keep is not None:
            sizes = _joined(node, [node.reshape(turns, [1]), *_rest(node, self._row)])
            begin = node.const([0] * (len(self._row.shape) + 1), np.int64)
            end = node.op("SLICE", [end, begin, sizes])
            if None in end.shape[1:] and 0 not in self._row.shape:
                end = node.reshape(end, [-1, *_sizes(self._row)])
        rank = len(self._row.shape) + 1
        axis = node.axis(self._axis, rank)
        return node.transpose(end, [*range(1, axis + 1), 0, *range(axis + 1, rank)])

    def _placed(self) -> None:
        """A tensor for all turns, into which each puts its slice."""
        loop, maker = self._turn.loop, self._turn.maker
        most = _MOST_ROWS if loop.keep is None else _MOST_UNTAKEN
        known = loop.count.data is not None and int(loop.count.data) <= most
        is_counted = loop.count.data is None and loop.keep is None
        if None in self._row.shape or not (known or is_counted or not loop.has_turn):
            raise NotLoweredError("the number of turns is not known ahead")
        node = loop.node
        count = node.reshape(loop.count, [1])
        if is_counted and loop.has_turn:
            count = node.op("MAXIMUM", [count, node.const([0], np.int64)])
        sizes = _joined(node, [count, *_rest(node, self._row)])
        zero = node.const(np.zeros((), self._row.dtype.numpy))
        self.start = node.op("FILL", [sizes, zero], dtype=zero.dtype)
        if None in self.start.shape and 0 not in self._row.shape:  # only the count is open
            self.start = node.reshape(self.start, [-1, *_sizes(self._row)])
        if self._earlier is not None:
            self.start = self._put(node, self.start, self._earlier, node.const([0], np.int64))
        self.before = self.start.like(f"{self._row.name}_stack")
        place = maker.reshape(self._turn.place(self._reversed), [1])
        self.after = self._put(maker, self.before, self._row, place)
        self._is_whole = True

    def _put(self, node: Node, stack: Tensor, row: Tensor, place: Tensor) -> Tensor:
        """The stack with a slice at a place."""
        rest = [node.const([0] * len(row.shape), np.int64)] if row.shape else []
        slices = node.reshape(row, [1, *_sizes(row)])
        return node.op("DYNAMIC_UPDATE_SLICE", [stack, slices, _joined(node, [place, *rest])])

    def _joined(self) -> None:
        """A tensor that grows by a slice."""
        if None in self._row.shape or self._reversed:
            raise NotLoweredError("a slice of a turn has open sizes")
        sizes, node = _sizes(self._row), self._turn.loop.node
        self.start = node.const(np.zeros((0, *sizes), self._row.dtype.numpy))
        if self._earlier is not None:
            self.start = node.reshape(self._earlier, [1, *sizes])
        self.before = Tensor(f"{self._row.name}_stack", self._row.dtype, (None, *sizes))
        slices = self._turn.maker.reshape(self._row, [1, *sizes])
        self.after = _joined(self._turn.maker, [self.before, slices])

    def _appended(self) -> None:
        """A tensor that takes its sizes from the first slice."""
        if self._reversed or self._earlier is not None or not self._row.dtype.has_numpy:
            raise NotLoweredError("slices of open sizes are only stacked in the order of turns")
        rank = len(self._row.shape)
        empty = np.zeros((0,) * (rank + 1), self._row.dtype.numpy)
        self.start = self._turn.loop.node.const(empty)
        self.before = Tensor(f"{self._row.name}_stack", self._row.dtype, (None,) * (rank + 1))
        attrs = OnnxAttrs((), self._turn.maker.opset)
        self.after = self._turn.maker.op(
            "CUSTOM", [self.before, self._row], attrs, custom_code=f"{PREFIX}Append"
        )


def _is_given(number: Tensor, node: Node) -> bool:
    """Whether a number follows from elements, not only sizes, of what the network is given."""
    inputs, own = node.graph.graph.inputs, {t: op for op in node.ops for t in op.outputs}
    waiting, seen = [number], {number}
    while waiting and len(seen) < _MOST_SEEN:
        tensor = waiting.pop()
        if tensor in inputs:
            return True
        op = own.get(tensor) or node.graph.producer(tensor)
        read = [] if op is None or op.kind in _OF_SIZES else op.inputs
        found = [each for each in read if each is not None and each not in seen]
        waiting += found
        seen.update(found)
    return False


def _sizes(row: Tensor) -> list[int]:
    return [size for size in row.shape if size is not None]


def _rest(node: Node, row: Tensor) -> list[Tensor]:
    return [node.const(_sizes(row), np.int64)] if row.shape else []


def _joined(node: Node, parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else node.op("CONCATENATION", parts, ConcatenationAttrs(0))
