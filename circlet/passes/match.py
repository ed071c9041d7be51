"""Facts that several passes match on."""

from __future__ import annotations

from math import prod

from circlet.ir import DType, Op, Tensor
from circlet.ops.requantize import activation_of


def same_meaning(left: Tensor, right: Tensor) -> bool:
    """Whether equal stored values stand for equal real values."""
    if left.dtype is not right.dtype:
        return False
    quants = [t.quant if t.quant is not None and t.quant.is_affine else None for t in (left, right)]
    if quants[0] is None or quants[1] is None:
        return quants[0] is quants[1]
    return quants[0].same_as(quants[1])


def same_sizes(left: Tensor, right: Tensor) -> bool:
    """Whether both certainly have the same sizes, given equal element counts."""
    if left.shape != right.shape or not (left.has_rank and right.has_rank):
        return False
    unknown = left.shape.count(None)
    return unknown == 0 or (unknown == 1 and 0 not in left.shape)


def element_count(tensor: Tensor) -> int | None:
    """Number of elements, or None where it is not known before a run."""
    known = [size for size in tensor.shape if size is not None]
    return prod(known) if tensor.has_rank and len(known) == len(tensor.shape) else None


def scalar_of(tensor: Tensor | None) -> float | None:
    """The value of a float32 constant of one element; None for every other tensor."""
    if tensor is None or tensor.data is None or tensor.dtype is not DType.FLOAT32:
        return None
    return float(tensor.data.reshape(-1)[0]) if tensor.data.size == 1 else None


def is_plain(op: Op, kind: str) -> bool:
    """Whether an op is of a kind and clamps nothing."""
    return op.kind == kind and activation_of(op) == "NONE"


def made_of(op: Op, kind: str, inputs: list[Tensor | None], attrs: object) -> Op:
    """An op of another kind that writes what an op writes; nothing of the file's op is kept."""
    return Op(kind, inputs, [*op.outputs], attrs, op.origin)
