"""Kinds of ops that only passes make: several ops of one backend that one kernel computes."""

from __future__ import annotations

from dataclasses import dataclass

from circlet.ir import Op, Tensor

FUSED_ELEMENTWISE = "FUSED_ELEMENTWISE"
FUSED_ROWS = "FUSED_ROWS"
FUSED_ATTENTION = "FUSED_ATTENTION"
FUSED_RESIDUAL = "FUSED_RESIDUAL"
FUSED_STRIPE = "FUSED_STRIPE"

REDUCTIONS = frozenset({"MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"})
RESHAPES = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS"})


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
    """

    scale: float = 1.0
    beta: float = 1.0
    mask_shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class StripeAttrs(FusedAttrs):
    """Layers of which each reads the image of the one before, a stripe of rows at a time.

    Attributes:
        stripes: Number of stripes of an image.
    """

    stripes: int = 1


def data_inputs(op: Op) -> list[Tensor]:
    """What a part computes from; axes and sizes are not among it."""
    count = 1 if op.kind in REDUCTIONS | RESHAPES else len(op.inputs)
    return [tensor for tensor in op.inputs[:count] if tensor is not None]
