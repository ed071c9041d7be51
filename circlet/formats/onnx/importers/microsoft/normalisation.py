"""Normalisations with the sums that go before them."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.normalisation import (
    channels_of_group,
    normalised,
    normalised_groups,
)
from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import counting, floats, resized, size_of, standard, widened
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.gather import GatherAttrs
from circlet.ops.reduce import ReducerAttrs

_SMALLEST = 1e-12


def _without_statistics(node: Node, *results: int) -> None:
    if any(node.wants(index) for index in results):
        raise NotLoweredError("mean and deviation are asked for")


@importer("LayerNormalization", domain=MICROSOFT)
def _layer_normalization(node: Node) -> Tensor:
    _without_statistics(node, 1, 2)
    return standard(node, "LayerNormalization", node.inputs, **node.attributes)


@importer("SimplifiedLayerNormalization", domain=MICROSOFT)
@importer("SimplifiedLayerNormalization")
def _simplified(node: Node) -> Tensor:
    _without_statistics(node, 1)
    return standard(node, "RMSNormalization", node.inputs[:2], **node.attributes)


def _with_skip(node: Node, bias: int) -> Tensor:
    """What is normalised: the first two operands, and a bias where there is one."""
    _without_statistics(node, 1, 2)
    total, term = node.op("ADD", [node[0], node[1]]), node.optional(bias)
    return total if term is None else node.op("ADD", [total, term])


@importer("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(node: Node) -> list[Tensor]:
    total, epsilon = _with_skip(node, 4), node.real("epsilon", _SMALLEST)
    operands = [total, node[2], node.optional(3)]
    made = standard(node, "LayerNormalization", operands, epsilon=epsilon)
    return [made, made, made, total]


@importer("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified(node: Node) -> list[Tensor]:
    total, epsilon = _with_skip(node, 3), node.real("epsilon", _SMALLEST)
    made = standard(node, "RMSNormalization", [total, node[2]], epsilon=epsilon)
    return [made, made, made, total]


@importer("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(node: Node) -> list[Tensor]:
    """Rows of words, of positions and of segments, added and normalised; lengths by a mask."""
    ids, segments, places = node[0], node.optional(1), node.optional(8)
    if places is None:
        places = counting(node, size_of(node, ids, 1))
    total = node.op("ADD", [_rows(node, node[2], ids), _rows(node, node[3], places)])
    if segments is not None:
        total = node.op("ADD", [total, _rows(node, node[4], segments)])
    epsilon = node.real("epsilon", _SMALLEST)
    made = standard(node, "LayerNormalization", [total, node[5], node[6]], epsilon=epsilon)
    lengths = _lengths(node, ids) if node.wants(1) else made
    return [made, lengths, total]


def _rows(node: Node, table: Tensor, indices: Tensor) -> Tensor:
    return node.op("GATHER", [table, indices], GatherAttrs(0))


def _lengths(node: Node, ids: Tensor) -> Tensor:
    """How many elements of each row of a mask are 1; zeros without one."""
    mask = node.optional(7)
    if mask is None:
        nothing = node.op("MUL", [ids, node.const(0, ids.dtype.numpy)])
    else:
        is_one = node.op("EQUAL", [mask, node.const(1, mask.dtype.numpy)], dtype=DType.BOOL)
        nothing = node.cast(is_one, DType.INT32)
    counted = node.cast(nothing, DType.INT32)
    return node.op("SUM", [counted, node.const([1], np.int32)], ReducerAttrs(False))


def _grouped(node: Node, x: Tensor) -> Tensor:
    """Group normalisation of an image, its channels last or first, and SiLU where asked for."""
    groups, rank = node.whole("groups"), node.rank(x)
    is_last, epsilon = bool(node.whole("channels_last", 1)), node.real("epsilon", 1e-5)
    if is_last:
        sides = resized(node, x, [0, -1, groups, channels_of_group(x.shape[-1], groups)])
        made = normalised(node, sides, [1, 3], epsilon)
    else:
        made = normalised_groups(node, x, groups, epsilon)
    made = standard(node, "Reshape", [made, node.sizes(x)])
    around = [1] * (0 if is_last else rank - 2)
    factor, term = (resized(node, node[index], [-1, *around]) for index in (1, 2))
    made = node.op("ADD", [node.op("MUL", [made, factor]), term])
    if node.whole("activation") not in (0, 1):
        raise node.wrong("an activation is neither 0 nor 1", str(node.whole("activation")))
    return node.op("MUL", [made, node.op("LOGISTIC", [made])]) if node.whole("activation") else made


@importer("GroupNorm", domain=MICROSOFT)
def _group_norm(node: Node) -> Tensor:
    return _grouped(node, floats(node))


@importer("SkipGroupNorm", domain=MICROSOFT)
def _skip_group_norm(node: Node) -> list[Tensor]:
    x, skip, bias = floats(node), node[3], node.optional(4)
    is_last, rank = bool(node.whole("channels_last", 1)), node.rank(node[0])
    spatial = range(1, rank - 1) if is_last else range(2, rank)
    if node.rank(skip) == 2:
        skip = widened(node, skip, *spatial)
    total = node.op("ADD", [x, skip])
    if bias is not None:
        total = node.op("ADD", [total, resized(node, bias, [-1, *[1] * (0 if is_last else 2)])])
    return [_grouped(node, total), total]
