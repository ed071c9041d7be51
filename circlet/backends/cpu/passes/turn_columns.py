"""Signals that lie down an image lie along its rows instead, where kernels meet many at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.geometry import SAME_UPPER, Padding
from circlet.ops.operands import operand
from circlet.passes import Contract, Rewriter

_ROWS, _COLUMNS = 1, 2
_FEWEST = 32  # rows of outputs: views and borders cost as much as fewer gain


@dataclass(frozen=True)
class TurnColumns:
    """Convolve an image of one column as one of a single row.

    Before: `CONV_2D(x, w)` where x is N x L x 1 x C and w is O x K x 1 x C, as some exporters write
    convolutions of signals. After: `RESHAPE(CONV_2D(RESHAPE(x), w'))` over N x 1 x L x C, with the
    same elements in the same order.
    """

    name = "turn-columns"
    contract = Contract(
        grows=dict.fromkeys(("operators", "bytes_moved"), "views of what is read and made count")
    )
    needs = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})

    def run(self, graph: Graph) -> bool:
        """Turn every convolution that can be."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if _is_column(op):
                _turn(op, rewriter)
        return rewriter.finish()


def _is_column(op: Op) -> bool:
    if op.kind not in TurnColumns.needs:
        return False
    weights = operand(op, 1)
    plain = weights.data is not None and weights.sparsity is None and weights.dtype.bits >= 8
    taps = weights.static_shape[_ROWS : _COLUMNS + 1]
    sizes = operand(op, 0).static_shape[_COLUMNS], op.outputs[0].static_shape[_COLUMNS]
    is_long = taps[0] > 1 and op.outputs[0].static_shape[_ROWS] >= _FEWEST
    return plain and is_long and (taps[1], *sizes) == (1, 1, 1) and _pads_rows_alone(op)


def _pads_rows_alone(op: Op) -> bool:
    padding = _attrs(op).padding
    return padding == SAME_UPPER or padding[1] == (0, 0)


def _attrs(op: Op) -> Conv2DAttrs | DepthwiseConv2DAttrs:
    assert isinstance(op.attrs, (Conv2DAttrs, DepthwiseConv2DAttrs))
    return op.attrs


def _turn(op: Op, rewriter: Rewriter) -> None:
    ahead, behind, result = Parts(op), Parts(op), op.outputs[0]
    image, gone = _row(operand(op, 0), ahead, rewriter)
    attrs, filters = _attrs(op), _turned(operand(op, 1))
    row = _sized_turned(result)
    turned = replace(
        attrs,
        padding=_reversed(attrs.padding),
        strides=attrs.strides[::-1],
        dilations=attrs.dilations[::-1],
    )
    _reshape(row, result, behind)
    inputs = [image, filters, *op.inputs[2:]]
    made = replace(op, inputs=inputs, outputs=[row], attrs=turned)
    rewriter.replace([*gone, op], *ahead.ops, made, *behind.ops)


def _row(image: Tensor, parts: Parts, rewriter: Rewriter) -> tuple[Tensor, list[Op]]:
    """The operand as a row, and what is no longer read: the view that a turned op ahead made."""
    maker = rewriter.producer(image)
    if maker is not None and maker.kind == "RESHAPE":
        source = operand(maker, 0)
        if source.static_shape == _sized_turned(image).static_shape and source.quant == image.quant:
            return source, [maker] if rewriter.is_private(image) else []
    row = _sized_turned(image)
    _reshape(image, row, parts)
    return row, []


def _reshape(source: Tensor, result: Tensor, parts: Parts) -> None:
    sizes = parts.constant(np.array(result.static_shape, np.int32))
    parts.make("RESHAPE", [source, sizes], result=result)


def _sized_turned(image: Tensor) -> Tensor:
    turned = image.like(f"{image.name} in a row")
    batch, rows, columns, channels = image.static_shape
    turned.shape, turned.default_shape = (batch, columns, rows, channels), None
    return turned


def _turned(weights: Tensor) -> Tensor:
    first, rows, columns, last = weights.static_shape
    shape = (first, columns, rows, last)
    data = np.asarray(weights.data).reshape(shape)
    return replace(weights, shape=shape, default_shape=None, data=data)


def _reversed(padding: Padding) -> Padding:
    return padding if padding == SAME_UPPER else padding[::-1]
