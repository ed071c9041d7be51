"""LOCAL_RESPONSE_NORMALIZATION: channels divided by a power of their neighbours' squares."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from circlet.ir import Op
from circlet.ops import checks
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, moves_bytes, register
from circlet.ops.operands import operand, present, same_as_first


@dataclass(frozen=True)
class LocalResponseNormAttrs:
    """y = x * (bias + alpha * sum of squares)^-beta, of `radius` channels on either side."""

    radius: int = 5
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5


def neighbours(op: Op) -> int:
    """How many channels on either side count; no more than there are."""
    return min(op.attributes(LocalResponseNormAttrs).radius, operand(op, 0).static_shape[-1] - 1)


def _evaluate(op: Op, inputs: Arrays) -> list[np.ndarray]:
    """As TensorFlow and LiteRT's default kernel have it: the channel `radius` ahead counts."""
    attrs, x = op.attributes(LocalResponseNormAttrs), present(inputs[0])
    squares = np.square(x)
    total, count = squares.copy(), x.shape[-1]
    for step in range(1, min(attrs.radius, count - 1) + 1):
        total[..., step:] += squares[..., :-step]
        total[..., :-step] += squares[..., step:]
    scale: npt.NDArray[np.float32] = np.float32(attrs.bias) + np.float32(attrs.alpha) * total
    return [np.asarray(x * scale ** np.float32(-attrs.beta), np.float32)]


def _cost(op: Op) -> Cost:
    source = operand(op, 0)
    if not source.static_shape:
        return moves_bytes(op)
    per_element = 2 * neighbours(op) + 8  # a power counts as eight operations
    return moves_bytes(op)._replace(arithmetic=source.elements * per_element)


def _is_finite(op: Op) -> bool:
    attrs = op.attributes(LocalResponseNormAttrs)
    return all(map(isfinite, (attrs.bias, attrs.alpha, attrs.beta)))


register(
    OpDef(
        kind="LOCAL_RESPONSE_NORMALIZATION",
        attrs=LocalResponseNormAttrs,
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32",),
        infer=same_as_first,
        rules=(
            checks.has_last_axis(0),
            Rule(
                "radius",
                lambda op: op.attributes(LocalResponseNormAttrs).radius >= 0,
                "the radius is negative",
                sized=False,
            ),
            Rule("finite", _is_finite, "bias, alpha and beta must be finite numbers", sized=False),
        ),
        evaluate=_evaluate,
        cost=_cost,
        numerics="tolerance",
    )
)
