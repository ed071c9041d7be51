"""Say StableHLO operators by operators that kernels and other passes know."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.errors import CircletError
from circlet.ir import Graph, Op, Tensor
from circlet.ops.operands import QUANTISED
from circlet.ops.verify import op_violations
from circlet.passes.contract import Contract
from circlet.passes.match import same_meaning
from circlet.passes.rewriter import Rewriter
from circlet.passes.stablehlo import FORMS
from circlet.passes.stablehlo.steps import Steps


@dataclass(frozen=True)
class LegalizeStablehlo:
    """Replace StableHLO ops of known sizes by others that compute the same bits.

    Before: `STABLEHLO_BROADCAST_IN_DIM{(1)}(x[3]) -> y[2,3,4]`. After: `RESHAPE [1,3,1] ->
    BROADCAST_TO [2,3,4]`. What no other kind means stays: it has native code of its own, or none.
    """

    name = "legalize-stablehlo"
    contract = Contract(
        grows=dict.fromkeys(
            ("operators", "macs", "bytes_moved"),
            "some operators are several of the others, which kernels know",
        )
    )
    needs = frozenset(FORMS)

    def run(self, graph: Graph) -> bool:
        """Replace each op that the table of forms has, and whose forms keep their rules."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            made = _replacement(op, graph) if op.kind in FORMS and _is_plain(op) else []
            if made:
                rewriter.replace([op], *made)
        return rewriter.finish()


def _is_plain(op: Op) -> bool:
    """Whether all sizes are known, nothing varies, and stored values mean one thing."""
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if any(not t.has_rank or None in t.shape or t.is_variable for t in tensors):
        return False
    stored = [tensor for tensor in tensors if _has_steps(tensor)]
    return all(same_meaning(stored[0], tensor) for tensor in stored)


def _has_steps(tensor: Tensor) -> bool:
    return tensor.dtype in QUANTISED


def _replacement(op: Op, graph: Graph) -> list[Op]:
    steps = Steps(op)
    try:
        FORMS[op.kind](steps)
    except CircletError:
        return []
    made = steps.finished()
    kept = all(next(op_violations(each, graph), None) is None for each in made)
    return made if kept else []
