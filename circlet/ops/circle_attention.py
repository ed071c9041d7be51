"""ATTENTION of Circle files: a decoder's attention to its cache, for one token at a time.

The token's key, turned by its position, and its value go into caches that the network keeps from
run to run, as variables: `softmax(q * k / sqrt(d) + mask) * v`, between projections. A position
outside of a cache is taken to the nearest place in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.decomposition import Parts
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, register
from circlet.ops.operands import moves_bytes, operand, present, same_as_first
from circlet.ops.rope import rotated, turned
from circlet.ops.softmax import SoftmaxAttrs

_INPUT, _WQ, _WK, _WV, _WO, _COS, _SIN, _MASK, _K_CACHE, _V_CACHE, _POSITION = range(11)


class _Sizes(NamedTuple):
    """Heads, elements of one, places of the caches, and how many of those the mask covers."""

    heads: int
    depth: int
    places: int
    covered: int

    @property
    def width(self) -> int:
        """Elements of a token."""
        return self.heads * self.depth

    @property
    def scale(self) -> np.float32:
        """What products of queries and keys are multiplied with."""
        return np.float32(1 / np.sqrt(np.float32(self.depth)))


def _sizes(op: Op) -> _Sizes:
    _, places, heads, depth = operand(op, _K_CACHE).static_shape
    return _Sizes(heads, depth, places, operand(op, _MASK).elements)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    given, sizes = [present(array) for array in arrays], _sizes(op)
    x, (at,) = given[_INPUT].reshape(1, -1), given[_POSITION].reshape(-1)
    at = min(max(int(at), 0), sizes.places - 1)
    cosine, sine = given[_COS].reshape(-1), given[_SIN].reshape(-1)
    query, key, value = (
        (x @ given[index].T).reshape(sizes.heads, sizes.depth) for index in (_WQ, _WK, _WV)
    )
    query, key = (part * cosine + turned(part) * sine for part in (query, key))
    keys, values = given[_K_CACHE].copy(), given[_V_CACHE].copy()
    keys[0, at], values[0, at] = key, value
    scores = np.einsum("hd,phd->hp", query, keys[0, : sizes.covered]) * sizes.scale
    scores = scores + given[_MASK].reshape(-1)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    shares = powers / powers.sum(-1, keepdims=True)
    seen = np.einsum("hp,phd->hd", shares, values[0, : sizes.covered])
    made = seen.reshape(1, -1) @ given[_WO].T
    return [made.reshape(op.outputs[0].static_shape).astype(np.float32), keys, values]


def _decompose(op: Op) -> list[Op]:
    if any(t is None or None in t.shape for t in op.inputs):
        return []
    parts, sizes = Parts(op), _sizes(op)
    tables = [parts.reshape(operand(op, i), (1, 1, 1, sizes.depth)) for i in (_SIN, _COS)]
    by_head = (1, sizes.heads, 1, sizes.depth)
    query, key, value = (
        parts.make("FULLY_CONNECTED", [operand(op, _INPUT), operand(op, index)])
        for index in (_WQ, _WK, _WV)
    )
    query, key = (
        rotated(parts, parts.reshape(part, by_head), (tables[0], tables[1]))
        for part in (query, key)
    )
    place = _place(parts, op)
    keys = _remembered(parts, operand(op, _K_CACHE), key, place, sizes)
    values = _remembered(parts, operand(op, _V_CACHE), value, place, sizes)
    products = parts.make("BATCH_MATMUL", [query, keys], BatchMatMulAttrs(adj_y=True))
    scaled = parts.make("MUL", [products, parts.scalar(float(sizes.scale))])
    mask = parts.reshape(operand(op, _MASK), (1, 1, 1, sizes.covered))
    shares = parts.make("SOFTMAX", [parts.make("ADD", [scaled, mask])], SoftmaxAttrs(1.0))
    seen = parts.reshape(parts.make("BATCH_MATMUL", [shares, values]), (1, sizes.width))
    made = parts.make("FULLY_CONNECTED", [seen, operand(op, _WO)])
    parts.reshape(made, op.outputs[0].static_shape, op.outputs[0])
    return parts.ops


def _place(parts: Parts, op: Op) -> Tensor:
    """Where the token's row of a cache starts."""
    position = operand(op, _POSITION)
    zero = parts.constant(np.zeros(1, position.dtype.numpy))
    return parts.make("CONCATENATION", [zero, parts.reshape(position, (1,)), zero, zero])


