"""Clamp in the op that computes, not in one of its own."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.requantize import activation_of
from circlet.passes.match import same_meaning
from circlet.passes.rewriter import Rewriter

_ACTIVATIONS = frozenset({"RELU", "RELU6", "RELU_N1_TO_1"})
_PRODUCERS = frozenset(
    {
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
        "ADD",
        "SUB",
        "MUL",
        "DIV",
        "MAX_POOL_2D",
        "AVERAGE_POOL_2D",
        "INSTANCE_NORM",
    }
)
_AFFINE = frozenset({DType.INT8, DType.UINT8, DType.INT16})


@dataclass(frozen=True)
class FuseActivation:
    """Move a clamp into the `activation` of the op before it.

    Before: `CONV_2D -> t -> RELU6 -> y`. After: `CONV_2D{RELU6} -> y`. Only where the clamp alone
    reads t, and for quantised values only where t and y have one scale, so results stay equal bit
    for bit.
    """

    name = "fuse-activation"
    needs = _ACTIVATIONS

    def run(self, graph: Graph) -> bool:
        """Fuse every clamp that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            middle = op.input(0)
            producer = rewriter.producer(middle)
            if middle is None or producer is None or op.kind not in _ACTIVATIONS:
                continue
            if rewriter.is_private(middle) and _can_clamp(producer, middle, op.outputs[0]):
                attrs = _with_activation(producer.attrs, op.kind)
                rewriter.replace([producer, op], replace(producer, outputs=op.outputs, attrs=attrs))
        return rewriter.finish()


def _can_clamp(producer: Op, middle: Tensor, result: Tensor) -> bool:
    if producer.kind not in _PRODUCERS or not same_meaning(middle, result):
        return False
    affine = result.dtype in _AFFINE and result.quant is not None and result.quant.is_affine
    plain = activation_of(producer) == "NONE"
    return plain and (affine or result.dtype is DType.FLOAT32)


def _with_activation(attrs: object, kind: str) -> object:
    if not is_dataclass(attrs) or isinstance(attrs, type):
        return attrs
    return replace(attrs, activation=kind)
