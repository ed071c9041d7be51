"""CONV_2D, DEPTHWISE_CONV_2D and TRANSPOSE_CONV."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from circlet.backends.opencl.emission import Constant, Emission
from circlet.backends.opencl.lower.products import Pixels, Product, launch_product
from circlet.backends.opencl.lower.sums import Sums, padded_to, sums_of, weights_of
from circlet.backends.opencl.lowering import lowers, take
from circlet.ir import Op, Tensor
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs, window_of
from circlet.ops.operands import known_ints, operand
from circlet.ops.transpose_conv import TransposeConvAttrs, transposed_window_of


def _weights(op: Op, index: int = 1) -> Tensor:
    weights = operand(op, index)
    take(weights.is_constant, "the weights are computed in the run")
    return weights


@lowers("CONV_2D")
def _conv(op: Op, emission: Emission) -> None:
    data, weights, result = operand(op, 0), _weights(op), op.outputs[0]
    images, height, width, channels = data.static_shape
    filters, *taps, depth = weights.static_shape
    groups = channels // depth
    each = filters // groups
    packed = each + -each % 4
    sums = sums_of(op, emission, (data, weights, op.input(2)), partial(_in_groups, groups))
    attrs, before = op.attributes(Conv2DAttrs), _before(op, height, width)
    windows = result.static_shape[1:3]
    offsets = [
        (g * depth, g * prod(taps) * depth * packed, g * each, g * packed) for g in range(groups)
    ]
    product = Product(
        rows=images * prod(windows),
        columns=each,
        depth=prod(taps) * depth,
        c_row=filters,
        offsets=offsets,
        packed=packed,
        a_steps=(channels, 1),
        pixels=Pixels(
            size=(height, width),
            channels=depth,
            pitch=channels,
            taps_x=taps[1],
            strides=attrs.strides,
            dilations=attrs.dilations,
            before=before,
            windows=(windows[0], windows[1]),
        ),
    )
    if taps == [1, 1] and windows == (height, width) and attrs.strides == (1, 1):
        product = _as_matrix(product)
    kernel = weights_of(emission, weights, partial(_packed, groups))
    launch_product(emission, sums, (emission.value(data), kernel, result), product)


def _as_matrix(product: Product) -> Product:
    from dataclasses import replace

    return replace(product, pixels=None)


def _before(op: Op, height: int, width: int) -> tuple[int, int]:
    """Rows above and columns left of the image."""
    (top, _), (left, _) = window_of(op).pads(height, width)
    return top, left


def _in_groups(groups: int, values: np.ndarray) -> np.ndarray:
    return padded_to(values.reshape(groups, -1), 4).reshape(-1)


def _packed(groups: int, weights: np.ndarray) -> np.ndarray:
    """[filters, taps, depth] as [groups, taps and depth, filters], filters padded to fours."""
    stacked = weights.reshape(groups, len(weights) // groups, -1).transpose(0, 2, 1)
    return np.ascontiguousarray(padded_to(stacked, 4))


@lowers("DEPTHWISE_CONV_2D")
def _depthwise(op: Op, emission: Emission) -> None:
    data, weights, result = operand(op, 0), _weights(op), op.outputs[0]
    _, height, width, channels = data.static_shape
    _, *taps, filters = weights.static_shape
    sums = sums_of(op, emission, (data, weights, op.input(2)), lambda values: values)
    attrs, before = op.attributes(DepthwiseConv2DAttrs), _before(op, height, width)
    lanes = 4 if filters == channels and filters % 4 == 0 else 1
    count = result.elements // lanes
    kernel = emission.template("depthwise", {**sums.defines, **_lanes(lanes)})
    sizes = [count, height, width, channels, filters, *taps, *attrs.strides, *attrs.dilations]
    windows = result.static_shape[1:3]
    kept = weights_of(emission, weights, np.ascontiguousarray)
    operands = [emission.value(data), kept, result]
    arguments = [*operands, *sums.arguments, *sizes, *before, *windows]
    emission.per_element(kernel, arguments, count)


def _lanes(lanes: int) -> dict[str, object]:
    if lanes == 1:
        return {"LANES": 1, "LANES_T": "ACC", "LOAD_A(i)": "(ACC)a[i]", "LOAD_B(i)": "LOAD_B1(i)"}
    loads = {"LOAD_A(i)": "TO_ACC4(vload4(0, a + (i)))", "LOAD_B(i)": "LOAD_B4(i)"}
    return {"LANES": 4, "LANES_T": "ACC4", **loads}


@lowers("TRANSPOSE_CONV")
def _transposed(op: Op, emission: Emission) -> None:
    take(known_ints(op.input(0)) is not None, "the sizes are computed in the run")
    weights, data, result = _weights(op, 1), operand(op, 2), op.outputs[0]
    _, height, width, channels = data.static_shape
    filters, *taps, _ = weights.static_shape
    windows = result.static_shape[1:3]
    sums = sums_of(op, emission, (data, weights, op.input(3)), partial(_in_groups, 1))
    (top, _), (left, _) = transposed_window_of(op).pads(*windows)
    kernel = weights_of(emission, weights, _taps_first)
    packed = filters + -filters % 4
    count = result.elements // filters * (packed // 4)
    sizes = [count, height, width, channels, filters, packed, *taps]
    places = [*op.attributes(TransposeConvAttrs).strides, top, left, *windows]
    _launch(emission, sums, [emission.value(data), kernel, result], [*sizes, *places])


def _launch(
    emission: Emission, sums: Sums, operands: list[Tensor | Constant | np.generic], sizes: list[int]
) -> None:
    name = emission.template("transposed", sums.defines)
    emission.per_element(name, [*operands, *sums.arguments, *sizes], sizes[0])


def _taps_first(weights: np.ndarray) -> np.ndarray:
    """[filters, rows, columns, channels] as [rows, columns, channels, filters], padded to fours."""
    return np.ascontiguousarray(padded_to(weights.transpose(1, 2, 3, 0), 4))
