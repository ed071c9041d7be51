"""Paddings that no file can say become operators, which files can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Graph, Op, Shape, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.conv3d import Conv3DAttrs, windows_of
from circlet.ops.geometry import Padding, Window, pads_as_same
from circlet.ops.operands import known_ints, operand
from circlet.ops.pool import Pool2DAttrs, pool_window_of
from circlet.ops.transpose_conv import TransposeConvAttrs, transposed_window_of
from circlet.passes.contract import Contract
from circlet.passes.pool_padding import split_pool
from circlet.passes.rewriter import Rewriter

_ZERO = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D"})
_LOWEST = frozenset({"MAX_POOL_2D"})
_AVERAGES = frozenset({"AVERAGE_POOL_2D", "L2_POOL_2D"})
_PADDED = (Conv2DAttrs, DepthwiseConv2DAttrs, Conv3DAttrs, Pool2DAttrs, TransposeConvAttrs)


@dataclass(frozen=True)
class SplitPadding:
    """Pad images in an operator of its own where files know no word for the amounts.

    Before: `CONV_2D{padding ((3, 3), (3, 3))}`, as .onnx files have it. After:
    `PAD [0,0][3,3][3,3][0,0] -> CONV_2D{unpadded}`; PADV2 with the lowest value before MAX_POOL_2D.
    TRANSPOSE_CONV makes the whole image, and SLICE takes the part of it. The padding of averages
    does not count: `PAD -> DEPTHWISE_CONV_2D of ones -> DIV by the pixels of each window`, and of
    integers a pool for each part of the image whose windows hold equally many.
    """

    name = "split-padding"
    needs = _ZERO | _LOWEST | _AVERAGES | {"TRANSPOSE_CONV"}
    contract = Contract(
        grows={
            **dict.fromkeys(("operators", "bytes_moved"), "a padded image is a tensor of its own"),
            "macs": "a sum of pixels is a product with ones",
        }
    )

    def run(self, graph: Graph) -> bool:
        """Split every padding that is neither SAME nor none."""
        rewriter = Rewriter(graph)
        for op in rewriter.ops():
            if op.kind in self.needs and _is_unsaid(op):
                made = _made(op)
                if made:
                    rewriter.replace([op], *made)
        return rewriter.finish()


def _made(op: Op) -> list[Op]:
    """The operators in the place of one; none where they depend on open sizes."""
    if op.kind in _AVERAGES:
        return split_pool(op)
    return _sliced(op) if op.kind == "TRANSPOSE_CONV" else _split(op)


def _is_unsaid(op: Op) -> bool:
    padding = _padding(op)
    image = op.outputs[0] if op.kind == "TRANSPOSE_CONV" else operand(op, 0)
    if isinstance(padding, str) or not any(map(any, padding)) or not image.has_rank:
        return False
    if image.dtype not in (DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT16):
        return False
    return not pads_as_same(padding, image.shape[1:-1], _windows(op))


def _padding(op: Op) -> Padding:
    assert isinstance(op.attrs, _PADDED)
    return op.attrs.padding


def _windows(op: Op) -> Sequence[Window]:
    if op.kind == "CONV_3D":
        return windows_of(op)
    if op.kind == "TRANSPOSE_CONV":
        return transposed_window_of(op)[1:]
    return (pool_window_of if isinstance(op.attrs, Pool2DAttrs) else window_of)(op)[1:]


def _split(op: Op) -> list[Op]:
    """The operator that pads, and the one that is left to do."""
    padding, image = _padding(op), operand(op, 0)
    assert not isinstance(padding, str)
    amounts = ((0, 0), *padding, (0, 0))
    padded = image.like(f"{image.name} padded")
    padded.shape = _padded(image.shape, amounts)
    padded.default_shape = None
    if image.default_shape is not None:
        padded.default_shape = tuple(map(int, _padded(image.default_shape, amounts)))  # type: ignore[arg-type]
    table = constant("paddings", np.array(amounts, np.int32))
    kind, inputs = "PAD", [image, table]
    if op.kind in _LOWEST:
        kind, inputs = "PADV2", [image, table, _lowest(image)]
    assert isinstance(op.attrs, _PADDED)
    attrs = replace(op.attrs, padding=((0, 0),) * len(padding))
    rest = replace(op, inputs=[padded, *op.inputs[1:]], attrs=attrs)
    return [Op(kind, [*inputs], [padded], NoAttrs(), op.origin), rest]


def _padded(shape: Shape, amounts: Sequence[tuple[int, int]]) -> Shape:
    pairs = zip(shape, amounts, strict=True)
    return tuple(None if size is None else before + size + after for size, (before, after) in pairs)


def _lowest(image: Tensor) -> Tensor:
    """What no element is below, as a constant of the image's type and scale."""
    is_float = image.dtype is DType.FLOAT32
    value = -np.inf if is_float else np.iinfo(image.dtype.name.lower()).min
    return constant("lowest", np.array(value, image.dtype.numpy), image.quant)


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
    part = Op("SLICE", [wider, begin, extent], [result], NoAttrs(), op.origin)
    return [larger, part]
