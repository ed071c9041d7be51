"""FULLY_CONNECTED in float32: a convolution whose pixels are the rows of the input."""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.epilogue import FloatEpilogue, FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import (
    call_conv_f32,
    constant_floats,
    float_weights,
    why_not_float,
)
from circlet.backends.cpu.lower.products.product import of_rows
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import Op, Tensor
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    return why_not_float(op, 0, 1, 2)


def _lower(op: Op, context: Context) -> None:
    call_conv_f32(fully_connected(op, op.outputs[0]), context)


def fully_connected(op: Op, result: Tensor) -> FloatProduct:
    """A FULLY_CONNECTED as a product that is written to `result`."""
    stored = float_weights(operand(op, 1))
    units, depth = stored.shape
    activation = activation_of(op)
    epilogue = FloatEpilogue(constant_floats(op.input(2)), activation)
    return of_rows(op, operand(op, 0), result, (units, depth), lambda: stored, epilogue)


LOWERINGS.add(
    Lowering(
        kind="FULLY_CONNECTED",
        name="fully_connected_f32",
        refuses=_refuses,
        lower=_lower,
    )
)
