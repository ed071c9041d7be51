"""Attention whose projections, masks and caches are operands of one operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.formats.onnx.importers.microsoft.quantised import scaled_product
from circlet.formats.onnx.importers.quantisation import MICROSOFT
from circlet.formats.onnx.node import Node, NotLoweredError
from circlet.formats.onnx.standard import (
    chosen,
    compared,
    counting,
    floats,
    joined,
    resized,
    scaled,
    size_of,
    split,
    standard,
    widened,
)
from circlet.formats.onnx.table import importer
from circlet.ir import DType, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.shape import SqueezeAttrs
from circlet.ops.softmax import SoftmaxAttrs

LOWEST = float(np.finfo(np.float32).min)
_FILTERED = -10000.0


def heads(node: Node, x: Tensor, count: int) -> Tensor:
    """[batch, rows, count * size] as [batch, count, rows, size]."""
    columns = x.shape[-1] if x.has_rank else None
    if count < 1 or columns is None or columns % count or node.rank(x) != 3:
        raise NotLoweredError("heads do not divide the columns, or their number is open")
    return node.transpose(resized(node, x, [0, 0, count, columns // count]), [0, 2, 1, 3])


def columns_of(node: Node, x: Tensor) -> Tensor:
    """[batch, heads, rows, size] as [batch, rows, heads * size]."""
    turned = node.transpose(x, [0, 2, 1, 3])
    count, size = turned.shape[2:]
    columns = -1 if count is None or size is None else count * size
    return resized(node, turned, [0, 0, columns])


def scores(node: Node, q: Tensor, k: Tensor) -> Tensor:
    """How well keys fit queries: products times the node's scale, or 1 / sqrt(size)."""
    size = q.shape[-1]
    if size is None:
        raise NotLoweredError("the size of a head is open")
    products = node.op("BATCH_MATMUL", [q, k], BatchMatMulAttrs(adj_y=True))
    return scaled(node, products, node.real("scale", 0) or float(1 / np.sqrt(np.float32(size))))


def shares(node: Node, x: Tensor) -> Tensor:
    """The softmax of each row of scores."""
    return node.op("SOFTMAX", [x], SoftmaxAttrs(1.0))


def summed(node: Node, terms: Sequence[Tensor | None]) -> Tensor | None:
    """The sum of what is there, None of nothing."""
    given = [term for term in terms if term is not None]
    total = given[0] if given else None
    for term in given[1:]:
        assert total is not None
        total = node.op("ADD", [total, term])
    return total


def filtered(node: Node, seen: Tensor, value: float) -> Tensor:
    """What is added to scores: nothing where a key is seen, else a value."""
    return chosen(node, seen, node.const(np.float32(0)), node.const(np.float32(value)))


@dataclass(frozen=True)
class _Parts:
    """Heads of queries, keys and values, and how many keys a cache holds before the new ones."""

    q: Tensor
    k: Tensor
    v: Tensor
    new: Tensor

    def attend(self, node: Node, mask: Tensor | None, bias: Tensor | None) -> list[Tensor]:
        """The result, and the scores behind bias and masks."""
        terms = [bias, _padding(node, mask, self.q, self.k), self._causal(node)]
        term, before = summed(node, terms), scores(node, self.q, self.k)
        masked = before if term is None else node.op("ADD", [before, term])
        made = node.op("BATCH_MATMUL", [shares(node, masked), self.v], BatchMatMulAttrs())
        return [columns_of(node, made), masked]

    def _causal(self, node: Node) -> Tensor | None:
        """The mask of keys behind a query. The last query sees all, be there more keys or not."""
        rows = self.q.shape[2]
        if not node.whole("unidirectional") or rows == 1:
            return None
        count, total = size_of(node, self.q, 2), size_of(node, self.k, 2)
        before = node.op("SUB", [total, size_of(node, self.new, 2)])
        row = widened(node, counting(node, count), 1)
        seen = compared(node, "LESS_EQUAL", counting(node, total), node.op("ADD", [row, before]))
        if rows is None or rows != self.new.shape[2]:
            last = node.op("SUB", [count, node.const(1, np.int32)])
            is_last = compared(node, "EQUAL", row, last)
            seen = node.op("LOGICAL_OR", [seen, is_last])
        return filtered(node, seen, LOWEST)


