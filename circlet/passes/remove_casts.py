"""Changes of type that are taken back, or that another follows, are not made."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.operands import QUANTISED, is_affine
from circlet.ops.quantize import CastAttrs
from circlet.passes.match import made_of, same_meaning, same_sizes
from circlet.passes.rewriter import Rewriter

_INTEGERS = {
    DType.BOOL: (0, 1),
    DType.INT8: (-(2**7), 2**7 - 1),
    DType.UINT8: (0, 2**8 - 1),
    DType.INT16: (-(2**15), 2**15 - 1),
    DType.UINT16: (0, 2**16 - 1),
    DType.INT32: (-(2**31), 2**31 - 1),
    DType.UINT32: (0, 2**32 - 1),
    DType.INT64: (-(2**63), 2**63 - 1),
}
_EXACT_TO = {DType.FLOAT32: 2**24, DType.FLOAT64: 2**53}


@dataclass(frozen=True)
class RemoveCasts:
    """Let a CAST read what the CAST before it reads, where that one keeps every value.

    Before: `x: INT32 -> CAST -> INT64 -> CAST -> INT32`. After: x. A QUANTIZE of a DEQUANTIZE with
    the same scale and zero point gives back the stored values, and neither is needed.
    """

    name = "remove-casts"
    needs = frozenset({"CAST", "QUANTIZE"})

    def run(self, graph: Graph) -> bool:
        """Join in execution order, so that chains join in one run."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            first = rewriter.producer(op.input(0))
            if first is None:
                continue
            if op.kind == first.kind == "CAST":
                _join(first, op, rewriter)
            elif op.kind == "QUANTIZE" and first.kind == "DEQUANTIZE":
                _take_back(first, op, rewriter)
        return rewriter.finish()


def _join(first: Op, op: Op, rewriter: Rewriter) -> None:
    source, middle, result = first.inputs[0], first.outputs[0], op.outputs[0]
    if source is None or not _keeps_values(source.dtype, middle.dtype):
        return
    if source.dtype is not result.dtype:
        if rewriter.is_private(middle):
            attrs = CastAttrs(source.dtype.name, result.dtype.name)
            rewriter.replace([first, op], made_of(op, "CAST", [source], attrs))
    elif same_meaning(source, result) and same_sizes(source, result):
        _bypass(first, op, source, rewriter)


def _keeps_values(source: DType, result: DType) -> bool:
    """Whether every value of a type is one of another."""
    if source is DType.FLOAT32 or source not in _INTEGERS:
        return (source, result) == (DType.FLOAT32, DType.FLOAT64)
    low, high = _INTEGERS[source]
    if result in _EXACT_TO:
        return max(-low, high) <= _EXACT_TO[result]
    least, most = _INTEGERS.get(result, (0, 0))
    return least <= low and high <= most


def _take_back(first: Op, op: Op, rewriter: Rewriter) -> None:
    source, result = first.inputs[0], op.outputs[0]
    if source is None or source.dtype not in QUANTISED or not is_affine(source):
        return
    if same_meaning(source, result) and same_sizes(source, result):
        _bypass(first, op, source, rewriter)


def _bypass(first: Op, op: Op, source: Tensor, rewriter: Rewriter) -> None:
    """Have the readers of an op read `source`; the op before it goes where nothing reads it."""
    alone = rewriter.is_private(first.outputs[0])
    fresh = made_of(op, op.kind, [source], op.attrs)
    rewriter.replace([first, op] if alone else [op], fresh)
    rewriter.bypass(fresh, source)
