"""Places that are wanted in columns are found in columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

from circlet.ir import Graph, Op
from circlet.ir.origin import Origin
from circlet.ops.bounded import WHERE, WhereAttrs
from circlet.ops.layout import permutation
from circlet.passes import Rewriter


@dataclass(frozen=True)
class TransposePlaces:
    """Have WHERE write what a transpose makes of its rows.

    Before: `x[8,8] -> WHERE -> [64,2] -> TRANSPOSE -> [2,64]`, as NonZero of .onnx files is read.
    After: one WHERE. A transpose would move all that there is room for, however little a run finds.
    """

    name = "transpose-places"
    needs = frozenset({WHERE})

    def run(self, graph: Graph) -> bool:
        """Fuse every transpose of places that nothing else reads."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind == "TRANSPOSE" and permutation(op) == (1, 0):
                _fuse(op, rewriter)
        return rewriter.finish()


def _fuse(transpose: Op, rewriter: Rewriter) -> None:
    where = rewriter.producer(transpose.inputs[0])
    if where is None or where.kind != WHERE or where.attributes(WhereAttrs).is_transposed:
        return
    rows, count = where.outputs
    if not rewriter.is_private(rows):
        return
    rewriter.remove(transpose)
    outputs = [transpose.outputs[0], count]
    origin = Origin.union((where.origin, transpose.origin))
    made = replace(where, outputs=outputs, attrs=WhereAttrs(True), origin=origin)
    rewriter.replace([where], made)
