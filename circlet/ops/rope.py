"""ROPE: rotary position embeddings, which only Circle files hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.ir import Op, Shape, Tensor
from circlet.ops import checks
from circlet.ops.decomposition import Parts
from circlet.ops.gather import GatherAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, register
from circlet.ops.operands import moves_bytes, operand, present, same_as_first
from circlet.ops.split import SplitAttrs

_LAST = 3
MODES = ("GPT_NEOX", "GPT_J")


@dataclass(frozen=True)
class RopeAttrs:
    """Which two elements are a pair that is turned.

    GPT_NEOX pairs one of the first half with its like in the second half, GPT_J neighbours.
    """

    mode: str = "GPT_NEOX"


def turned(x: np.ndarray, mode: str = "GPT_NEOX") -> np.ndarray:
    """Of each pair (a, b): (-b, a)."""
    if mode == "GPT_J":
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        return np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape)
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], -1)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x, sine, cosine = (present(array) for array in arrays[:3])
    return [x * cosine + turned(x, op.attributes(RopeAttrs).mode) * sine]


def rotated(
    parts: Parts,
    x: Tensor,
    tables: tuple[Tensor, Tensor],
    mode: str = "GPT_NEOX",
    result: Tensor | None = None,
) -> Tensor:
    """Append the ops that turn the pairs of `x`, by tables of sines and cosines."""
    sine, cosine = tables
    other = _swap(parts, x) if mode == "GPT_J" else _swap_halves(parts, x)
    straight = parts.make("MUL", [x, cosine])
    return parts.make("ADD", [straight, parts.make("MUL", [other, sine])], result=result)


def _swap_halves(parts: Parts, x: Tensor) -> Tensor:
    axis = parts.constant(np.int32(_LAST))
    first, second = parts.make_many("SPLIT", [axis, x], SplitAttrs(2), [None, None])
    minus = parts.make("NEG", [second])
    return parts.make("CONCATENATION", [minus, first], ConcatenationAttrs(_LAST))


def _swap(parts: Parts, x: Tensor) -> Tensor:
    size = x.shape[_LAST]
    assert size is not None
    neighbours = parts.constant((np.arange(size) ^ 1).astype(np.int32))
    signs = parts.constant(np.resize(np.array([-1, 1], np.float32), size))
    picked = parts.make("GATHER", [x, neighbours], GatherAttrs(axis=_LAST))
    return parts.make("MUL", [picked, signs])


def _decompose(op: Op) -> list[Op]:
    parts, mode = Parts(op), op.attributes(RopeAttrs).mode
    rotated(parts, operand(op, 0), (operand(op, 1), operand(op, 2)), mode, op.outputs[0])
    return parts.ops


def _fits(table: Shape, data: Shape) -> bool:
    pairs = zip(table[:_LAST], data[:_LAST], strict=True)
    return table[_LAST] == data[_LAST] and all(t in (1, d) or None in (t, d) for t, d in pairs)


def _tables_fit(op: Op) -> bool:
    data, *tables = (operand(op, index).shape for index in range(3))
    return all(len(table) == _LAST + 1 and _fits(table, data) for table in tables)


def _is_even(op: Op) -> bool:
    size = operand(op, 0).shape[_LAST]
    return size is not None and size > 0 and size % 2 == 0


def _cost(op: Op) -> Cost:
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=3 * operand(op, 0).elements)


register(
    OpDef(
        kind="ROPE",
        attrs=RopeAttrs,
        arity=(3, 3),
        required=3,
        dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32",),
        infer=same_as_first,
        rules=(
            checks.rank_is(0, _LAST + 1, "input"),
            Rule("pairs", _is_even, "the last size of the input must be known and even"),
            Rule(
                "tables",
                _tables_fit,
                "the tables must have the input's last size, and its others or 1",
            ),
            checks.one_of("mode", MODES),
        ),
        evaluate=_evaluate,
        numerics="tolerance",
        cost=_cost,
        decompose=_decompose,
    )
)
