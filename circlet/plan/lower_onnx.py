"""Lower ONNX operators that could not be while sizes were open."""

from __future__ import annotations

from dataclasses import dataclass, field

from circlet.ir import Graph, Op, Tensor
from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.ops.onnx.quantisation import DEQUANTIZE
from circlet.ops.onnx.record import PREFIX
from circlet.passes.rewriter import Rewriter

_Known = tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class LowerOnnx:
    """Replace operators of the domain `onnx` by Circle's, as the importers of their kinds do.

    Before: `CUSTOM:onnx.Resize`, read while the sizes of its image were open. After: two transposes
    around `RESIZE_BILINEAR`.

    Attributes:
        limits: Bounds on what is made.
    """

    name = "lower-onnx"
    limits: Limits = DEFAULT_LIMITS
    _tried: dict[Op, _Known] = field(default_factory=dict, compare=False, repr=False)

    def run(self, graph: Graph) -> bool:
        """Lower what can be, for the sizes that are known now."""
        waiting = [op for op in graph.ops if op.custom_code.startswith(PREFIX)]
        if not waiting:
            return False
        rewriter = Rewriter(graph)
        for op in waiting:
            self._lower(op, rewriter)
        return rewriter.finish()

    def _lower(self, op: Op, rewriter: Rewriter) -> None:
        known = tuple(map(_facts, op.inputs))
        if self._tried.get(op) == known or not all(tensor.has_rank for tensor in _operands(op)):
            return
        self._tried[op] = known
        from circlet.formats.onnx.late import lowered

        fixed = [tensor for tensor in _operands(op) if _is_fixed(rewriter.producer(tensor))]
        ops = lowered(op, fixed, self.limits)
        if ops is not None:
            rewriter.replace([op], *ops)


def _facts(tensor: Tensor | None) -> tuple[object, ...]:
    return () if tensor is None else (tensor.shape, tensor.data is None)


def _operands(op: Op) -> list[Tensor]:
    return [tensor for tensor in op.inputs if tensor is not None]


def _is_fixed(producer: Op | None) -> bool:
    """Whether an op dequantises constants."""
    if producer is None or producer.label != DEQUANTIZE:
        return False
    return all(tensor.data is not None for tensor in _operands(producer))
