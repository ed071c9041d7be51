"""Rotary position embeddings that files spell out are the operator that Circle files have."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops import find
from circlet.ops.layout import concatenation_axis
from circlet.ops.rope import RopeAttrs
from circlet.ops.verify import op_violations
from circlet.ops.view import Range
from circlet.passes.match import is_plain, made_of
from circlet.passes.rewriter import Rewriter

_RANK = 4


@dataclass(frozen=True)
class RecogniseRope:
    """Make a ROPE of the product with cosines and that of the turned halves with sines.

    Before: `ADD(MUL(x, cos), MUL(CONCATENATION(NEG(x[half:]), x[:half]), sin))`. After:
    `ROPE(x, sin, cos)`, which .circle files hold. Halves may come from SPLIT or from slices. What
    is computed stays the same, number by number.
    """

    name = "recognise-rope"
    needs = frozenset({"NEG"})
    makes = frozenset({"ROPE"})

    def run(self, graph: Graph) -> bool:
        """Replace every embedding."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if is_plain(op, "ADD") and op.outputs[0].dtype is DType.FLOAT32:
                _replace(op, rewriter)
        return rewriter.finish()


def _replace(op: Op, rewriter: Rewriter) -> None:
    for straight, turned in (op.inputs, op.inputs[::-1]):
        first, second = rewriter.producer(straight), rewriter.producer(turned)
        if first is None or second is None or first is second:
            continue
        if not (is_plain(first, "MUL") and is_plain(second, "MUL")):
            continue
        for sine, joined in (second.inputs, second.inputs[::-1]):
            parts = _turning(joined, rewriter)
            if sine is None or parts is None:
                continue
            x = parts[0].inputs[_source_of(parts[0])]
            cosine = next((t for t in first.inputs if t is not x), None)
            if cosine is not None and x in first.inputs and x is not None:
                _put(op, [x, sine, cosine], {first, second, *parts}, rewriter)
                return


def _put(op: Op, inputs: list[Tensor | None], others: set[Op], rewriter: Rewriter) -> None:
    old = [*sorted(others, key=rewriter.position), op]
    fresh = made_of(op, "ROPE", inputs, RopeAttrs("GPT_NEOX"))
    sized = all(t is not None and t.has_rank for t in inputs)
    if not sized or rewriter.results(old) != op.outputs:
        return
    if next(op_violations(fresh, rewriter.graph), None) is None:
        rewriter.replace(old, fresh)


def _turning(tensor: Tensor | None, rewriter: Rewriter) -> list[Op] | None:
    """The ops that make (-b, a) of the halves a and b of a tensor, the first of them a half."""
    joining = rewriter.producer(tensor)
    if joining is None or not is_plain(joining, "CONCATENATION") or len(joining.inputs) != 2:
        return None
    if concatenation_axis(joining) != _RANK - 1:
        return None
    minus, first = (rewriter.producer(part) for part in joining.inputs)
    second = rewriter.producer(minus.inputs[0]) if minus is not None else None
    if minus is None or minus.kind != "NEG" or first is None or second is None:
        return None
    sources = {op.inputs[_source_of(op)] for op in (first, second)}
    x = sources.pop()
    if sources or x is None or not x.has_rank or len(x.shape) != _RANK or x.shape[-1] is None:
        return None
    half = x.shape[-1] // 2
    halves = _range(first, joining.inputs[1]), _range(second, minus.inputs[0])
    if halves != (Range(0, half), Range(half, half)):
        return None
    return [second, minus, first, joining]


def _source_of(op: Op) -> int:
    return 1 if op.kind == "SPLIT" else 0


def _range(op: Op, part: Tensor | None) -> Range | None:
    """Which elements of the last axis a part of a tensor is, all others being whole."""
    record = find(op.label)
    if record is None or record.view is None or part not in op.outputs:
        return None
    view, source = record.view(op, op.outputs.index(part)), op.inputs[_source_of(op)]
    if view is None or source is None or len(view.ranges) != _RANK or len(part.shape) != _RANK:
        return None
    whole = tuple(Range(0, size) for size in source.shape[:-1])
    return view.ranges[-1] if view.ranges[:-1] == whole else None
