"""Division by a square root is a product with its reciprocal."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.arithmetic import MulAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.requantize import activation_of
from circlet.passes.match import is_plain, made_of, scalar_of
from circlet.passes.rewriter import Rewriter


@dataclass(frozen=True)
class FuseRsqrt:
    """Multiply by RSQRT instead of dividing by SQRT; 1 / SQRT(x) is RSQRT(x).

    Before: `DIV(y, SQRT(x))`. After: `MUL(y, RSQRT(x))`, which is rounded twice, so last bits
    differ. Only of floats, and where nothing else reads the root.
    """

    name = "fuse-rsqrt"
    needs = frozenset({"SQRT"})
    is_exact = False

    def run(self, graph: Graph) -> bool:
        """Fuse every division that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            root = rewriter.producer(op.input(1)) if op.kind == "DIV" else None
            if root is None or root.kind != "SQRT" or not rewriter.is_private(root.outputs[0]):
                continue
            if op.outputs[0].dtype is DType.FLOAT32:
                rewriter.replace([root, op], *_parts(root, op))
        return rewriter.finish()


def _parts(root: Op, op: Op) -> list[Op]:
    inputs: list[Tensor | None] = [root.inputs[0]]
    if is_plain(op, "DIV") and scalar_of(op.inputs[0]) == 1.0 and _spreads_nothing(root, op):
        return [made_of(op, "RSQRT", inputs, NoAttrs())]
    inverse = made_of(root, "RSQRT", inputs, NoAttrs())
    factors = [op.inputs[0], root.outputs[0]]
    return [inverse, made_of(op, "MUL", factors, MulAttrs(activation_of(op)))]


def _spreads_nothing(root: Op, op: Op) -> bool:
    return root.outputs[0].shape == op.outputs[0].shape
