"""Float convolutions and fully connected layers whose weights or biases are computed at run time.

Weights are packed by a call of their own (`computed_weights.py`), and what follows are the calls
of constant ones. Winograd's transform takes part where weights are computed once, for all runs;
folding does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from circlet.backends.cpu.layout import Border
from circlet.backends.cpu.lower.floats.computed_weights import Panels, call_pack
from circlet.backends.cpu.lower.floats.conv_float import float_conv, multiplied_conv
from circlet.backends.cpu.lower.floats.depthwise_float import call_depthwise, depthwise_rows
from circlet.backends.cpu.lower.floats.epilogue import FloatProduct
from circlet.backends.cpu.lower.floats.float_matrix import call_conv_f32, why_not_activation
from circlet.backends.cpu.lower.floats.fully_connected_float import fully_connected
from circlet.backends.cpu.lower.floats.tiles import FLOAT_BYTES, lanes_of
from circlet.backends.cpu.lower.floats.transpose_conv import phase_products
from circlet.backends.cpu.lower.floats.winograd import WINOGRAD, call_winograd, method_of
from circlet.backends.cpu.lower.phases import borders_of, many_phases
from circlet.backends.cpu.lower.products.product import ComputedWeights, View
from circlet.backends.cpu.lower.products.windows import (
    conv_border,
    multiplier_of,
    why_not_repeated,
)
from circlet.backends.cpu.lower.views import layout_of, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    ConstantRef,
    Context,
    Lowering,
    NoRef,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.conv import window_of
from circlet.ops.operands import operand
from circlet.ops.transpose_conv import transposed_window_of
from circlet.target.targets import Target

_TRANSPOSED_DATA = 2


def _why_not(op: Op, data: int, weights: int) -> str | None:
    """Why the kernels do not take an op whose operands stand at these positions."""
    source, filters = operand(op, data), operand(op, weights)
    if {source.dtype, filters.dtype, op.outputs[0].dtype} != {DType.FLOAT32}:
        return "not float32"
    if any(tensor.elements == 0 for tensor in (source, filters, op.outputs[0])):
        return "a size is 0"
    if filters.sparsity is not None:
        return "sparse weights"
    return why_not_activation(op)


def _refuses(op: Op, target: Target) -> str | None:
    return _why_not(op, 0, 1)


def _refuses_transposed(op: Op, target: Target) -> str | None:
    if not operand(op, 0).is_constant:
        return "the output shape must be constant"
    if operand(op, _TRANSPOSED_DATA).is_constant:
        return "constant input"
    return _why_not(op, _TRANSPOSED_DATA, 1) or many_phases(op)


def _bias(context: Context, bias: Tensor | None) -> Ref:
    return NoRef() if bias is None else source_ref(context, bias)


def _lasts(op: Op, context: Context) -> bool:
    """Whether the weights and biases of a layer are constant, or computed once for all runs."""
    given = [tensor for tensor in op.inputs[1:3] if tensor is not None]
    return all(tensor.is_constant or context.lasts(tensor) for tensor in given)


def _filters_first(
    op: Op, context: Context, bias: Tensor | None, groups: int = 1
) -> ComputedWeights:
    """Weights [filters, rows, columns, channels], wherever their pixels are."""
    weights = operand(op, 1)
    layout = layout_of(context, weights)
    return ComputedWeights(
        source_ref(context, weights),
        layout.batch_stride,
        (layout.row_stride, layout.pixel_stride),
        group=layout.batch // groups * layout.batch_stride,
        bias=_bias(context, bias),
    )


def _filters_last(op: Op, context: Context, group: int) -> ComputedWeights:
    """Weights [1, rows, columns, filters], `group` filters for each channel."""
    weights = operand(op, 1)
    layout = layout_of(context, weights)
    taps = layout.row_stride, layout.pixel_stride
    bias = _bias(context, op.input(2))
    return ComputedWeights(source_ref(context, weights), 1, taps, group=group, bias=bias)


def _stored(op: Op, context: Context, view: View) -> View:
    """A view of the first operand; a constant one is placed with the border around its image."""
    data = operand(op, 0)
    if not data.is_constant:
        return view
    border = Border() if op.kind == "FULLY_CONNECTED" else conv_border(op).get(0, Border())
    pads = [(0, 0), (border.top, border.bottom), (border.left, border.right), (0, 0)]
    values = np.asarray(data.data, np.float32)
    image = np.pad(values, pads) if border else values
    placed = context.packed(op, f"image {border}", lambda: ([image], None))
    return view._replace(offset=0, placed=placed.refs[0])


def _call(product: FloatProduct, context: Context, weights: ComputedWeights) -> None:
    """Append the calls of a product over its first operand."""
    op = product.op
    given = product._replace(source=_stored(op, context, product.source), computed=weights)
    if _lasts(op, context) and context.choose(op, method_of(context, given)) == WINOGRAD:
        call_winograd(given, context)
    else:
        call_conv_f32(given, context)


def _lower_conv(op: Op, context: Context) -> None:
    product = float_conv(op, context)
    _call(product, context, _filters_first(op, context, op.input(2), product.groups))


def _lower_rows(op: Op, context: Context) -> None:
    product, weights = fully_connected(op, op.outputs[0]), source_ref(context, operand(op, 1))
    bias = _bias(context, op.input(2))
    _call(product, context, ComputedWeights(weights, product.depth, (0, 0), bias=bias))


def _lower_depthwise(op: Op, context: Context) -> None:
    filters = operand(op, 1).static_shape[3]
    if why_not_repeated(op) is not None:
        product = multiplied_conv(op, context)
        _call(product, context, _filters_last(op, context, multiplier_of(op)))
        return
    rows, lanes = depthwise_rows(op, context), lanes_of(context.vector_bytes)
    rows = replace(rows, source=_stored(op, context, rows.source))
    window = window_of(op)
    shape = filters, window.rows.size, window.columns.size, 1
    panels = Panels(lanes, last=max(0, filters - lanes))
    packed = call_pack(op, context, _filters_last(op, context, 0), shape, panels)
    call_depthwise(op, context, rows, packed)


def _lower_transposed(op: Op, context: Context) -> None:
    """The taps of a phase are some of the window's, from the last to the first."""
    every = _filters_first(op, context, op.input(3))
    row, column = every.taps
    window = transposed_window_of(op)
    steps = -window.rows.stride * row, -window.columns.stride * column
    for (down, across), product in phase_products(op, context):
        first = (*down.taps, 0)[0] * row + (*across.taps, 0)[0] * column
        weights = every._replace(weights=_moved(every.weights, first), taps=steps)
        call_conv_f32(product._replace(computed=weights), context)


def _moved(ref: Ref, elements: int) -> Ref:
    """The address so many floats further on."""
    if isinstance(ref, ConstantRef):
        return ref._replace(offset=ref.offset + elements * FLOAT_BYTES)
    assert isinstance(ref, TensorRef)
    return ref._replace(offset=ref.offset + elements)


LOWERINGS.add(
    Lowering(
        "FULLY_CONNECTED",
        "fully_connected_f32_computed",
        _refuses,
        _lower_rows,
        rank=Rank.COMPUTED,
    )
)
for _kind, _name, _lower in (
    ("CONV_2D", "conv_f32_computed", _lower_conv),
    ("DEPTHWISE_CONV_2D", "depthwise_f32_computed", _lower_depthwise),
):
    LOWERINGS.add(
        Lowering(
            _kind,
            _name,
            _refuses,
            _lower,
            conv_border,
            strided_inputs=True,
            strided_output=True,
            rank=Rank.COMPUTED,
        )
    )
LOWERINGS.add(
    Lowering(
        "TRANSPOSE_CONV",
        "transpose_conv_f32_computed",
        _refuses_transposed,
        _lower_transposed,
        borders_of,
        strided_inputs=True,
        strided_output=True,
        rank=Rank.COMPUTED,
    )
)
