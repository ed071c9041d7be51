"""Padding by amounts as an operator of its own, as .tflite and .circle files can say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.conv3d import Conv3DAttrs
from circlet.ops.geometry import SAME_UPPER, Window2D
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.pool import Pool2DAttrs, pool_window_of
from circlet.passes.rewriter import Rewriter

_KINDS = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"})


@dataclass(frozen=True)
class SplitPad:
    """Put the padding of a convolution or maximum into an operator before it, where files must.

    Before: `x -> CONV_2D{((1, 1), (1, 1))}`. After: `x -> PAD [0,0][1,1][1,1][0,0] -> CONV_2D`.
    A padding that is the one that files call SAME stays. A maximum is over PADV2 with the lowest
    value there is.
    """

    name = "split-pad"
    needs = _KINDS

    def run(self, graph: Graph) -> bool:
        """Split every padding that files cannot say."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            amounts = _amounts(op)
            if amounts and not _is_same(op):
                rewriter.replace([op], *_split(op, amounts))
        return rewriter.finish()


def _amounts(op: Op) -> tuple[tuple[int, int], ...]:
    """The elements before and after each axis; none where there is nothing to split."""
    attrs = op.attrs
    known = Conv2DAttrs | DepthwiseConv2DAttrs | Conv3DAttrs | Pool2DAttrs
    if op.kind not in _KINDS or not isinstance(attrs, known):
        return ()
    padding = attrs.padding
    return padding if isinstance(padding, tuple) and any(map(any, padding)) else ()


def _is_same(op: Op) -> bool:
    """Whether the amounts are those of SAME at the sizes that are known."""
    if op.kind == "CONV_3D":
        return False
    _, height, width, _ = operand(op, 0).shape
    if height is None or width is None:
        return False
    window: Window2D = pool_window_of(op) if op.kind == "MAX_POOL_2D" else window_of(op)
    same = window._replace(padding=SAME_UPPER)
    is_as_many = same.output(height, width) == window.output(height, width)
    return is_as_many and same.pads(height, width) == window.pads(height, width)


def _split(op: Op, amounts: Sequence[tuple[int, int]]) -> tuple[Op, Op]:
    source = operand(op, 0)
    sides = [(0, 0), *amounts, (0, 0)]
    sizes = zip(source.shape, sides, strict=True)
    padded = source.like(f"{source.name}_padded")
    padded.shape = tuple(None if n is None else n + sum(around) for n, around in sizes)
    padded.default_shape = None
    inputs: list[Tensor | None] = [source, constant("paddings", np.array(sides, np.int32))]
    kind = "PAD"
    if op.kind == "MAX_POOL_2D":
        kind = "PADV2"
        inputs.append(constant("lowest", _lowest(source), source.quant))
    pad = Op(kind, inputs, [padded], NoAttrs(), op.origin)
    attrs = replace(op.attrs, padding=((0, 0),) * len(amounts))  # type: ignore[type-var]
    return pad, replace(op, inputs=[padded, *op.inputs[1:]], attrs=attrs)


def _lowest(tensor: Tensor) -> np.ndarray:
    """The value that is no more than any other of a tensor."""
    dtype = np.dtype(tensor.dtype.numpy)
    return np.array(
        -np.inf if dtype.kind == "f" else np.iinfo(tensor.dtype.name.lower()).min, dtype
    )
