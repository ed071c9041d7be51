"""Sums of whole numbers: exact in FLOAT32 up to 2^24, so in as many slices as stay below."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from circlet.formats.onnx.importers.windows import (
    as_image,
    as_signal,
    image_padding,
    padding_of,
    pair_of,
    steps_of,
)
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.onnx.integer_sums import CONV, MATMUL, has_one_zero, has_signed_weights
from circlet.ops.onnx.record import OnnxAttrs

_EXACT_SUM = 1 << 24
_CODES = {kind: kind.removeprefix("CUSTOM:") for kind in (MATMUL, CONV)}
_WINDOWS = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


@importer("MatMulInteger")
def _mat_mul_integer(node: Node) -> Tensor:
    if not all(tensor is None or tensor.has_rank for tensor in node.inputs):
        raise NotLoweredError("a rank is not known")
    return node.op("CUSTOM", node.inputs, OnnxAttrs(), DType.INT32, _CODES[MATMUL])


@importer("ConvInteger")
def _conv_integer(node: Node) -> Tensor:
    """The record over NHWC, where kernels take the bytes; else Conv over slices of the channels."""
    x, weights = node[0], node[1]
    if node.rank(x) in (3, 4) and node.whole("group", 1) == 1:
        filters = _filters(node, weights, node.rank(x))
        if _are_stored(node, CONV, filters):
            return _stored_convolution(node, filters)
    if weights.data is None or node.rank(x) < 3 or x.dtype.bits != 8:
        raise NotLoweredError("only constant weights are cut into slices whose sums are exact")
    centred = _centred(node, weights.data, [1] * (len(weights.shape) - 1))
    slices = _exact_slices(centred.reshape(*centred.shape[:2], -1))
    if len(slices) > 1 and node.whole("group", 1) != 1:
        raise NotLoweredError("sums of a group are too large for FLOAT32")
    given = {name: node.attributes[name] for name in _WINDOWS if name in node.attributes}

    def product(begin: int, end: int) -> Tensor:
        whole = (begin, end) == (0, centred.shape[1])
        part = image if whole else _part(node, image, 1, begin, end)
        filters = node.const(np.ascontiguousarray(centred[:, begin:end]))
        # Kernels that transform windows come near to whole numbers only.
        return node.op("ROUND", [standard(node, "Conv", [part, filters], **given)])

    image = _less_zero(node, x)
    return _summed(node, slices, product)


def _are_stored(node: Node, kind: str, weights: Tensor) -> bool:
    """Whether kernels take the bytes of both operands."""
    x, zero = node[0], node.optional(2)
    if x.data is not None or x.dtype.bits != 8 or not has_one_zero(zero):
        return False
    return has_signed_weights(kind, weights, node.optional(3))


def _filters(node: Node, weights: Tensor, rank: int) -> Tensor:
    """Constant weights of images, or of signals as those of images of one row."""
    if rank == 3 and weights.data is not None and weights.data.ndim == 3:
        return node.const(np.expand_dims(weights.data, 2))
    return weights


def _stored_convolution(node: Node, weights: Tensor) -> Tensor:
    x, rank = node[0], node.rank(node[0])
    if x.shape[1] not in (None, weights.shape[1]):
        raise node.wrong("channels and weights do not fit", f"{x.shape[1]} channels")
    kernel = [size or 0 for size in node[1].shape[2:]]
    padding = image_padding(padding_of(node, x.shape[2:], kernel))
    values: dict[str, object] = {
        name: pair_of(steps_of(node, name, len(kernel))) for name in ("dilations", "strides")
    }
    if padding == SAME_UPPER:
        values["auto_pad"] = SAME_UPPER
    else:
        (top, bottom), (left, right) = padding
        values["pads"] = (top, left, bottom, right)
    attrs = OnnxAttrs(tuple(sorted(values.items())), node.opset)
    image = node.channels_last(as_image(node, x))
    operands = [image, weights, *node.inputs[2:]]
    made = node.op("CUSTOM", operands, attrs, DType.INT32, _CODES[CONV])
    return as_signal(node, node.channels_first(made), rank)


def _centred(node: Node, weights: np.ndarray, behind: list[int]) -> np.ndarray:
    """Weights less their zero points, one or one for each filter, as FLOAT32."""
    if node.optional(3) is None:
        return weights.astype(np.float32)
    zeros = node.known(3)
    if zeros is None:
        raise NotLoweredError("the zero points of the weights are computed")
    shaped = zeros.reshape(-1, *behind) if zeros.size > 1 and behind else zeros
    return weights.astype(np.float32) - shaped.astype(np.float32)


def _less_zero(node: Node, x: Tensor) -> Tensor:
    """Activations less their zero point, as FLOAT32."""
    offset = node.optional(2)
    if offset is None:
        return node.cast(x, DType.FLOAT32)
    if offset.elements != 1:
        raise NotLoweredError("rows have zero points of their own")
    zero = node.reshape(node.cast(offset, DType.FLOAT32), [])
    return node.op("SUB", [node.cast(x, DType.FLOAT32), zero])


def _exact_slices(filters: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of [filters, depth, taps] whose products with bytes sum up to less than 2^24."""
    depth = filters.shape[1]
    ends, begin, sums = [], 0, np.zeros(len(filters))
    for index in range(depth):
        step = np.abs(filters[:, index].astype(np.float64)).sum(axis=1) * 255
        if (sums + step).max(initial=0) >= _EXACT_SUM:
            ends.append((begin, index))
            begin, sums = index, np.zeros(len(filters))
        sums = sums + step
    return [*ends, (begin, depth)] if depth else []


def _part(node: Node, x: Tensor, axis: int, begin: int, end: int) -> Tensor:
    starts, sizes = [0] * node.rank(x), [-1] * node.rank(x)
    starts[axis], sizes[axis] = begin, end - begin
    return node.op("SLICE", [x, node.const(starts, np.int32), node.const(sizes, np.int32)])


def _summed(
    node: Node, slices: list[tuple[int, int]], product: Callable[[int, int], Tensor]
) -> Tensor:
    """The products over slices, added as INT32."""
    total: Tensor | None = None
    for begin, end in slices:
        made = node.cast(product(begin, end), DType.INT32)
        total = made if total is None else node.op("ADD", [total, made])
    if total is None:
        raise NotLoweredError("there is nothing to sum")
    return total
