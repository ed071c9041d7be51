"""Normalisations and softmax."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import floats, resized, standard
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.softmax import SoftmaxAttrs


def _column(node: Node, values: Tensor, rank: int) -> Tensor:
    """One value for each channel of an image whose channels are axis 1."""
    return node.reshape(values, [-1, *[1] * (rank - 2)])


@importer("BatchNormalization")
def _batch_normalization(node: Node) -> Tensor:
    x, rank = node[0], node.rank(node[0])
    if node.whole("training_mode") or x.dtype is not DType.FLOAT32 or rank < 2:
        raise NotLoweredError("only the inference form over FLOAT32 is a few operators")
    scale, bias, mean, variance = (node[index] for index in range(1, 5))
    epsilon = node.const(np.float32(node.real("epsilon", 1e-5)))
    deviation = node.op("SQRT", [node.op("ADD", [variance, epsilon])])
    factor = node.op("DIV", [scale, deviation])
    term = node.op("SUB", [bias, node.op("MUL", [mean, factor])])
    scaled = node.op("MUL", [x, _column(node, factor, rank)])
    return node.op("ADD", [scaled, _column(node, term, rank)])


def normalised(node: Node, x: Tensor, axes: list[int], epsilon: float) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) along axes."""
    places, keep = node.const(axes, np.int32), ReducerAttrs(True)
    centred = node.op("SUB", [x, node.op("MEAN", [x, places], keep)])
    variance = node.op("MEAN", [node.op("MUL", [centred, centred]), places], keep)
    with_epsilon = node.op("ADD", [variance, node.const(np.float32(epsilon))])
    return node.op("MUL", [centred, node.op("RSQRT", [with_epsilon])])


def channels_of_group(channels: int | None, groups: int) -> int:
    """How many of the channels one of equal groups has.

    Raises:
        NotLoweredError: Their number is open, or no multiple of the groups.
    """
    if channels is None or groups < 1 or channels % groups:
        raise NotLoweredError("the number of channels is open, or not a multiple of the groups")
    return channels // groups


def normalised_groups(node: Node, x: Tensor, groups: int, epsilon: float) -> Tensor:
    """The pixels of each group of channels, of axis 1, normalised: [batch, group, -1]."""
    channels_of_group(x.shape[1], groups)
    return normalised(node, resized(node, x, [0, groups, -1]), [2], epsilon)


@importer("GroupNormalization", since=21)
def _group_normalization(node: Node) -> Tensor:
    """Groups normalised, then a factor and a term for each channel."""
    x, rank = floats(node), node.rank(node[0])
    made = normalised_groups(node, x, node.whole("num_groups"), node.real("epsilon", 1e-5))
    made = standard(node, "Reshape", [made, node.sizes(x)])
    scaled = node.op("MUL", [made, _column(node, node[1], rank)])
    return node.op("ADD", [scaled, _column(node, node[2], rank)])


@importer("GroupNormalization", since=18)
def _scaled_group_normalization(node: Node) -> Tensor:
    """The same with a factor and a term for each group."""
    x = floats(node)
    made = normalised_groups(node, x, node.whole("num_groups"), node.real("epsilon", 1e-5))
    scaled = node.op("MUL", [made, _column(node, node[1], 3)])
    made = node.op("ADD", [scaled, _column(node, node[2], 3)])
    return standard(node, "Reshape", [made, node.sizes(x)])


@importer("InstanceNormalization")
def _instance_normalization(node: Node) -> Tensor:
    x, rank = node[0], node.rank(node[0])
    made = normalised(node, x, list(range(2, rank)), node.real("epsilon", 1e-5))
    scaled = node.op("MUL", [made, _column(node, node[1], rank)])
    return node.op("ADD", [scaled, _column(node, node[2], rank)])


@importer("LayerNormalization")
def _layer_normalization(node: Node) -> Tensor:
    x, rank = node[0], node.rank(node[0])
    if node.wants(1) or node.wants(2) or x.dtype is not DType.FLOAT32:
        raise NotLoweredError("mean and deviation are asked for, or x is not FLOAT32")
    axis = node.axis(node.whole("axis", -1), rank)
    made = normalised(node, x, list(range(axis, rank)), node.real("epsilon", 1e-5))
    made = node.op("MUL", [made, node[1]])
    bias = node.optional(2)
    return made if bias is None else node.op("ADD", [made, bias])


