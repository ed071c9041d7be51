"""Scaled dot product attention with masks, windows and caches, as the standard defines it."""

from __future__ import annotations

from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ops.onnx.record import OnnxAttrs, onnx_kind

Array = np.ndarray
_AFTER_CAP, _AFTER_BIAS, _AFTER_SOFTMAX = 1, 2, 3


def _heads(x: Array, count: int | None) -> Array:
    """[batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    if x.ndim == 4:
        return x
    if not count or x.shape[2] % count:
        raise GraphError("attention of three dimensions needs a number of heads that divides them")
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def _allowed(attrs: OnnxAttrs, rows: int, columns: int, before: Array) -> Array:
    """Which keys a query sees, as [batch or 1, 1, rows, columns]; `before` keys precede it."""
    place = np.arange(rows)[:, None] + before.reshape(-1, 1, 1, 1)
    ahead = np.arange(columns) - place
    seen = np.ones(ahead.shape, bool)
    if attrs.get("is_causal", 0):
        seen &= ahead <= 0
    left, right = attrs.get("left_window_size", -1), attrs.get("right_window_size", -1)
    if left >= 0:
        seen &= -ahead <= left
    if right >= 0:
        seen &= ahead <= right
    return seen


def _mask(given: Any, columns: int) -> Array:
    """A mask as what is added to products; keys that it does not reach are not seen."""
    if given is None:
        return np.zeros((1, 1), np.float32)
    if given.dtype == np.bool_:
        bias = np.where(given, np.float32(0), np.float32(-np.inf))
    else:
        bias = given.astype(np.float32)
    missing = [(0, 0)] * (bias.ndim - 1) + [(0, max(0, columns - bias.shape[-1]))]
    return np.pad(bias, missing, constant_values=-np.inf)


def _softmax(x: Array, bias: Array) -> Array:
    """Shares of each row; none where all of it is masked."""
    masked = np.isneginf(np.max(bias, -1, keepdims=True))
    top = np.max(x, -1, keepdims=True)
    powers = np.exp(x - np.where(np.isneginf(top), 0, top))
    total = powers.sum(-1, keepdims=True)
    return np.where(masked, 0, powers / np.where(total == 0, 1, total))


def _attention(
    attrs: OnnxAttrs,
    q: Array,
    k: Array,
    v: Array,
    mask: Any = None,
    past_k: Any = None,
    past_v: Any = None,
    lengths: Any = None,
) -> tuple[Any, ...]:
    flat, dtype = q.ndim == 3, q.dtype
    query = _heads(q, attrs.get("q_num_heads"))
    keys, values = (_heads(x, attrs.get("kv_num_heads")) for x in (k, v))
    if past_k is not None and past_v is not None:
        keys = np.concatenate([past_k, keys], 2)
        values = np.concatenate([past_v, values], 2)
    rows, columns = query.shape[2], keys.shape[2]
    before = np.zeros(1, np.int64)
    if past_k is not None:
        before = np.full(1, past_k.shape[2])
    elif lengths is not None:
        before = lengths.reshape(-1) - rows
    bias = np.where(_allowed(attrs, rows, columns, before), _mask(mask, columns), -np.inf)
    if lengths is not None:
        inside = np.arange(columns) < lengths.reshape(-1, 1, 1, 1)
        bias = np.where(inside, bias, -np.inf)
    repeats = query.shape[1] // keys.shape[1]
    wide = [np.repeat(x.astype(np.float32), repeats, 1) for x in (keys, values)]
    scale = attrs.get("scale", 1 / np.sqrt(query.shape[-1]))
    sums = np.matmul(query.astype(np.float32) * np.float32(scale), wide[0].swapaxes(-1, -2))
    shares, shown = _shares(attrs, sums, bias)
    made = np.matmul(shares, wide[1])
    if flat:
        made = made.transpose(0, 2, 1, 3).reshape(made.shape[0], rows, -1)
    return made.astype(dtype), keys, values, shown.astype(dtype)


def _shares(attrs: OnnxAttrs, sums: Array, bias: Array) -> tuple[Array, Array]:
    """How much each query takes of each key, and the products at the stage that is asked for."""
    mode, cap = attrs.get("qk_matmul_output_mode", 0), attrs.get("softcap", 0.0)
    capped = np.tanh(sums / cap) * cap if cap else sums
    biased = capped + bias
    shares = _softmax(biased, bias)
    stages = {_AFTER_CAP: capped, _AFTER_BIAS: biased, _AFTER_SOFTMAX: shares}
    return shares, stages.get(mode, sums)


onnx_kind("Attention", _attention, inputs=(3, 7))


def _per_step(x: Any, heads: int) -> Any:
    """[batch, time, heads * size] as [time, batch, heads, size], in float32."""
    if x is None:
        return None
    split = x.astype(np.float32).reshape(*x.shape[:2], heads, -1)
    return split.transpose(1, 0, 2, 3)


def _linear_attention(
    attrs: OnnxAttrs,
    query: Array,
    key: Array,
    value: Array,
    state: Any = None,
    decay: Any = None,
    beta: Any = None,
) -> tuple[Array, Array]:
    """A state of key times value for each head, which decays, is corrected, and is read."""
    heads, key_heads = attrs.get("q_num_heads"), attrs.get("kv_num_heads")
    if not heads or not key_heads or heads % key_heads:
        raise GraphError("LinearAttention needs numbers of heads of which one divides the other")
    queries = _per_step(query, heads)
    keys, values, decays = (_per_step(x, key_heads) for x in (key, value, decay))
    gains = None if beta is None else _per_step(beta, beta.shape[-1])
    size = keys.shape[-1]
    scale = attrs.get("scale", 0.0) or 1 / np.sqrt(size)
    kept = np.zeros((len(query), key_heads, size, values.shape[-1]), np.float32)
    kept = kept if state is None else state.astype(np.float32)
    made = []
    for step in range(len(queries)):
        added = values[step]
        if decays is not None:
            kept = kept * np.exp(decays[step])[..., None]
        if gains is not None:
            known = np.einsum("bhdm,bhd->bhm", kept, keys[step])
            added = gains[step] * (added - known)
        kept = kept + keys[step][..., None] * added[..., None, :]
        read = np.repeat(kept, heads // key_heads, 1)
        made.append(scale * np.einsum("bhd,bhdm->bhm", queries[step], read))
    result = np.array(made).transpose(1, 0, 2, 3).reshape(*query.shape[:2], -1)
    return result.astype(query.dtype), kept


onnx_kind("LinearAttention", _linear_attention, inputs=(3, 6))
