"""Sequences that turns of a loop add to: stacks of what they add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.sequences import GrowingList, StackedList, TensorList
from circlet.ir import DType, Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.split import PackAttrs


class Lists:
    """The sequences among what lives on from turn to turn, each of which takes one item a turn.

    Args:
        given: What lives on, as it is before the first turn.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        self._given = given
        self._growing: dict[int, TensorList] = {
            place: GrowingList(tensor.name, DType.VARIANT, (), has_rank=False)
            for place, tensor in enumerate(given)
            if isinstance(tensor, TensorList)
        }

    def interleaved(self, states: Sequence[Tensor]) -> list[Tensor]:
        """What a turn is given, for states that are no sequences."""
        rest = iter(states)
        places = range(len(self._given))
        return [self._growing[p] if p in self._growing else next(rest) for p in places]

    def taken(self, made: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Of what a turn made, the states that are no sequences, and the items that it adds.

        Raises:
            NotLoweredError: It does not add one item to each sequence.
        """
        items = [_item(made[place]) for place in self._growing if place < len(made)]
        return [t for place, t in enumerate(made) if place not in self._growing], items

    def results(
        self, node: Node, states: Sequence[Tensor], stacks: Sequence[Tensor]
    ) -> list[Tensor]:
        """What the loop gives, for the last states and the stacks of items."""
        rest, stacked = iter(states), iter(stacks)
        return [
            _joined(node, tensor, next(stacked)) if place in self._growing else next(rest)
            for place, tensor in enumerate(self._given)
        ]


def _item(result: Tensor) -> Tensor:
    items = result.items if isinstance(result, GrowingList) else None
    if items is None or len(items) != 1:
        raise NotLoweredError("a turn of the loop does not add one item to a sequence")
    return items[0]


def _joined(node: Node, before: Tensor, stack: Tensor) -> StackedList:
    """A sequence with a stack of further items behind those that it had."""
    parts = [*_stacks(node, before), stack]
    if len(parts) > 1:
        stack = node.op("CONCATENATION", parts, ConcatenationAttrs(0))
    return StackedList(stack.name, DType.VARIANT, (), has_rank=False, items=None, stack=stack)


def _stacks(node: Node, given: Tensor) -> Iterator[Tensor]:
    if isinstance(given, StackedList) and given.stack is not None:
        yield given.stack
    elif isinstance(given, TensorList) and given.items:
        yield packed(node, given.items)


def packed(node: Node, items: Sequence[Tensor]) -> Tensor:
    """Tensors of one size along a new first axis; one of another size makes no op."""
    if any(not item.has_rank or item.shape != items[0].shape for item in items):
        raise NotLoweredError("the tensors of a sequence have several sizes")
    return node.op("PACK", items, PackAttrs(len(items), 0))
