"""Rounding that only trains a network is left out of what it computes."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.passes.contract import Contract
from circlet.passes.match import made_of, same_sizes
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class RemoveFakeQuant:
    """Drop FAKE_QUANT, and a DEQUANTIZE that follows a QUANTIZE.

    Before: `CONV_2D -> FAKE_QUANT -> RELU`. After: `CONV_2D -> RELU`. Results change by what was
    rounded, so no level has it.
    """

    name = "remove-fake-quant"
    needs = frozenset({"FAKE_QUANT", "QUANTIZE"})
    contract = Contract(tolerance=float("inf"), why="steps of a quantisation are no longer taken")

    def run(self, graph: Graph) -> bool:
        """Drop each that is not bound between a graph input and a graph output."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "FAKE_QUANT" and op.inputs[0] is not None:
                rewriter.bypass(op, op.inputs[0])
            elif op.kind == "DEQUANTIZE":
                _drop_pair(op, rewriter)
        return rewriter.finish()


def _drop_pair(op: Op, rewriter: Rewriter) -> None:
    first = rewriter.producer(op.inputs[0])
    source = None if first is None or first.kind != "QUANTIZE" else first.inputs[0]
    if first is None or source is None or source.dtype is not DType.FLOAT32:
        return
    if not same_sizes(source, op.outputs[0]) or not _can_bypass(source, op, rewriter):
        return
    alone = rewriter.is_private(first.outputs[0])
    fresh = made_of(op, "CAST", [source], op.attrs)
    rewriter.replace([first, op] if alone else [op], fresh)
    rewriter.bypass(fresh, source)


def _can_bypass(source: Tensor, op: Op, rewriter: Rewriter) -> bool:
    if source.is_variable or op.outputs[0].is_variable:
        return False
    if op.outputs[0] not in rewriter.boundary:
        return True
    return source not in rewriter.boundary and rewriter.producer(source) is not None
