"""Operators that early exporters wrote and the standard has dropped since."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.node import Node
from circlet.formats.onnx.table import importer
from circlet.ir import Tensor
from circlet.ops.strided_slice import StridedSliceAttrs


@importer("Affine")
def _affine(node: Node) -> Tensor:
    factor, term = (node.const(np.float32(node.real(name, 1))) for name in ("alpha", "beta"))
    return node.op("ADD", [node.op("MUL", [node[0], factor]), term])


@importer("ImageScaler")
def _image_scaler(node: Node) -> Tensor:
    """scale * x, and a bias for each channel."""
    scaled = node.op("MUL", [node[0], node.const(np.float32(node.real("scale", 1)))])
    bias = np.array(node.attributes.get("bias", [0.0]), np.float32).reshape(-1, 1, 1)
    return node.op("ADD", [scaled, node.const(bias)])


@importer("Crop")
def _crop(node: Node) -> Tensor:
    """An image less its border: left, top, right, bottom; or of a size from left and top on."""
    border, scale = node.ints("border"), node.ints("scale")
    if border is None or len(border) != 4 or node.rank(node[0]) != 4:
        raise node.wrong("Crop needs an image and four borders")
    left, top, right, bottom = border
    ends = [top + scale[0], left + scale[1]] if scale else [-bottom, -right]
    mask = 0b0011 | (0 if scale else (not bottom) << 2 | (not right) << 3)
    lists = ([0, 0, top, left], [0, 0, *ends], [1, 1, 1, 1])
    attrs = StridedSliceAttrs(begin_mask=0b0011, end_mask=mask)
    given = [node.const(values, np.int32) for values in lists]
    return node.op("STRIDED_SLICE", [node[0], *given], attrs)
