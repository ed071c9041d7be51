"""One kind for all changes of sizes alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import find
from circlet.passes.contract import Contract
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class CanonicalizeReshape:
    """Turn SQUEEZE and EXPAND_DIMS into RESHAPE with a constant shape.

    Before: `x[1,1,8] -> SQUEEZE -> y[1,8]`. After: `RESHAPE(x, [1,8]) -> y[1,8]`. Results with
    more than one unknown size stay.
    """

    name = "canonicalize-reshape"
    contract = Contract(
        grows=dict.fromkeys(
            ("bytes_moved", "constant_bytes"), "RESHAPE is given the sizes that the others infer"
        )
    )
    needs = frozenset({"SQUEEZE", "EXPAND_DIMS"})

    def run(self, graph: Graph) -> bool:
        """Replace each op whose result sizes are known but for one."""
        rewriter, record = Rewriter(graph), find("RESHAPE")
        for op in rewriter.ops():
            if record is not None and op.kind in self.needs:
                _replace(op, rewriter, record.attrs)
        return rewriter.finish()


def _replace(op: Op, rewriter: Rewriter, attrs: type) -> None:
    result = op.outputs[0]
    sizes = target_sizes(result)
    if sizes is None:
        return
    inputs = [op.inputs[0], constant(f"{result.name}/shape", np.array(sizes, np.int32))]
    new = replace(op, kind="RESHAPE", inputs=inputs, attrs=attrs(new_shape=sizes))
    rewriter.replace([op], new)


def target_sizes(tensor: Tensor) -> tuple[int, ...] | None:
    """The sizes as RESHAPE wants them, -1 for an unknown one; None if it cannot express them."""
    unknown = tensor.shape.count(None)
    if not tensor.has_rank or unknown > 1 or (unknown == 1 and 0 in tensor.shape):
        return None
    return tuple(-1 if size is None else size for size in tensor.shape)
