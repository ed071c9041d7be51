"""Products of StableHLO as stacks of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from circlet.ir import DType
from circlet.ops.stablehlo.products import dot_axes
from circlet.passes.stablehlo.steps import Steps


def _dot_general(steps: Steps) -> None:
    """Batching axes first; those of each operand alone, and those summed over, as one each."""
    left, right = steps.operand(0), steps.operand(1)
    if {left.dtype, right.dtype, steps.op.outputs[0].dtype} != {DType.FLOAT32}:
        return
    (batch, own, inner), (others, other, joined) = dot_axes(steps.op, 0), dot_axes(steps.op, 1)
    kept, rows, depth = (
        prod(left.static_shape[axis] for axis in axes) for axes in (batch, own, inner)
    )
    columns = prod(right.static_shape[axis] for axis in other)
    first = steps.transposed(left, (*batch, *own, *inner))
    second = steps.transposed(right, (*others, *joined, *other))
    first = steps.reshaped(first, (kept, rows, depth))
    second = steps.reshaped(second, (kept, depth, columns))
    steps.reshaped(steps.add("BATCH_MATMUL", [first, second]), steps.sizes)


PRODUCTS: Mapping[str, Callable[[Steps], None]] = {"STABLEHLO_DOT_GENERAL": _dot_general}
