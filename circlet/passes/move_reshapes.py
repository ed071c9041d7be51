"""Reshapes move towards the outputs, where they meet others, and clamps meet what they clamp."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op, Tensor
from circlet.ops import find, is_pure
from circlet.ops.operands import is_reshape
from circlet.passes.canonicalize_reshape import target_sizes
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class MoveReshapes:
    """Let an element-wise operator of one tensor run before a reshape instead of after it.

    Before: `CONV_2D -> RESHAPE -> RELU -> RESHAPE`. After: `CONV_2D -> RELU -> RESHAPE -> RESHAPE`,
    of which the clamp goes into the convolution, and one reshape is enough. The other operand may
    be a constant of one element, or of one for each channel where the last axis stays: the bias of
    a dense layer whose rows were folded, as TensorFlow writes it.
    """

    name = "move-reshapes"
    contract = Contract(grows={"bytes_moved": "sizes may change where elements are larger"})
    needs = frozenset({"RESHAPE"})

    def run(self, graph: Graph) -> bool:
        """Move in execution order, so that a reshape passes a whole chain in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            place = _one_operand(op)
            first = None if place is None else rewriter.producer(op.inputs[place])
            if place is None or first is None or not _may_pass(first, op, rewriter):
                continue
            _swap(first, op, place, rewriter)
        return rewriter.finish()


def _one_operand(op: Op) -> int | None:
    """Which input an element-wise op of one tensor reads; None for others."""
    record = find(op.label)
    if record is None or record.scalar is None or len(op.outputs) != 1 or not is_pure(op):
        return None
    if is_reshape(op) or None in op.inputs:
        return None
    places = [i for i, t in enumerate(op.inputs) if t is not None and not _is_list(t)]
    return places[0] if len(places) == 1 else None


def _is_list(tensor: Tensor) -> bool:
    """Whether a constant has one element, or elements along one axis, and no other axes."""
    return tensor.is_constant and len(tensor.shape) <= 1


def _may_pass(first: Op, op: Op, rewriter: Rewriter) -> bool:
    middle, result = first.outputs[0], op.outputs[0]
    source = first.inputs[0]
    if first.kind != "RESHAPE" or source is None or source.is_constant or source.shape == ():
        return False
    sized = source.has_rank and middle.has_rank and middle.shape == result.shape
    whole = all(t.quant is None or not t.quant.is_per_channel for t in (source, middle, result))
    lists = [t for t in op.inputs if t is not None and t is not middle and t.elements != 1]
    spread = not lists or source.shape[-1:] == middle.shape[-1:] != (None,)
    return sized and whole and spread and rewriter.is_private(middle) and _is_writable(result)


def _is_writable(result: Tensor) -> bool:
    """Whether a reshape to the result's sizes can be stored."""
    return not result.is_variable and target_sizes(result) is not None


def _swap(first: Op, op: Op, place: int, rewriter: Rewriter) -> None:
    source, result = first.inputs[0], op.outputs[0]
    assert source is not None
    early = result.like()
    early.shape, early.default_shape = source.shape, source.default_shape
    early.dim_names = source.dim_names
    inputs = [source if i == place else tensor for i, tensor in enumerate(op.inputs)]
    computed = replace(op, inputs=inputs, outputs=[early])
    moved = replace(first, inputs=[early, *first.inputs[1:]], outputs=[result])
    rewriter.replace([first, op], computed, moved)
