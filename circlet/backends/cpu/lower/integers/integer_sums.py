"""MatMulInteger and NhwcConvInteger: sums of bytes less a zero point that a run computes."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.layout import Border, nhwc
from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.q8 import Int8
from circlet.backends.cpu.lower.integers.requantisation import SUMS, Requantisation, in_order
from circlet.backends.cpu.lower.integers.stored_images import StoredImages, stored_images
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lower.products.windows import conv_sizes, tap_strides, window_strides
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
)
from circlet.ir import Op
from circlet.ops.onnx.integer_sums import (
    CONV,
    MATMUL,
    has_one_zero,
    has_signed_weights,
    image_window_of,
    signed_weights,
)
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    if operand(op, 0).is_constant or operand(op, 0).dtype.bits != 8:
        return "what meets the weights is not computed bytes"
    if not has_signed_weights(op.label, operand(op, 1), op.input(3)):
        return "the weights are no constant bytes with one zero point"
    if not has_one_zero(op.input(2)):
        return "rows have zero points of their own"
    return "a size is 0" if 0 in (operand(op, 0).elements, op.outputs[0].elements) else None


def _refuses_conv(op: Op, target: Target) -> str | None:
    if operand(op, 0).static_shape[3] != operand(op, 1).static_shape[1]:
        return "does not take groups of channels"
    return _refuses(op, target)


def _lower_matmul(op: Op, context: Context) -> None:
    (weights, weight_zero), data = signed_weights(op), operand(op, 0)
    depth, units = weights.shape
    stored = stored_images(op, context, Border(), _zero_point(op, context))
    epilogue = _epilogue(units, weight_zero, stored, context)
    product: Q8Product = of_rows(
        op,
        data,
        op.outputs[0],
        (units, depth),
        lambda: np.ascontiguousarray(weights.T),
        epilogue,
    )
    call_conv_q8(product._replace(source=stored.view(0, 0, depth)), context)


def _lower_conv(op: Op, context: Context) -> None:
    (weights, weight_zero), window = signed_weights(op), image_window_of(op)
    out = context.layout(op.outputs[0])
    _, height, width, _ = nhwc(operand(op, 0).static_shape)
    (top, bottom), (left, right) = window.pads(height, width)
    border = Border(top, left, bottom, right)
    stored = stored_images(op, context, border, _zero_point(op, context))
    batch, row, pixel = window_strides(window, stored.layout)
    units, depth, *taps = weights.shape
    product: Q8Product = Q8Product(
        op,
        stored.view(batch, row, pixel),
        View.whole(op.outputs[0], out),
        conv_sizes(window, stored.layout, out),
        (units, taps[0], taps[1], depth),
        tap_strides(window, stored.layout),
        lambda: np.ascontiguousarray(weights.transpose(0, 2, 3, 1)),
        _epilogue(units, weight_zero, stored, context),
    )
    call_conv_q8(product, context)


def _zero_point(op: Op, context: Context) -> Ref:
    zero = op.input(2)
    return NoRef() if zero is None else source_ref(context, zero)


def _epilogue(units: int, weight_zero: int, stored: StoredImages, context: Context) -> Q8Epilogue:
    lanes = context.vector_bytes // 4

    def parameters(values: Int8, width: int) -> Requantisation:
        flat = values.reshape(units, -1)
        sums = flat.sum(axis=1, dtype=np.int32) - weight_zero * flat.shape[1]
        return Requantisation(SUMS, in_order(units, width, lanes).table({2: sums}))

    bounds: dict[str, ParamValue] = {"float_low": 0.0, "float_high": 0.0}
    return Q8Epilogue(parameters, weight_zero, False, bounds, stored.scales)


LOWERINGS.add(Lowering(MATMUL, "mat_mul_integer", _refuses, _lower_matmul, rank=Rank.INT8))
LOWERINGS.add(
    Lowering(
        CONV,
        "conv_integer",
        _refuses_conv,
        _lower_conv,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.INT8,
    )
)
