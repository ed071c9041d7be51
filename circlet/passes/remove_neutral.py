"""Adding zero and multiplying by one change nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.requantize import activation_of
from circlet.passes.match import same_sizes
from circlet.passes.rewriter import Rewriter

# By kinds: the constant that changes nothing, and whether it may stand first.
_NEUTRAL = {"ADD": (0, True), "SUB": (0, False), "MUL": (1, True), "DIV": (1, False)}
_TYPES = (DType.FLOAT32, DType.INT32, DType.INT64)


@dataclass(frozen=True)
class RemoveNeutral:
    """Drop sums with zero, and products with and quotients by one.

    Before: `ADD(MUL(x, 1), 0) -> y`. After: x. Not of quantised values, which such ops rescale,
    and not where an activation follows.
    """

    name = "remove-neutral"
    needs = frozenset(_NEUTRAL)

    def run(self, graph: Graph) -> bool:
        """Drop each that is not bound between a graph input and a graph output."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            source = _unchanged(op) if op.kind in _NEUTRAL else None
            if source is not None:
                rewriter.bypass(op, source)
        return rewriter.finish()


def _unchanged(op: Op) -> Tensor | None:
    """The operand that an op gives back."""
    (neutral, either), result = _NEUTRAL[op.kind], op.outputs[0]
    if result.dtype not in _TYPES or activation_of(op) != "NONE":
        return None
    for source, known in (tuple(op.inputs), tuple(op.inputs[::-1]))[: 2 if either else 1]:
        if source is None or known is None or known.data is None or source.data is not None:
            continue
        if same_sizes(source, result) and bool(np.all(known.data == neutral)):
            return source
    return None
