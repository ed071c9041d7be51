"""Operators as TFLite's own tools write them: files can store them, engines take them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from circlet.ir import DType, Graph, Op, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops.build import default_attrs
from circlet.ops.conv import window_of
from circlet.ops.geometry import SAME_UPPER, Padding, Window2D
from circlet.ops.operands import known_ints, operand
from circlet.ops.pool import pool_window_of
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs, transposed_window_of
from circlet.passes.canonicalize_reshape import target_sizes
from circlet.passes.rewriter import Rewriter

_OUTPUTS_FIRST = {"CONV_2D": 0, "CONV_3D": -1, "DEPTHWISE_CONV_2D": -1, "FULLY_CONNECTED": 0}
_WINDOWS = frozenset({"CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D"})


@dataclass(frozen=True)
class LegalizeTflite:
    """Say by other operators what files, or LiteRT, cannot hold.

    Paddings that are neither SAME nor VALID become an op: `CONV_2D{pads} -> PAD, CONV_2D{VALID}`,
    and `TRANSPOSE_CONV{pads} -> TRANSPOSE_CONV{VALID}, SLICE`. Convolutions and fully connected
    layers of constant weights get a bias of zeros where they have none, and RESHAPE its sizes both
    as an operand and as an attribute. Results are the same bits, but for the sign of sums of -0.
    """

    name = "legalize-tflite"

    def run(self, graph: Graph) -> bool:
        """Rewrite every op that is not said so."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            made = _legal(op)
            if made:
                rewriter.replace([op], *made)
        return rewriter.finish()


def _legal(op: Op) -> list[Op]:
    if op.kind == "RESHAPE":
        return _with_sizes(op)
    if op.kind == "TRANSPOSE_CONV" and _has_own_padding(op):
        return _sliced(op)
    if op.kind in _WINDOWS and _has_own_padding(op):
        *before, last = _padded(op)
        return [*before, _with_bias(last) or last]
    biased = _with_bias(op)
    return [biased] if biased else []


def _has_own_padding(op: Op) -> bool:
    """Whether there is a padding that neither SAME nor VALID stands for."""
    padding = vars(op.attrs)["padding"]
    if not isinstance(padding, tuple) or not any(map(any, padding)):
        return False
    window, image = _window(op)
    if window is None or None in image.shape:
        return True
    _, height, width, _ = image.static_shape
    same = window._replace(padding=SAME_UPPER)
    return same.output(height, width) != window.output(height, width) or padding != same.pads(
        height, width
    )


def _window(op: Op) -> tuple[Window2D | None, Tensor]:
    """The windows of an op, and the image that they slide over."""
    if op.kind == "TRANSPOSE_CONV":
        return transposed_window_of(op), op.outputs[0]
    if op.kind == "CONV_3D":
        return None, operand(op, 0)
    return (pool_window_of if op.kind == "MAX_POOL_2D" else window_of)(op), operand(op, 0)


def _with_sizes(op: Op) -> list[Op]:
    sizes, given = target_sizes(op.outputs[0]), op.input(1)
    if sizes is None or (given is not None and op.attributes(ReshapeAttrs).new_shape == sizes):
        return []
    target = constant(f"{op.outputs[0].name}/shape", np.array(sizes, np.int32))
    return [replace(op, inputs=[op.inputs[0], target], attrs=ReshapeAttrs(sizes))]


def _with_bias(op: Op) -> Op | None:
    if op.kind not in _OUTPUTS_FIRST or op.input(2) is not None:
        return None
    data, weights = operand(op, 0), operand(op, 1)
    count = weights.shape[_OUTPUTS_FIRST[op.kind]]
    if weights.data is None or count is None:
        return None
    bias = _zeros(op, data, weights, count)
    return None if bias is None else replace(op, inputs=[data, weights, bias])


def _zeros(op: Op, data: Tensor, weights: Tensor, count: int) -> Tensor | None:
    name = f"{op.outputs[0].name}/bias"
    if data.dtype is DType.FLOAT32:
        return constant(name, np.zeros(count, np.float32))
    if data.quant is None or weights.quant is None or not weights.quant.is_affine:
        return None
    scales = np.broadcast_to(weights.quant.scale, (count,)) * data.quant.first[0]
    kept = scales[:1] if len(weights.quant.scale) == 1 else scales
    wide = np.int64 if data.dtype is DType.INT16 else np.int32
    return constant(name, np.zeros(count, wide), Quantization.per_channel(kept, 0))


def _padded(op: Op) -> list[Op]:
    data, attrs = operand(op, 0), _attrs(op)
    pads: Padding = attrs.padding
    amounts = ((0, 0), *pads, (0, 0))
    wider = data.like(f"{op.outputs[0].name}/padded")
    pairs = zip(data.shape, amounts, strict=True)
    wider.shape = tuple(None if size is None else size + sum(each) for size, each in pairs)
    wider.default_shape = None
    inputs: list[Tensor | None] = [
        data,
        constant(f"{wider.name}/amounts", np.array(amounts, np.int32)),
    ]
    kind = "PADV2" if op.kind == "MAX_POOL_2D" else "PAD"
    if kind == "PADV2":
        lowest = np.array(_lowest(data.dtype), data.dtype.numpy)
        inputs.append(constant(f"{wider.name}/lowest", lowest, data.quant))
    pad = Op(kind, inputs, [wider], default_attrs(kind), op.origin)
    plain = replace(attrs, padding=((0, 0),) * len(pads))
    return [pad, replace(op, inputs=[wider, *op.inputs[1:]], attrs=plain)]


def _sliced(op: Op) -> list[Op]:
    """The whole transposed convolution, and the part of it that is wanted."""
    attrs, sizes = op.attributes(TransposeConvAttrs), known_ints(operand(op, 0))
    if sizes is None or not isinstance(attrs.padding, tuple):
        return []
    (top, bottom), (left, right) = attrs.padding
    whole = (sizes[0], sizes[1] + top + bottom, sizes[2] + left + right, sizes[3])
    result = op.outputs[0]
    wider = result.like(f"{result.name}/whole")
    wider.shape, wider.default_shape = whole, None
    target = constant(f"{wider.name}/sizes", np.array(whole, np.int32))
    plain = replace(attrs, padding=((0, 0), (0, 0)))
    larger = replace(op, inputs=[target, *op.inputs[1:]], outputs=[wider], attrs=plain)
    begin = constant(f"{result.name}/begin", np.array([0, top, left, 0], np.int32))
    extent = constant(f"{result.name}/size", np.array(sizes, np.int32))
    part = Op("SLICE", [wider, begin, extent], [result], default_attrs("SLICE"), op.origin)
    return [larger, part]


def _lowest(dtype: DType) -> float:
    lowest: Any = np.iinfo if dtype.numpy.kind in "iu" else np.finfo
    return float(lowest(dtype.numpy).min)


def _attrs(op: Op) -> Any:
    return op.attrs
