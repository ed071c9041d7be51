"""A padding that equals SAME needs no op."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.geometry import SAME_UPPER, UNPADDED
from circlet.ops.layout import paddings
from circlet.ops.operands import operand
from circlet.passes.match import same_meaning
from circlet.passes.rewriter import Rewriter

_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})


@dataclass(frozen=True)
class FusePad:
    """Drop a zero padding before an unpadded convolution that SAME_UPPER would do by itself.

    Before: `x -> PAD [0,0][1,1][1,1][0,0] -> CONV_2D{3x3}`. After: `x -> CONV_2D{SAME_UPPER}`.
    Other amounts stay an op, so that files can store what comes out.
    """

    name = "fuse-pad"
    needs = frozenset({"PAD", "PADV2"})

    def run(self, graph: Graph) -> bool:
        """Fuse every padding that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in _CONVOLUTIONS:
                _fuse(op, rewriter)
        return rewriter.finish()


def _fuse(op: Op, rewriter: Rewriter) -> None:
    attrs, padded = op.attrs, operand(op, 0)
    pad = rewriter.producer(padded)
    if pad is None or pad.kind not in ("PAD", "PADV2") or not rewriter.is_private(padded):
        return
    if not isinstance(attrs, Conv2DAttrs | DepthwiseConv2DAttrs) or attrs.padding != UNPADDED:
        return
    if operand(op, 1).dtype is padded.dtype and pads_zero(pad) and _pads_as_same(pad, op):
        inputs = [pad.inputs[0], *op.inputs[1:]]
        same = replace(op, inputs=inputs, attrs=replace(attrs, padding=SAME_UPPER))
        rewriter.replace([pad, op], same)


def pads_zero(pad: Op) -> bool:
    """Whether the padding stands for the real number 0 and only copies the rest."""
    source, result, fill = operand(pad, 0), pad.outputs[0], pad.input(2)
    if not same_meaning(source, result):
        return False
    if fill is None:
        return True
    return fill.data is not None and bool(np.all(fill.data == _zero(result)))


def _zero(tensor: Tensor) -> int:
    quant = tensor.quant
    if tensor.dtype is DType.FLOAT32 or quant is None or not quant.is_affine:
        return 0
    return int(quant.zero_point[0])


def _pads_as_same(pad: Op, op: Op) -> bool:
    amounts, shape = paddings(pad), operand(pad, 0).shape
    if amounts is None or len(amounts) != 4 or len(shape) != 4:
        return False
    _, height, width, _ = shape
    if height is None or width is None or operand(op, 1).shape.count(None):
        return False
    same = window_of(op)._replace(padding=SAME_UPPER)
    if amounts != ((0, 0), *same.pads(height, width), (0, 0)):
        return False
    return op.outputs[0].shape[1:3] == same.output(height, width)
