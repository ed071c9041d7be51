"""A sum of many operands is several sums of fewer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op, Tensor
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class SplitSums:
    """Replace `ADD_N` of many operands by a chain of such with few, which kernels take.

    Before: `ADD_N(x0, .. xn)`. After: `ADD_N(.. ADD_N(ADD_N(x0, ..), xk, ..), .. xn)`: the terms
    are added in the same order, so that results are the same bits.

    Attributes:
        most: Operands that one op keeps.
    """

    name = "split-sums"
    contract = Contract(
        native_only="kernels take few operands; a file says the whole sum in one operator",
        grows=dict.fromkeys(("operators", "bytes_moved"), "a long sum becomes several"),
    )
    most: int = 8

    def run(self, graph: Graph) -> bool:
        """Split every sum that is too long."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "ADD_N" and len(op.inputs) > self.most:
                rewriter.replace([op], *_chain(op, self.most))
        return rewriter.finish()


def _chain(op: Op, most: int) -> list[Op]:
    result = op.outputs[0]
    terms: list[Tensor | None] = op.inputs[:most]
    chain: list[Op] = []
    for start in range(most, len(op.inputs), most - 1):
        partial = result.like(f"{result.name} of {start} terms")
        chain.append(replace(op, inputs=terms, outputs=[partial]))
        terms = [partial, *op.inputs[start : start + most - 1]]
    return [*chain, replace(op, inputs=terms)]
