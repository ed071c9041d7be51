"""Kinds of ops that only passes make: several ops of one backend that one kernel computes.

What such an op computes is what its parts compute, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from circlet.ir import Graph, Op, Tensor
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, get, register
from circlet.ops.operands import moves_bytes
from circlet.ops.verify import op_violations

FUSED_ELEMENTWISE = "FUSED_ELEMENTWISE"
FUSED_ROWS = "FUSED_ROWS"
FUSED_ATTENTION = "FUSED_ATTENTION"
FUSED_RESIDUAL = "FUSED_RESIDUAL"
FUSED_STRIPE = "FUSED_STRIPE"
FUSED_COLUMNS = "FUSED_COLUMNS"


@dataclass(frozen=True)
class FusedAttrs:
    """The ops that are computed together, in execution order, over their own tensors."""

    parts: tuple[Op, ...]


@dataclass(frozen=True)
class FusedRowsAttrs(FusedAttrs):
    """Parts that reduce innermost axes, and parts that compute on rows and on what they gave.

    Attributes:
        shape: Sizes of what is reduced.
        kept: How many of the sizes, from the first on, count rows; the others make a row.
    """

    shape: tuple[int, ...] = ()
    kept: int = 0


@dataclass(frozen=True)
class AttentionAttrs(FusedAttrs):
    """Two products and the softmax between them: softmax(beta * (scale * qk + mask)) * v.

    Attributes:
        scale: What the scores are multiplied with.
        beta: The softmax's.
        mask_shape: Sizes of the scores that the mask is added to, () without one.
        is_guarded: Whether rows whose softmax is not a number are 0.
    """

    scale: float = 1.0
    beta: float = 1.0
    mask_shape: tuple[int, ...] = ()
    is_guarded: bool = False


@dataclass(frozen=True)
class StripeAttrs(FusedAttrs):
    """Layers of which each reads the image of the one before, a stripe of rows at a time.

    Attributes:
        stripes: Number of stripes of an image.
    """

    stripes: int = 1


def parts_of(op: Op) -> tuple[Op, ...]:
    """The ops that a fused one computes, in execution order; none of another kind."""
    return op.attrs.parts if isinstance(op.attrs, FusedAttrs) else ()


def _graph(op: Op) -> Graph:
    """The parts as a graph over the op's own operands and results."""
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    return Graph(op.name, inputs, [*op.outputs], [*parts_of(op)])


def _infer(op: Op) -> list[TensorType]:
    types = {
        tensor: inferred
        for part in parts_of(op)
        for tensor, inferred in zip(part.outputs, get(part).infer(part), strict=True)
    }
    return [types[tensor] for tensor in op.outputs]


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    return evaluate_graph(_graph(op), [array for array in arrays if array is not None])


def _unknown(op: Op) -> Iterator[Tensor]:
    """Tensors that a part reads although neither an operand nor an earlier part gives them."""
    known = {tensor for tensor in op.inputs if tensor is not None}
    for part in parts_of(op):
        read = (t for t in part.inputs if t is not None and not t.is_constant)
        yield from (t for t in read if t not in known)
        known.update(part.outputs)


def _makes_outputs(op: Op) -> bool:
    made = {tensor for part in parts_of(op) for tensor in part.outputs}
    return made.issuperset(op.outputs)


def _parts_keep_rules(op: Op) -> bool:
    graph = _graph(op)
    return not any(True for part in parts_of(op) for _ in op_violations(part, graph))


def _cost(op: Op) -> Cost:
    """The work of the parts; only operands and results of the whole are moved."""
    costs = [get(part).cost(part) for part in parts_of(op)]
    operations = sum(cost.operations for cost in costs)
    arithmetic = sum(cost.arithmetic for cost in costs)
    return Cost(sum(cost.macs for cost in costs), moves_bytes(op).bytes, operations, arithmetic)


_MANY = 1 << 16
_RULES = (
    Rule("parts", lambda op: len(parts_of(op)) > 0, "it holds no ops"),
    Rule("operands", lambda op: next(_unknown(op), None) is None, "a part reads what none gives"),
    Rule("results", _makes_outputs, "no part makes one of its results"),
    Rule("part-rules", _parts_keep_rules, "a part breaks a rule of its own record"),
)


def _register(kind: str, attrs: type[FusedAttrs], arity: tuple[int, int]) -> None:
    register(
        OpDef(
            kind=kind,
            attrs=attrs,
            arity=arity,
            outputs=None,
            required=1,
            dtypes=("* -> *",),
            infer=_infer,
            evaluate=_evaluate,
            rules=_RULES,
            cost=_cost,
            fused=True,
        )
    )


_register(FUSED_ELEMENTWISE, FusedAttrs, (1, _MANY))
_register(FUSED_ROWS, FusedRowsAttrs, (1, _MANY))
_register(FUSED_ATTENTION, AttentionAttrs, (3, 4))
_register(FUSED_RESIDUAL, FusedAttrs, (4, 4))
_register(FUSED_STRIPE, StripeAttrs, (1, _MANY))
_register(FUSED_COLUMNS, FusedAttrs, (1, 1))
