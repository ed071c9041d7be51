"""CONV_2D and DEPTHWISE_CONV_2D."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from circlet.ir import Op
from circlet.ops import checks
from circlet.ops.convolve import convolve, convolve_depthwise
from circlet.ops.decomposition import Parts
from circlet.ops.geometry import UNPADDED, Padding, Window, Window2D
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import affine, moves_bytes, operand, present
from circlet.ops.weighted import (
    centred_int16,
    evaluate_weighted,
    factor_in_reach,
    has_float_weights_as_bytes,
    real_weights,
    weighted_forms,
)

_DEPTHWISE_FILTERS = 3  # the axis of filters
FORMS = weighted_forms("{data} {weights} {bias} -> {data}", ("FLOAT32", "UINT8", "FLOAT32"))


@dataclass(frozen=True)
class Conv2DAttrs:
    """Attributes of CONV_2D; pairs are for rows and columns.

    `groups` may be None: as many as the depth of the weights divides the channels into.
    """

    padding: Padding = UNPADDED
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    groups: int | None = None
    activation: str = "NONE"
    quantized_bias_type: str = "FLOAT32"


@dataclass(frozen=True)
class DepthwiseConv2DAttrs:
    """Attributes of DEPTHWISE_CONV_2D; the multiplier that counts is the one of the shapes."""

    padding: Padding = UNPADDED
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    depth_multiplier: int = 0
    activation: str = "NONE"


def window_of(op: Op) -> Window2D:
    """The windows of a convolution over concrete weights."""
    attrs, weights = op.attrs, op.inputs[1]
    assert isinstance(attrs, (Conv2DAttrs, DepthwiseConv2DAttrs))
    assert weights is not None
    _, rows, columns, _ = weights.static_shape
    return _windows(attrs.padding, (rows, columns), attrs.strides, attrs.dilations)


@lru_cache(maxsize=1024)
def _windows(
    padding: Padding, sizes: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> Window2D:
    return Window2D(padding, *map(Window, sizes, strides, dilations))


def _infer(op: Op, channel_axis: int) -> list[TensorType]:
    data, weights = operand(op, 0), operand(op, 1)
    batch, height, width, _ = checks.image_shape(data)
    sizes = window_of(op).output(height, width)
    return [TensorType(data.dtype, (batch, *sizes, weights.shape[channel_axis]))]


def _infer_conv(op: Op) -> list[TensorType]:
    return _infer(op, 0)


def _infer_depthwise(op: Op) -> list[TensorType]:
    return _infer(op, 3)


def _window_fits(op: Op) -> bool:
    _, height, width, _ = checks.image_shape(operand(op, 0))
    return 0 not in window_of(op).output(height, width)


def _groups_fit(op: Op) -> bool:
    channels, (filters, *_, depth) = checks.image_shape(operand(op, 0))[3], operand(op, 1).shape
    if channels is None or depth is None or filters is None:
        return True
    groups = op.attributes(Conv2DAttrs).groups
    if channels % depth or groups not in (None, channels // depth):
        return False
    return filters % (channels // depth) == 0


def _multiplier_fits(op: Op) -> bool:
    channels, (lead, *_, filters) = checks.image_shape(operand(op, 0))[3], operand(op, 1).shape
    whole = channels is None or filters is None or filters % channels == 0
    return whole and lead in (1, None)


def _rules(axis: int, channels: Rule) -> tuple[Rule, ...]:
    def filters(op: Op) -> int | None:
        return operand(op, 1).shape[axis]

    return (
        checks.rank_is(0, 4, "input"),
        checks.rank_is(1, 4, "weights"),
        checks.not_empty(1, images=0),
        checks.known_sizes(1, "weights"),
        checks.padding(2),
        checks.one_of("activation", checks.ACTIVATIONS),
        checks.steps(2, "strides", "dilations"),
        channels,
        checks.bias_fits(2, filters),
        Rule("window_fits", _window_fits, "the dilated window must fit into the input"),
        affine(0),
        checks.weights_quantised(1, axis, filters),
        factor_in_reach(),
        centred_int16(),
    )


def _cost(op: Op) -> Cost:
    _, rows, columns, depth = operand(op, 1).static_shape
    taps = rows * columns * (depth if op.kind == "CONV_2D" else 1)
    return Cost(macs=prod(op.outputs[0].static_shape) * taps, bytes=moves_bytes(op).bytes)


def _evaluate_conv(op: Op, arrays: Arrays) -> list[np.ndarray]:
    window = window_of(op)
    return evaluate_weighted(op, arrays, lambda x, w: convolve(x, w, window))


def _evaluate_depthwise(op: Op, arrays: Arrays) -> list[np.ndarray]:
    window = window_of(op)
    if has_float_weights_as_bytes(op):
        real = real_weights(operand(op, 1), present(arrays[1]), _DEPTHWISE_FILTERS)
        arrays = [arrays[0], real, *arrays[2:]]
    return evaluate_weighted(op, arrays, lambda x, w: convolve_depthwise(x, w, window))


def _decompose_conv(op: Op) -> list[Op]:
    """Groups of 8-bit weights that are computed run apart."""
    from circlet.ops.computed_weights import groups_apart  # It makes ops of this file's kinds.

    return groups_apart(op)


def _decompose_depthwise(op: Op) -> list[Op]:
    """Float rows meet constant uint8 weights: the same over the weights' real values.

    Channels of 8-bit weights that are computed run apart.
    """
    from circlet.ops.computed_weights import channels_apart

    weights = operand(op, 1)
    if not has_float_weights_as_bytes(op) or weights.data is None:
        return channels_apart(op)
    parts = Parts(op)
    real = parts.constant(real_weights(weights, weights.data, _DEPTHWISE_FILTERS))
    parts.make(op.kind, [op.inputs[0], real, *op.inputs[2:]], op.attrs, op.outputs[0])
    return parts.ops


CONV_2D = register(
    OpDef(
        kind="CONV_2D",
        attrs=Conv2DAttrs,
        arity=(2, 3),
        required=2,
        dtypes=FORMS,
        infer=_infer_conv,
        rules=_rules(
            0,
            Rule(
                "groups_fit",
                _groups_fit,
                "input channels must be a multiple of the weights' depth, and filters of groups",
            ),
        ),
        evaluate=_evaluate_conv,
        cost=_cost,
        decompose=_decompose_conv,
    )
)

DEPTHWISE_CONV_2D = register(
    OpDef(
        kind="DEPTHWISE_CONV_2D",
        attrs=DepthwiseConv2DAttrs,
        arity=(2, 3),
        required=2,
        dtypes=FORMS,
        infer=_infer_depthwise,
        rules=_rules(
            3,
            Rule(
                "multiplier_fits",
                _multiplier_fits,
                "weights must be [1, h, w, c] with c a multiple of the input channels",
            ),
        ),
        evaluate=_evaluate_depthwise,
        cost=_cost,
        decompose=_decompose_depthwise,
    )
)
