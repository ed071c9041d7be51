"""RESHAPE with its sizes in both of the places where they may stand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import Graph, Op
from circlet.ir.builder import constant
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.canonicalize_reshape import target_sizes
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class StateSizes:
    """State the sizes of RESHAPE both as an operand and as an attribute.

    Formats let either be left out; OpenVINO reads the attribute, LiteRT the operand.
    """

    name = "state-sizes"
    needs = frozenset({"RESHAPE"})
    contract = Contract(grows={"bytes_moved": "sizes are read"})

    def run(self, graph: Graph) -> bool:
        """Complete every RESHAPE whose sizes are known but for one."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            made = _with_sizes(op) if op.kind == "RESHAPE" else None
            if made is not None:
                rewriter.replace([op], made)
        return rewriter.finish()


def _with_sizes(op: Op) -> Op | None:
    sizes, given = target_sizes(op.outputs[0]), op.input(1)
    if sizes is None or (given is not None and op.attributes(ReshapeAttrs).new_shape == sizes):
        return None
    target = constant(f"{op.outputs[0].name}/shape", np.array(sizes, np.int32))
    return replace(op, inputs=[op.inputs[0], target], attrs=ReshapeAttrs(sizes))
