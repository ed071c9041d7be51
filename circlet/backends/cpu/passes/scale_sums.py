"""Sums of stored integers are scaled once, not each integer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from circlet.ir import DType, Graph, Op
from circlet.ops.decomposition import Parts
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.operands import operand
from circlet.ops.quantize import CastAttrs
from circlet.ops.reduce import constant_axes, reduced_axes
from circlet.passes import Rewriter
from circlet.passes.contract import LAST_DIGITS
from circlet.passes.quantised import Parameters, parameters

_STORED = frozenset({DType.INT8, DType.UINT8})
_MOST = 1 << 16  # bytes, whose sum is a float without rounding


@dataclass(frozen=True)
class ScaleSums:
    """Add up integers, and take zero point and scale off their sum.

    Before: `DequantizeLinear(x, scale, zero) -> MEAN`. After: `CAST(x) -> SUM -> SUB(count * zero)
    -> MUL(scale / count)`. Sums are exact, and rounded once.
    """

    name = "scale-sums"
    contract = replace(
        LAST_DIGITS,
        grows=dict.fromkeys(("operators", "bytes_moved"), "sums are scaled, which are few"),
    )
    needs = frozenset({"MEAN", "SUM"})

    def run(self, graph: Graph) -> bool:
        """Rewrite every sum or mean that alone reads what DequantizeLinear makes."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in self.needs:
                _scale(op, rewriter)
        return rewriter.finish()


def _scale(op: Op, rewriter: Rewriter) -> None:
    source = rewriter.producer(op.inputs[0])
    if source is None or source.label != DEQUANTIZE or not rewriter.is_private(source.outputs[0]):
        return
    known, axes, result = parameters(source), constant_axes(op), op.outputs[0]
    if known is None or axes is None or not result.static_shape:
        return
    stored = operand(source, 0)
    shape = stored.static_shape
    count = prod(shape[axis] for axis in reduced_axes(axes, len(shape)))
    if stored.dtype in _STORED and result.dtype is DType.FLOAT32 and 0 < count <= _MOST:
        rewriter.replace([source, op], *_scaled(source, op, known, count))


def _scaled(source: Op, op: Op, known: Parameters, count: int) -> list[Op]:
    parts, stored = Parts(op), operand(source, 0)
    numbers = parts.make("CAST", [stored], CastAttrs(stored.dtype.name, "FLOAT32"))
    total = parts.make("SUM", [numbers, op.inputs[1]], op.attrs)
    if known.zero:
        total = parts.make("SUB", [total, parts.scalar(count * known.zero)])
    factor = float(known.scale) / (count if op.kind == "MEAN" else 1)
    parts.make("MUL", [total, parts.scalar(factor)], result=op.outputs[0])
    return parts.ops