@importer("RMSNormalization")
def _rms_normalization(node: Node) -> Tensor:
    x, rank = floats(node), node.rank(node[0])
    axes = node.const(range(node.axis(node.whole("axis", -1), rank), rank), np.int32)
    squares = node.op("MEAN", [node.op("MUL", [x, x]), axes], ReducerAttrs(True))
    epsilon = node.const(np.float32(node.real("epsilon", 1e-5)))
    inverse = node.op("RSQRT", [node.op("ADD", [squares, epsilon])])
    return node.op("MUL", [node.op("MUL", [x, inverse]), node[1]])


@importer("LpNormalization")
def _lp_normalization(node: Node) -> Tensor:
    """x over its norm along an axis; what has the norm 0 stays 0."""
    x, order = node[0], node.whole("p", 2)
    if x.dtype is not DType.FLOAT32 or order not in (1, 2):
        raise NotLoweredError("only FLOAT32 is normalised so, by sums or by squares")
    axis = node.const([node.axis(node.whole("axis", -1), node.rank(x))], np.int32)
    sizes = node.op("ABS", [x]) if order == 1 else node.op("MUL", [x, x])
    norm = node.op("SUM", [sizes, axis], ReducerAttrs(True))
    norm = norm if order == 1 else node.op("SQRT", [norm])
    is_zero = node.op("EQUAL", [norm, node.const(np.float32(0))], dtype=DType.BOOL)
    one = node.const(np.float32(1))
    return node.op("DIV", [x, node.op("SELECT_V2", [is_zero, one, norm], dtype=x.dtype)])


@importer("LRN")
def _local_response_norm(node: Node) -> Tensor:
    x, size = node[0], node.whole("size")
    if x.dtype is not DType.FLOAT32 or size is None or size < 1 or size % 2 == 0:
        raise NotLoweredError("only FLOAT32 with as many channels on either side is normalised so")
    alpha, beta = node.real("alpha", 1e-4) / size, node.real("beta", 0.75)
    attrs = LocalResponseNormAttrs(size // 2, node.real("bias", 1.0), alpha, beta)
    made = node.op("LOCAL_RESPONSE_NORMALIZATION", [node.channels_last(x)], attrs)
    return node.channels_first(made)


def _along_last(node: Node, record: str, axis: int) -> Tensor:
    """A softmax along an axis, which is moved to the end and back."""
    x, rank = node[0], node.rank(node[0])
    order = [place for place in range(rank) if place != axis] + [axis]
    attrs = SoftmaxAttrs(1.0) if record == "SOFTMAX" else None
    made = node.op(record, [node.transpose(x, order)], attrs)
    return node.transpose(made, [int(place) for place in np.argsort(order)])


def _flattened(node: Node, record: str) -> Tensor:
    """A softmax over all axes from one on, as operator sets before 13 have it."""
    x, rank = node[0], node.rank(node[0])
    axis = node.axis(node.whole("axis", 1), rank)
    if axis == rank - 1 or all(size == 1 for size in x.shape[axis + 1 :]):
        return _along_last(node, record, axis)
    rows = x.shape[axis:]
    if None in rows or x.shape.count(None) > 1:
        raise NotLoweredError("sizes are open")
    flat = node.reshape(x, [-1, prod(size or 1 for size in rows)])
    made = node.op(record, [flat], SoftmaxAttrs(1.0) if record == "SOFTMAX" else None)
    return node.reshape(made, [-1 if size is None else size for size in x.shape])


@importer("Softmax")
def _old_softmax(node: Node) -> Tensor:
    return _flattened(node, "SOFTMAX")


@importer("Softmax", since=13)
def _softmax(node: Node) -> Tensor:
    return _along_last(node, "SOFTMAX", node.axis(node.whole("axis", -1), node.rank(node[0])))


@importer("LogSoftmax")
def _old_log_softmax(node: Node) -> Tensor:
    return _flattened(node, "LOG_SOFTMAX")


@importer("LogSoftmax", since=13)
def _log_softmax(node: Node) -> Tensor:
    return _along_last(node, "LOG_SOFTMAX", node.axis(node.whole("axis", -1), node.rank(node[0])))