def _padding(node: Node, mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """What a mask adds to scores: 0 in it is not seen, or it says where rows begin and end."""
    if mask is None:
        return None
    rank, value = node.rank(mask), node.real("mask_filter_value", _FILTERED)
    if rank == 1:
        return filtered(node, _between(node, mask, q, k), value)
    if rank > 3:
        raise NotLoweredError("masks of four axes are not read")
    seen = compared(node, "GREATER", mask, node.const(0, mask.dtype.numpy))
    return filtered(node, widened(node, seen, *([1, 2] if rank == 2 else [1])), value)


def _between(node: Node, mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Keys before the ends that a mask lists, and from the starts on that may follow them."""
    count, batch = mask.shape[0], q.shape[0]
    if count != batch and (count is None or batch is None or count != 2 * batch):
        raise NotLoweredError("a mask of one axis has neither the batch's size nor twice that")
    places = counting(node, size_of(node, k, 2))
    if count == batch:
        return compared(node, "LESS", places, widened(node, mask, 1, 2, 3))
    assert batch is not None
    ends, starts = (widened(node, x, 1, 2, 3) for x in split(node, mask, 0, [batch, batch]))
    before = compared(node, "LESS", places, ends)
    return node.op("LOGICAL_AND", [before, compared(node, "GREATER_EQUAL", places, starts)])


def _refuse_shared(node: Node, *places: int) -> None:
    if node.whole("past_present_share_buffer") or any(node.optional(at) for at in places):
        raise NotLoweredError("the cache is one buffer before and behind the node")
    if node.whole("do_rotary"):
        raise NotLoweredError("the tables of rotary embedding are not stated")


def projected(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """x * weights + bias."""
    if node.is_fixed(weights) and (bias is None or bias.data is not None):
        attrs = FullyConnectedAttrs(keep_num_dims=True)
        return node.op("FULLY_CONNECTED", [x, node.transpose(weights, [1, 0]), bias], attrs)
    product = standard(node, "MatMul", [x, weights])
    return product if bias is None else node.op("ADD", [product, bias])


def _three(node: Node, made: Tensor, weights: Tensor) -> list[Tensor]:
    """Columns of queries, keys and values of one projection, which `made` is."""
    columns = weights.shape[1] if node.rank(weights) == 2 else None
    sizes = node.ints("qkv_hidden_sizes")
    if sizes is None and columns is not None and columns % 3 == 0:
        sizes = (columns // 3,) * 3
    if sizes is None or len(sizes) != 3 or sum(sizes) != columns:
        raise NotLoweredError("the columns of queries, keys and values are not known")
    return split(node, made, -1, sizes)


def _self_attention(
    node: Node, columns: Sequence[Tensor], mask: Tensor | None, past: Tensor | None, bias: int
) -> list[Tensor]:
    q, k, v = (heads(node, x, node.whole("num_heads")) for x in columns)
    new = k
    if past is not None:
        before = [_first(node, x, 0) for x in split(node, past, 0, [1, 1])]
        k, v = (joined(node, pair, 2) for pair in zip(before, (k, v), strict=True))
    added = node.optional(bias) if bias >= 0 else None
    made = _Parts(q, k, v, new).attend(node, mask, added)[0]
    if not node.wants(1):
        return [made]
    return [made, joined(node, [widened(node, x, 0) for x in (k, v)], 0)]


def _first(node: Node, x: Tensor, axis: int) -> Tensor:
    """`x` without an axis of size 1."""
    return node.op("SQUEEZE", [x], SqueezeAttrs((axis,)))


@importer("Attention", domain=MICROSOFT)
def _attention(node: Node) -> list[Tensor]:
    _refuse_shared(node, 6)
    made = projected(node, floats(node), node[1], node.optional(2))
    columns = _three(node, made, node[1])
    return _self_attention(node, columns, node.optional(3), node.optional(4), 5)


@importer("QAttention", domain=MICROSOFT)
def _quantised_attention(node: Node) -> list[Tensor]:
    _refuse_shared(node)
    zeros = node.optional(6), node.optional(7)
    made = scaled_product(node, (node[0], node[1]), (node[3], node[4]), zeros, node[2])
    columns = _three(node, made, node[1])
    return _self_attention(node, columns, node.optional(5), node.optional(8), -1)


@importer("PackedAttention", domain=MICROSOFT)
def _packed_attention(node: Node) -> Tensor:
    """Tokens of several sequences behind each other; one sees those of its own sequence."""
    if node.optional(5) is not None:
        raise NotLoweredError("a bias for each sequence is given")
    made = projected(node, floats(node), node[1], node[2])
    rows = [widened(node, x, 0) for x in _three(node, made, node[1])]
    q, k, v = (heads(node, x, node.whole("num_heads")) for x in rows)
    places = counting(node, size_of(node, q, 2))
    ends = widened(node, node.cast(node[4], DType.INT32), 1)
    passed = node.cast(compared(node, "LESS_EQUAL", ends, places), DType.INT32)
    number = standard(node, "ReduceSum", [passed, node.const([0], np.int64)], keepdims=0)
    own = compared(node, "EQUAL", widened(node, number, 0), widened(node, number, 1))
    masked = node.op("ADD", [scores(node, q, k), filtered(node, own, LOWEST)])
    made = node.op("BATCH_MATMUL", [shares(node, masked), v], BatchMatMulAttrs())
    return _first(node, columns_of(node, made), 0)


@importer("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(node: Node) -> list[Tensor]:
    _refuse_shared(node, 8, 9)
    count = node.whole("num_heads")
    q, k, v = (_in_heads(node, x, count) for x in _with_bias(node, _columns(node)))
    new, past = k, [node.optional(6), node.optional(7)]
    if past[0] is not None and past[1] is not None:
        k, v = joined(node, [past[0], k], 2), joined(node, [past[1], v], 2)
    made, masked = _Parts(q, k, v, new).attend(node, node.optional(4), node.optional(5))
    return [made, k, v, masked]


def _columns(node: Node) -> list[Tensor]:
    """Queries, keys and values, each [batch, rows, columns]; keys and values maybe as heads."""
    x, keys, values = floats(node), node.optional(1), node.optional(2)
    if node.rank(x) == 5:
        return _unpacked(node, x)
    if keys is None:
        raise NotLoweredError("keys are omitted, and queries hold none")
    if node.rank(keys) == 5:
        return [x, *_unpacked(node, keys)]
    if values is None:
        raise NotLoweredError("values are omitted, and keys hold none")
    return [x, keys, values]


def _unpacked(node: Node, x: Tensor) -> list[Tensor]:
    """Tensors that lie side by side on axis 3 of [batch, rows, heads, several, size]."""
    count = x.shape[3]
    if count is None:
        raise NotLoweredError("how many tensors are packed is open")
    parts = [_first(node, part, 3) for part in split(node, x, 3, [1] * count)]
    return [columns_of(node, node.transpose(part, [0, 2, 1, 3])) for part in parts]


def _with_bias(node: Node, columns: list[Tensor]) -> list[Tensor]:
    bias = node.optional(3)
    if bias is None:
        return columns
    sizes = [x.shape[-1] for x in columns if node.rank(x) == 3]
    if len(sizes) != 3 or None in sizes:
        raise NotLoweredError("a bias is added to columns whose number is open, or to heads")
    terms = split(node, bias, 0, [size or 0 for size in sizes])
    return [node.op("ADD", pair) for pair in zip(columns, terms, strict=True)]


def _in_heads(node: Node, x: Tensor, count: int) -> Tensor:
    return x if node.rank(x) == 4 else heads(node, x, count)
