"""CONV_2D in float32, also grouped; and DEPTHWISE_CONV_2D whose channels are not repeated.

These have one channel, or a number of filters for each that is no power of two.
"""

from __future__ import annotations

from circlet.backends.cpu.lower.floats.bf16 import registers_for_pairs, rounds
from circlet.backends.cpu.lower.floats.conv_groups import call_conv_groups, takes_groups
from circlet.backends.cpu.lower.floats.epilogue import FloatArray, FloatEpilogue, FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import (
    call_conv_f32,
    constant_floats,
    float_weights,
    reach,
    why_not_float,
)
from circlet.backends.cpu.lower.floats.folding import fold_of, folded
from circlet.backends.cpu.lower.floats.tiles import lanes_of, registers_of
from circlet.backends.cpu.lower.floats.winograd import WINOGRAD, call_winograd, method_of
from circlet.backends.cpu.lower.products.windows import conv_border, convolution
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering, Rank
from circlet.ir import Op, Tensor
from circlet.ops.operands import operand
from circlet.ops.requantize import activation_of
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    return why_not_float(op, 0, 1, 2)


def _lower(op: Op, context: Context) -> None:
    call_convolution(float_conv(op, context), context)


def _lower_multiplied(op: Op, context: Context) -> None:
    call_convolution(multiplied_conv(op, context), context)


def float_conv(op: Op, context: Context, result: Tensor | None = None) -> FloatProduct:
    """A CONV_2D as a product, written to `result` or its own output."""
    return _product(op, context, float_weights(operand(op, 1)), result)


def multiplied_conv(op: Op, context: Context) -> FloatProduct:
    """A DEPTHWISE_CONV_2D: each input channel is a group whose filters are its maps."""
    return _product(op, context, float_weights(operand(op, 1)).transpose(3, 1, 2, 0))


def _product(
    op: Op, context: Context, weights: FloatArray, result: Tensor | None = None
) -> FloatProduct:
    filters, rows, columns, channels = weights.shape
    activation = activation_of(op)
    epilogue = FloatEpilogue(constant_floats(op.input(2)), activation)
    given = (filters, rows, columns, channels), lambda: weights
    groups = operand(op, 0).static_shape[3] // channels
    return convolution(op, context, given, epilogue, result=result)._replace(groups=groups)


def call_convolution(product: FloatProduct, context: Context) -> None:
    """Append the kernel calls that compute a product in the least time."""
    op = product.op
    if context.choose(op, method_of(context, product)) == WINOGRAD:
        call_winograd(product, context)
        return
    if takes_groups(product, context):
        call_conv_groups(product, context)
        return
    registers = registers_of(context.target, context.vector_bytes)
    if rounds(context, product.multiply_adds, reach(product)):
        registers = registers_for_pairs(registers)
    folds = fold_of(product, registers, lanes_of(context.vector_bytes))
    for part in folded(product, context.choose(op, folds)):
        call_conv_f32(part, context)


LOWERINGS.add(
    Lowering(
        kind="CONV_2D",
        name="conv_f32",
        refuses=_refuses,
        lower=_lower,
        borders=conv_border,
        strided_inputs=True,
        strided_output=True,
    )
)

DEPTHWISE_MULTIPLIED = Lowering(
    kind="DEPTHWISE_CONV_2D",
    name="depthwise_f32_grouped",
    rank=Rank.SPLIT,
    refuses=_refuses,
    lower=_lower_multiplied,
    borders=conv_border,
    strided_inputs=True,
    strided_output=True,
)
