"""The record of com.microsoft.GroupQueryAttention: new rows join a cache, and queries see it.

Heads of queries share those of keys and values, group by group. Queries and keys are turned by
their places (rotary embedding) where `do_rotary` says so. A cache [batch, groups, places, size]
holds `before` rows ahead of the new ones; behind those it is zeros.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op
from circlet.ops.onnx.record import OnnxAttrs, attributes, onnx_kind, stated
from circlet.ops.opdef import Cost, TensorType, moves_bytes
from circlet.ops.operands import known_ints, operand, ranked

KIND = "com.microsoft.GroupQueryAttention"
Q, K, V, PAST_K, PAST_V, LENGTHS, TOTAL, COSINES, SINES, PLACES, BIAS, SINK = range(12)
_FUNCTIONS = 8  # what a power and a division cost beside an addition

Array = np.ndarray


class GroupSizes(NamedTuple):
    """Sizes of an attention of groups.

    Attributes:
        heads: Of queries.
        groups: Heads of keys and values.
        size: Columns of a head.
        held: Rows of the caches that are given.
        length: Rows of those that are made.
    """

    batch: int
    rows: int
    heads: int
    groups: int
    size: int
    held: int
    length: int

    @property
    def per_group(self) -> int:
        """Heads of queries that share one of keys."""
        return self.heads // self.groups


def _head_counts(attrs: OnnxAttrs) -> tuple[int, int]:
    heads, groups = int(attrs.get("num_heads", 0)), int(attrs.get("kv_num_heads", 0))
    if groups < 1 or heads < 1 or heads % groups:
        why = f"{heads} of queries, {groups} of keys"
        raise GraphError("heads of queries are no multiple of those of keys", why=why)
    return heads, groups


def _size_of_head(op: Op, heads: int, groups: int) -> int | None:
    columns = operand(op, Q).shape[-1]
    count = heads if op.input(K) is not None else heads + 2 * groups
    if columns is None:
        return None
    if columns % count:
        raise GraphError("heads do not divide the columns", where=op.name, why=f"{columns}")
    return columns // count


def group_sizes(op: Op) -> GroupSizes:
    """All sizes of an op whose results have known ones."""
    attrs = attributes(op)
    heads, groups = _head_counts(attrs)
    batch, rows, columns = op.outputs[0].static_shape
    past = op.input(PAST_K)
    held = 0 if past is None else past.static_shape[2]
    return GroupSizes(
        batch, rows, heads, groups, columns // heads, held, op.outputs[1].static_shape[2]
    )


def _infer(op: Op) -> list[TensorType]:
    if not ranked(op) or len(operand(op, Q).shape) != 3:
        return stated(op)
    heads, groups = _head_counts(attributes(op))
    size, (batch, rows, _) = _size_of_head(op, heads, groups), operand(op, Q).shape
    past, total = op.input(PAST_K), known_ints(op.input(TOTAL))
    held = 0 if past is None else past.shape[2]
    known = total is not None and held is not None
    length = max(held or 0, total[0]) if known and total else None
    cache = (batch, groups, length, size)
    dtype = operand(op, Q).dtype
    first = TensorType(dtype, (batch, rows, None if size is None else heads * size))
    caches = [TensorType(dtype, cache)] * 2
    return [first, *caches][: len(op.outputs)]


def _heads(x: Array, count: int) -> Array:
    """[batch, rows, count * size] as [batch, count, rows, size]."""
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def _turned(x: Array, cosines: Array, sines: Array, places: Array, *, interleaved: bool) -> Array:
    """Heads whose pairs of columns are turned by the angles of places [batch, rows]."""
    pairs = cosines.shape[-1]
    at = np.clip(places, 0, len(cosines) - 1)
    cosine, sine = cosines[at][:, None], sines[at][:, None]
    first = slice(0, 2 * pairs, 2) if interleaved else slice(0, pairs)
    second = slice(1, 2 * pairs, 2) if interleaved else slice(pairs, 2 * pairs)
    made, left, right = x.copy(), x[..., first], x[..., second]
    made[..., first] = left * cosine - right * sine
    made[..., second] = right * cosine + left * sine
    return made


def _before(lengths: Array, rows: int, total: int, length: int) -> Array:
    """How many rows of a cache come ahead of the new ones, for each of a batch."""
    if total == rows:
        return np.zeros(lengths.size, np.int64)
    return np.clip(lengths.reshape(-1).astype(np.int64) + 1 - rows, 0, length - rows)


def _extended(past: Array | None, new: Array, before: Array, length: int) -> Array:
    """The cache behind the op: what was ahead of the new rows, these, and zeros."""
    made = np.zeros((*new.shape[:2], length, new.shape[3]), new.dtype)
    for at, count in enumerate(before):
        if past is not None:
            kept = min(int(count), past.shape[2])
            made[at, :, :kept] = past[at, :, :kept]
        made[at, :, count : count + new.shape[2]] = new[at]
    return made


def _shares(attrs: OnnxAttrs, scores: Array, seen: Array, sink: Array | None) -> Array:
    """The softmax over keys that are seen; a sink, or a zero, takes a share of its own."""
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    if sink is None and attrs.get("smooth_softmax", 0) <= 0:
        powers = np.exp(scores - top)
        return np.asarray(powers / powers.sum(-1, keepdims=True))
    extra = np.zeros(scores.shape[1:3], np.float32) if sink is None else sink
    extra = extra.reshape(1, *scores.shape[1:3], 1, 1)
    top = np.maximum(top, extra)
    powers = np.exp(scores - top)
    return np.asarray(powers / (powers.sum(-1, keepdims=True) + np.exp(extra - top)))


def _attention(
    attrs: OnnxAttrs,
    x: Array,
    k: Array | None,
    v: Array | None,
    past_k: Array | None,
    past_v: Array | None,
    lengths: Array,
    total: Array,
    cosines: Array | None = None,
    sines: Array | None = None,
    places: Array | None = None,
    bias: Array | None = None,
    sink: Array | None = None,
) -> tuple[Array, Array, Array]:
    heads, groups = _head_counts(attrs)
    if k is None or v is None:
        size = x.shape[-1] // (heads + 2 * groups)
        x, k, v = np.split(x, [heads * size, (heads + groups) * size], axis=-1)
    query, key, value = _heads(x, heads), _heads(k, groups), _heads(v, groups)
    rows, all_rows = x.shape[1], int(np.asarray(total).reshape(-1)[0])
    length = max(0 if past_k is None else past_k.shape[2], all_rows)
    if length < rows:
        raise GraphError("more rows are new than the cache holds", why=f"{rows} of {length}")
    before = _before(lengths, rows, all_rows, length)
    own = before[:, None] + np.arange(rows)
    if attrs.get("do_rotary", 0) and cosines is not None and sines is not None:
        turns = own if places is None else np.broadcast_to(places, own.shape)
        interleaved = bool(attrs.get("rotary_interleaved", 0))
        query, key = (
            _turned(part, cosines, sines, turns, interleaved=interleaved) for part in (query, key)
        )
    keys, values = _extended(past_k, key, before, length), _extended(past_v, value, before, length)
    grouped = query.reshape(len(x), groups, heads // groups, rows, -1)
    scores = _scores(attrs, grouped, keys)
    shares = _shares(attrs, scores, _seen(attrs, own, length), sink)
    made = np.matmul(shares.astype(x.dtype), values[:, :, None])
    shaped = made.reshape(len(x), heads, rows, -1).transpose(0, 2, 1, 3)
    return shaped.reshape(len(x), rows, -1), keys, values


def _scores(attrs: OnnxAttrs, grouped: Array, keys: Array) -> Array:
    """How well queries [batch, groups, heads of one, rows, size] fit keys, scaled and capped."""
    scale = attrs.get("scale", 0) or 1 / np.sqrt(np.float32(grouped.shape[-1]))
    scores = np.matmul(grouped, keys[:, :, None].swapaxes(-1, -2)) * np.float32(scale)
    cap = attrs.get("softcap", 0)
    return np.tanh(scores / np.float32(cap)) * np.float32(cap) if cap else scores


def _seen(attrs: OnnxAttrs, own: Array, length: int) -> Array:
    """Which keys a query sees, [batch, 1, 1, rows, keys]."""
    keys, place = np.arange(length), own[:, None, None, :, None]
    window = attrs.get("local_window_size", -1)
    seen = keys <= place
    return np.asarray(seen & (keys > place - window) if window > 0 else seen)


def _cost(op: Op) -> Cost:
    if any(None in tensor.shape for tensor in op.outputs[:2]):
        return moves_bytes(op)
    sizes = group_sizes(op)
    scores = sizes.batch * sizes.heads * sizes.rows * sizes.length
    return Cost(2 * scores * sizes.size, moves_bytes(op).bytes, arithmetic=_FUNCTIONS * scores)


onnx_kind(
    KIND,
    _attention,
    infer=_infer,
    inputs=(7, 12),
    required=1,
    cost=_cost,
    continues=((1, 3), (2, 4)),
)