def _remembered(parts: Parts, cache: Tensor, row: Tensor, place: Tensor, sizes: _Sizes) -> Tensor:
    """A cache with a token's row in it, which is assigned: what the mask covers, by head."""
    shape = (1, 1, sizes.heads, sizes.depth)
    before = parts.make("READ_VARIABLE", [cache])
    after = parts.make("DYNAMIC_UPDATE_SLICE", [before, parts.reshape(row, shape), place])
    parts.make_many("ASSIGN_VARIABLE", [cache, after])
    if sizes.covered < sizes.places:
        ends = np.array([1, sizes.covered, *shape[2:]], np.int32)
        begin = parts.constant(np.zeros(4, np.int32))
        after = parts.make("SLICE", [after, begin, parts.constant(ends)])
    return parts.make("TRANSPOSE", [after, parts.constant(np.array([0, 2, 1, 3], np.int32))])


def _caches_are_variables(op: Op) -> bool:
    caches = [operand(op, index) for index in (_K_CACHE, _V_CACHE)]
    return all(cache.is_variable and op.inputs.count(cache) == 1 for cache in caches)


def _caches_fit(op: Op) -> bool:
    caches = [operand(op, index).shape for index in (_K_CACHE, _V_CACHE)]
    shape = caches[0]
    known = len(shape) == 4 and None not in shape and 0 not in shape
    return (
        known
        and shape[0] == 1
        and shape[3] is not None
        and shape[3] % 2 == 0
        and (caches[0] == caches[1])
    )


def _operands_fit(op: Op) -> bool:
    _, places, heads, depth = operand(op, _K_CACHE).static_shape
    width = heads * depth
    squares = all(operand(op, i).shape == (width, width) for i in (_WQ, _WK, _WV, _WO))
    tables = all(operand(op, i).shape[-1:] == (depth,) for i in (_COS, _SIN))
    single = all(
        None not in operand(op, i).shape and operand(op, i).elements == count
        for i, count in ((_INPUT, width), (_COS, depth), (_SIN, depth), (_POSITION, 1))
    )
    mask = operand(op, _MASK)
    covered = None not in mask.shape and mask.shape[-1:] == (mask.elements,)
    return squares and tables and single and covered and 1 <= mask.elements <= places


def _cost(op: Op) -> Cost:
    sizes = _sizes(op)
    products = 4 * sizes.width**2 + 2 * sizes.covered * sizes.width
    return Cost(products, moves_bytes(op).bytes, arithmetic=8 * sizes.covered * sizes.heads)


register(
    OpDef(
        kind="ATTENTION",
        arity=(11, 11),
        required=11,
        dtypes=tuple(
            " ".join(["FLOAT32"] * 10 + [position, "-> FLOAT32"]) for position in ("INT64", "INT32")
        ),
        infer=same_as_first,
        rules=(
            Rule(
                "caches",
                _caches_are_variables,
                "the caches must be variables of the network: nothing is written into inputs",
            ),
            Rule("cache-sizes", _caches_fit, "both caches must be [1, places, heads, even size]"),
            Rule(
                "operands",
                _operands_fit,
                "it takes one token, square weights, and one row of cosines, sines and mask",
            ),
        ),
        evaluate=_evaluate,
        numerics="tolerance",
        cost=_cost,
        updates=(_K_CACHE, _V_CACHE),
        decompose=_decompose,
    )
)
