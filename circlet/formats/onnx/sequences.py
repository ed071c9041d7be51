"""Sequences and optionals of ONNX while a file is read: lists of tensors, which no op ever sees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from circlet.ir import DType, Tensor


@dataclass(eq=False)
class TensorList(Tensor):
    """A sequence whose length is known; None as its items is an optional without a value.

    It stands where nodes have a tensor, until SequenceAt, ConcatFromSequence or a loop over it
    takes the tensors out.
    """

    items: list[Tensor] | None = field(default_factory=list)


@dataclass(eq=False)
class GrowingList(TensorList):
    """A sequence in a turn of a loop; `items` are those that the turn adds at its end."""


@dataclass(eq=False)
class StackedList(TensorList):
    """A sequence of equally large tensors, whose length a run finds: slices of `stack`."""

    stack: Tensor | None = None


def tensor_list(name: str, items: Sequence[Tensor] | None) -> TensorList:
    """A sequence of these, or an optional without a value."""
    held = None if items is None else list(items)
    return TensorList(name, DType.VARIANT, (), has_rank=False, items=held)
