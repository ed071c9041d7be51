"""FULLY_CONNECTED in float32: a convolution whose pixels are the rows of the input."""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.float_matrix import (
    call_matrix,
    constant_floats,
    float_weights,
    why_not_float,
)
from circlet.backends.cpu.lower.floats.matrix import Matrix, View
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op, Tensor
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    if getattr(op.attrs, "weights_format", "DEFAULT") != "DEFAULT":
        return "shuffled weights"
    return why_not_float(op, 0, 1, 2)


def _lower(op: Op, context: Context) -> None:
    call_matrix(op, context, fully_connected(op, op.outputs[0]))


def fully_connected(op: Op, result: Tensor) -> Matrix:
    """A FULLY_CONNECTED as a matrix product that is written to `result`."""
    weights = float_weights(operand(op, 1))
    units, depth = weights.shape
    rows = operand(op, 0).elements // depth
    return Matrix(
        source=View(operand(op, 0), 0, 0, 0, depth),
        result=View(result, 0, 0, 0, units),
        sizes=(1, 1, rows),
        weights=weights.reshape(units, 1, 1, depth),
        bias=constant_floats(op.input(2)),
        taps=(0, 0),
        activation=getattr(op.attrs, "fused_activation_function", "NONE"),
    )


LOWERINGS.add(
    Lowering(
        kind="FULLY_CONNECTED",
        name="fully_connected_f32",
        refuses=_refuses,
        lower=_lower,
    )
)
