"""One kind for all changes of sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import find
from circlet.ops.layout import permutation
from circlet.ops.operands import operand
from circlet.ops.view import whole_ranges
from circlet.passes.contract import Contract
from circlet.passes.match import element_count, made_of, same_meaning
from circlet.passes.rewriter import Rewriter

_SIZES = frozenset({"SQUEEZE", "EXPAND_DIMS"})
_PARTS = frozenset({"STRIDED_SLICE", "UNPACK"})


@dataclass(frozen=True)
class CanonicalizeReshape:
    """Turn SQUEEZE and EXPAND_DIMS into RESHAPE with a constant shape, and what comes to the same.

    Before: `x[1,1,8] -> SQUEEZE -> y[1,8]`. After: `RESHAPE(x, [1,8]) -> y[1,8]`. So do a
    STRIDED_SLICE or UNPACK that takes everything, a PACK of one, and a TRANSPOSE that only moves
    axes of one element. Results with more than one unknown size stay.
    """

    name = "canonicalize-reshape"
    contract = Contract(grows={"bytes_moved": "RESHAPE reads the sizes that the others infer"})
    needs = _SIZES | _PARTS | {"PACK", "TRANSPOSE"}

    def run(self, graph: Graph) -> bool:
        """Replace each op whose result sizes are known but for one."""
        rewriter, record = Rewriter(graph), find("RESHAPE")
        for op in rewriter.ops():
            if record is not None and op.kind in self.needs and _only_changes_sizes(op):
                _replace(op, rewriter, record.attrs)
        return rewriter.finish()


def _only_changes_sizes(op: Op) -> bool:
    """Whether the one result holds all elements of the first input in their order."""
    if op.kind in _SIZES:
        return True
    source = op.input(0)
    if source is None or len(op.outputs) != 1 or not same_meaning(source, op.outputs[0]):
        return False
    if op.kind == "PACK":
        return len(op.inputs) == 1
    if op.kind == "TRANSPOSE":
        return _moves_units(op)
    return _takes_all(op, source)


def _moves_units(op: Op) -> bool:
    order, shape = permutation(op), operand(op, 0).shape
    if order is None or not operand(op, 0).has_rank or sorted(order) != list(range(len(shape))):
        return False
    kept = [axis for axis in order if shape[axis] != 1]
    return kept == sorted(kept) and order != tuple(sorted(order))


def _takes_all(op: Op, source: Tensor) -> bool:
    record = find(op.kind)
    if record is None or record.view is None or element_count(source) is None:
        return False
    view = record.view(op, 0)
    return view is not None and view.source == 0 and view.ranges == whole_ranges(source.shape)


def _replace(op: Op, rewriter: Rewriter, attrs: type) -> None:
    result = op.outputs[0]
    sizes = target_sizes(result)
    if sizes is None:
        return
    shape = constant(f"{result.name}/shape", np.array(sizes, np.int32))
    fresh = made_of(op, "RESHAPE", [op.inputs[0], shape], attrs(new_shape=sizes))
    rewriter.replace([op], fresh)


def target_sizes(tensor: Tensor) -> tuple[int, ...] | None:
    """The sizes as RESHAPE wants them, -1 for an unknown one; None if it cannot express them."""
    unknown = tensor.shape.count(None)
    if not tensor.has_rank or unknown > 1 or (unknown == 1 and 0 in tensor.shape):
        return None
    return tuple(-1 if size is None else size for size in tensor.shape)
