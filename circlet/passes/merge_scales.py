"""Constants that are multiplied or added one after the other are one constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.arithmetic import AddAttrs, MulAttrs
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.passes.match import made_of
from circlet.passes.rewriter import Rewriter

_SCALES, _OFFSETS = ("MUL", "DIV"), ("ADD", "SUB")
_Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MergeScales:
    """Multiply once by the product of constants, and add their sum.

    Before: `DIV(MUL(x, a), b)`. After: `MUL(x, a/b)`. Only of floats, where nothing else reads
    what is in between, and where the joined constant is no larger than the larger of both. Rounded
    once instead of twice, so last bits differ.
    """

    name = "merge-scales"
    needs = frozenset({*_SCALES, *_OFFSETS})
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Merge in execution order, so that chains merge in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in self.needs:
                _merge(op, rewriter)
        return rewriter.finish()


def _merge(op: Op, rewriter: Rewriter) -> None:
    second = _step(op)
    first = None if second is None else rewriter.producer(second[0])
    if first is None or second is None or not rewriter.is_private(second[0]):
        return
    scales = op.kind in _SCALES
    if first.kind not in (_SCALES if scales else _OFFSETS) or activation_of(first) != "NONE":
        return
    before = _step(first)
    if before is None:
        return
    with np.errstate(all="ignore"):
        joined = before[1] * second[1] if scales else before[1] + second[1]
        values = joined.astype(np.float32)
    if not np.isfinite(values).all() or values.size > max(before[1].size, second[1].size):
        return
    attrs = MulAttrs(activation_of(op)) if scales else AddAttrs(activation_of(op))
    made = constant(f"{op.name}_constant", values)
    kind = "MUL" if scales else "ADD"
    rewriter.replace([first, op], made_of(op, kind, [before[0], made], attrs))


def _step(op: Op) -> tuple[Tensor, _Reals] | None:
    """What an op scales or moves, and the factor or offset; None where it does something else."""
    result = op.outputs[0]
    for place in (0, 1) if op.kind in ("MUL", "ADD") else (0,):
        source, known = operand(op, place), operand(op, 1 - place)
        if known.data is None or known.dtype is not DType.FLOAT32 or source.data is not None:
            continue
        if source.shape != result.shape or not source.has_rank:
            continue
        values = known.data.astype(np.float64)
        if op.kind == "DIV":
            with np.errstate(all="ignore"):
                values = 1 / values
        return source, -values if op.kind == "SUB" else values
    return None
