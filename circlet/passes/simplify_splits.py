"""Splits into equal parts say so, and what is joined again was never split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circlet.ir import Graph, Op, Tensor
from circlet.ops.layout import ConcatenationAttrs, concatenation_axis
from circlet.ops.requantize import activation_of
from circlet.ops.split import SplitAttrs, pack_axis, split_parts, unpack_axis
from circlet.passes.match import made_of, same_meaning, same_sizes
from circlet.passes.rewriter import Rewriter

# By the kind that joins: the kinds that split, the axes of both.
_JOINS: dict[str, tuple[tuple[str, ...], Callable[[Op], int]]] = {
    "CONCATENATION": (("SPLIT", "SPLIT_V"), concatenation_axis),
    "PACK": (("UNPACK",), pack_axis),
}


@dataclass(frozen=True)
class SimplifySplits:
    """Make a SPLIT of a SPLIT_V into equal parts; drop splits of one and joins of all parts.

    Before: `SPLIT_V(x[6], [3, 3]) -> a, b`. After: `SPLIT(x[6]) -> a, b`. A CONCATENATION of all
    parts of one split, in their order, is the tensor that was split; so is a PACK of an UNPACK.
    """

    name = "simplify-splits"
    needs = frozenset({"SPLIT", "SPLIT_V", "UNPACK"})

    def run(self, graph: Graph) -> bool:
        """Replace each split, and bypass each join, that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in _JOINS:
                _bypass_join(op, rewriter)
            elif op.kind in ("SPLIT", "SPLIT_V"):
                _simplify(op, rewriter)
        return rewriter.finish()


def _simplify(op: Op, rewriter: Rewriter) -> None:
    source = op.inputs[1 if op.kind == "SPLIT" else 0]
    if source is not None and len(op.outputs) == 1 and _are_same(source, op.outputs[0]):
        rewriter.bypass(op, source)
    elif op.kind == "SPLIT_V" and _is_even(op):
        fresh = made_of(op, "SPLIT", [op.inputs[2], source], SplitAttrs(len(op.outputs)))
        rewriter.replace([op], fresh)


def _is_even(op: Op) -> bool:
    parts = split_parts(op)
    return parts is not None and None not in parts.sizes and len(set(parts.sizes)) == 1


def _bypass_join(op: Op, rewriter: Rewriter) -> None:
    kinds, axis_of = _JOINS[op.kind]
    split = rewriter.producer(op.input(0))
    if split is None or split.kind not in kinds or activation_of(op) != "NONE":
        return
    source = split.inputs[1 if split.kind == "SPLIT" else 0]
    if source is None or op.inputs != split.outputs or _axis_of_split(split) != axis_of(op):
        return
    if _are_same(source, op.outputs[0]):
        alone = rewriter.results([split, op]) == op.outputs
        fresh = made_of(op, "CONCATENATION", [source], ConcatenationAttrs())
        rewriter.replace([split, op] if alone else [op], fresh)
        rewriter.bypass(fresh, source)


def _axis_of_split(split: Op) -> int | None:
    if split.kind == "UNPACK":
        return unpack_axis(split)
    parts = split_parts(split)
    return None if parts is None else parts.axis


def _are_same(source: Tensor, result: Tensor) -> bool:
    return same_meaning(source, result) and same_sizes(source, result)
