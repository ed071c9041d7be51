"""Rotary embedding, and attention of groups of heads over a cache."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.importers.microsoft.attention import (
    LOWEST,
    columns_of,
    filtered,
    heads,
    scores,
    shares,
    summed,
)
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
from circlet.ops.gather import GatherAttrs

_NORM_EPSILON = 1e-6
_QUANTISED, _NORMS, _CHUNKED = (12, 13), (14, 15), 16


def rotated(
    node: Node, x: Tensor, tables: tuple[Tensor, Tensor], places: Tensor, *, interleaved: bool
) -> Tensor:
    """Heads [batch, heads, rows, size] whose pairs of columns are turned by angles of a place.

    Tables are cosines and sines [places, pairs]; columns behind the pairs stay as they are.
    """
    pairs, size = tables[0].shape[-1], x.shape[-1]
    if pairs is None or size is None or 2 * pairs > size:
        raise NotLoweredError("the columns that are turned are not known")
    turns = [node.op("GATHER", [table, places], GatherAttrs(0)) for table in tables]
    cosine, sine = (widened(node, turn, 1) for turn in turns)
    first, *rest = split(node, x, -1, [2 * pairs, size - 2 * pairs]) if size > 2 * pairs else [x]
    left, right = _paired(node, first, pairs, interleaved=interleaved)
    one = node.op("SUB", [node.op("MUL", [left, cosine]), node.op("MUL", [right, sine])])
    two = node.op("ADD", [node.op("MUL", [right, cosine]), node.op("MUL", [left, sine])])
    if not interleaved:
        return joined(node, [one, two, *rest], -1)
    beside = joined(node, [widened(node, one, -1), widened(node, two, -1)], -1)
    made = resized(node, beside, [0, 0, 0, 2 * pairs])
    return joined(node, [made, *rest], -1)


def _paired(node: Node, x: Tensor, pairs: int, *, interleaved: bool) -> list[Tensor]:
    """The first and the second column of each pair: halves, or those of even and odd places."""
    if not interleaved:
        return split(node, x, -1, [pairs, pairs])
    ends, last, two = ([2 * pairs], [node.rank(x) - 1], [2])
    lists = [[node.const(v, np.int64) for v in ([i], ends, last, two)] for i in (0, 1)]
    return [standard(node, "Slice", [x, *given]) for given in lists]


@importer("RotaryEmbedding", domain=MICROSOFT)
def _rotary_embedding(node: Node) -> Tensor:
    x, places, tables = floats(node), node[1], (node[2], node[3])
    if node.whole("is_packed_batching") or node.real("scale", 1) != 1:
        raise NotLoweredError("rows of several lengths, or a scale, are stated")
    flat = node.rank(x) == 3
    if flat:
        pairs, columns = tables[0].shape[-1], x.shape[-1]
        if pairs is None or columns is None:
            raise NotLoweredError("the number of columns is open")
        whole = node.whole("num_heads") or columns // (2 * pairs)
        x = heads(node, x, whole)
    if node.rank(places) == 1:
        rows = node.cast(counting(node, size_of(node, x, 2)), places.dtype)
        places = widened(node, node.op("ADD", [rows, places]), 0)
    made = rotated(node, x, tables, places, interleaved=bool(node.whole("interleaved")))
    return columns_of(node, made) if flat else made


@importer("GroupQueryAttention", domain=MICROSOFT)
def _group_query_attention(node: Node) -> list[Tensor]:
    """Rows at places of their own in a cache; heads of queries share those of keys and values."""
    _refuse(node)
    if _has_record(node):
        return node.graph.own_record(node)
    q, k, v = _operands(node)
    cache = _Cache(node, q)
    q, k = (_prepared(node, x, cache, at) for x, at in zip((q, k), _NORMS, strict=True))
    k, v = cache.extended(k, node.optional(3)), cache.extended(v, node.optional(4))
    return [_grouped(node, q, k, v, cache), k, v]


def _refuse(node: Node) -> None:
    types = [node.text(f"{name}_quant_type", "NONE") for name in "kv"]
    if types != ["NONE"] * 2 or any(node.optional(at) for at in _QUANTISED):
        raise NotLoweredError("the cache is quantised")
    if node.whole("sliding_window_cache") or node.optional(_CHUNKED) is not None:
        raise NotLoweredError("the cache slides, or chunks are padded")
    if node.wants(3) or node.whole("qk_output"):
        raise NotLoweredError("the scores are asked for")


def _has_record(node: Node) -> bool:
    """Whether one record means all that the node does; others are taken apart."""
    more = any(node.optional(at) is not None for at in (10, *_NORMS))
    given = [node.optional(at) for at in range(5)]
    real = all(t is None or t.dtype is DType.FLOAT32 for t in given)
    counts = all(node[at].dtype is DType.INT32 for at in (5, 6))
    return real and counts and not more and bool(node.whole("causal", 1))


def _operands(node: Node) -> list[Tensor]:
    """Heads of queries, keys and values."""
    count, groups = node.whole("num_heads"), node.whole("kv_num_heads")
    x, k, v = floats(node), node.optional(1), node.optional(2)
    if groups < 1 or count % groups:
        raise node.wrong("heads of queries are no multiple of those of keys", f"{count}, {groups}")
    if k is None or v is None:
        columns = x.shape[-1] if x.has_rank else None
        if columns is None or columns % (count + 2 * groups):
            raise NotLoweredError("packed columns do not divide into heads")
        size = columns // (count + 2 * groups)
        x, k, v = split(node, x, -1, [count * size, groups * size, groups * size])
    return [heads(node, *pair) for pair in ((x, count), (k, groups), (v, groups))]


class _Cache:
    """How many keys are in a cache before the new ones, for each of a batch.

    Attributes:
        rows: How many are new.
        before: How many were there, INT32 [batch, 1]; none where all keys are new.
        places: Where the new ones go, INT32 [batch, rows].
    """

    def __init__(self, node: Node, q: Tensor) -> None:
        self._node, self.rows = node, size_of(node, q, 2)
        lengths = resized(node, node.cast(node[5], DType.INT32), [-1, 1])
        self._total = resized(node, node.cast(node[6], DType.INT32), [])
        known = node.op("SUB", [node.op("ADD", [lengths, node.const(1, np.int32)]), self.rows])
        is_first = compared(node, "EQUAL", self._total, self.rows)
        self.before = chosen(node, is_first, node.const(0, np.int32), known)
        self.places = node.op("ADD", [self.before, counting(node, self.rows)])

    def extended(self, new: Tensor, past: Tensor | None) -> Tensor:
        """The cache behind the node: what it held, the new rows, zeros up to its length."""
        if past is None or past.shape[2] == 0:
            return new
        node, held = self._node, size_of(self._node, past, 2)
        total = node.op("MAXIMUM", [held, self._total])
        place = counting(node, total)
        end = node.op("ADD", [self.before, self.rows])
        added = node.op("ADD", [node.op("SUB", [place, self.before]), held])
        index = chosen(node, compared(node, "LESS", place, self.before), place, added)
        is_kept = compared(node, "LESS", place, end)
        index = chosen(node, is_kept, index, node.const(0, np.int32))
        both = joined(node, [past, new], 2)
        taken = node.op("GATHER", [both, index], GatherAttrs(2, 1))
        return chosen(node, widened(node, is_kept, 1, 3), taken, node.const(np.float32(0)))


def _prepared(node: Node, x: Tensor, cache: _Cache, weight: int) -> Tensor:
    """Heads normalised and turned, as far as the node asks for it."""
    factor = node.optional(weight)
    if factor is not None:
        own = "q_norm_epsilon" if weight == 14 else "k_norm_epsilon"
        epsilon = node.real(own, node.real("qk_norm_epsilon", _NORM_EPSILON))
        x = standard(node, "RMSNormalization", [x, factor], axis=-1, epsilon=epsilon)
    if not node.whole("do_rotary"):
        return x
    places = node.optional(9)
    places = cache.places if places is None else places
    is_interleaved = bool(node.whole("rotary_interleaved"))
    return rotated(node, x, (node[7], node[8]), places, interleaved=is_interleaved)


def _seen(node: Node, k: Tensor, cache: _Cache) -> Tensor:
    """Which keys a query sees, BOOL [batch, rows, keys]."""
    keys, place = counting(node, size_of(node, k, 2)), widened(node, cache.places, 2)
    if not node.whole("causal", 1):
        end = widened(node, node.op("ADD", [cache.before, cache.rows]), 2)
        return compared(node, "LESS", keys, end)
    seen = compared(node, "LESS_EQUAL", keys, place)
    window = node.whole("local_window_size", -1)
    if window <= 0:
        return seen
    first = node.op("SUB", [place, node.const(window, np.int32)])
    return node.op("LOGICAL_AND", [seen, compared(node, "GREATER", keys, first)])


def _grouped(node: Node, q: Tensor, k: Tensor, v: Tensor, cache: _Cache) -> Tensor:
    """[batch, rows, columns], each head of keys and values being that of a group of queries."""
    count, groups, size = node.whole("num_heads"), node.whole("kv_num_heads"), q.shape[-1] or 0
    seen, near = _seen(node, k, cache), [1]
    if groups != count:
        q = resized(node, q, [0, groups, count // groups, -1, size])
        k, v, near = widened(node, k, 2), widened(node, v, 2), [1, 2]
    before = scores(node, q, k)
    cap = node.real("softcap", 0)
    if cap:
        before = scaled(node, node.op("TANH", [scaled(node, before, 1 / cap)]), cap)
    hidden = filtered(node, widened(node, seen, *near), LOWEST)
    term = summed(node, [_bias(node), hidden])
    assert term is not None
    taken = _shares(node, before, node.op("ADD", [before, term]))
    made = node.op("BATCH_MATMUL", [taken, v], BatchMatMulAttrs())
    return columns_of(node, made if groups == count else resized(node, made, [0, count, -1, size]))


def _by_group(node: Node, x: Tensor, axis: int) -> Tensor:
    """`x`, whose axis has one element or one for each head, with groups of heads on two axes."""
    count, groups = node.whole("num_heads"), node.whole("kv_num_heads")
    if groups == count:
        return x
    if x.shape[axis] == 1:
        return widened(node, x, axis)
    sizes = [0] * axis + [groups, count // groups] + [-1 if n is None else n for n in x.shape[2:]]
    return resized(node, x, sizes)


def _bias(node: Node) -> Tensor | None:
    bias = node.optional(10)
    return None if bias is None else _by_group(node, bias, 1)


def _shares(node: Node, before: Tensor, masked: Tensor) -> Tensor:
    """The softmax of rows of scores, of which one more that a sink has takes its share."""
    sink = node.optional(11)
    if sink is None and node.whole("smooth_softmax", -1) <= 0:
        return shares(node, masked)
    keys, last = masked.shape[-1], node.rank(masked) - 1
    if sink is None:
        sink = node.const(np.float32(0))
    else:
        sink = _by_group(node, resized(node, sink, [1, -1, 1, 1]), 1)
    column = _columns_up_to(node, before, node.const([1], np.int64), last)
    extra = node.op("ADD", [scaled(node, column, 0), sink])
    ends = node.const([-1], np.int64) if keys is None else node.const([keys], np.int64)
    return _columns_up_to(node, shares(node, joined(node, [masked, extra], -1)), ends, last)


def _columns_up_to(node: Node, x: Tensor, end: Tensor, last: int) -> Tensor:
    lists = [node.const([0], np.int64), end, node.const([last], np.int64)]
    return standard(node, "Slice", [x, *lists])
