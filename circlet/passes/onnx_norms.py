"""Normalisations in the words of .onnx files."""

from __future__ import annotations

import numpy as np

from circlet.ir import Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ops import NoAttrs
from circlet.ops.circle_norm import InstanceNormAttrs, RmsNormAttrs
from circlet.ops.onnx.record import PREFIX, onnx_op
from circlet.passes.cone import Reals

LAYER_NORM = f"CUSTOM:{PREFIX}LayerNormalization"
INSTANCE_NORM = f"CUSTOM:{PREFIX}InstanceNormalization"
_OPSET = 17  # the first that has LayerNormalization
_CHANNELS_FIRST, _CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
Attrs = InstanceNormAttrs | RmsNormAttrs


def layer_normalization(
    source: Tensor, result: Tensor, gamma: Reals, beta: Reals, attrs: Attrs, origin: Origin
) -> list[Op]:
    """The node that normalises rows along the last axis."""
    inputs = [source, *_of_channels(source, result, gamma, beta)]
    values = {"axis": -1, "epsilon": attrs.epsilon}
    return [onnx_op("LayerNormalization", inputs, [result], origin, opset=_OPSET, **values)]


def instance_normalization(
    source: Tensor, result: Tensor, gamma: Reals, beta: Reals, attrs: Attrs, origin: Origin
) -> list[Op]:
    """The node that normalises images [n, h, w, c], and the transposes around it."""
    first, made = (_first(tensor) for tensor in (source, result))
    inputs = [first, *_of_channels(source, result, gamma, beta)]
    kind, epsilon = "InstanceNormalization", attrs.epsilon
    return [
        _transpose(source, first, _CHANNELS_FIRST, origin),
        onnx_op(kind, inputs, [made], origin, opset=_OPSET, epsilon=epsilon),
        _transpose(made, result, _CHANNELS_LAST, origin),
    ]


def _of_channels(source: Tensor, result: Tensor, gamma: Reals, beta: Reals) -> list[Tensor]:
    """Scale and offset, one for each channel."""
    channels = source.static_shape[-1:]
    pairs = ("gamma", gamma), ("beta", beta)
    return [
        constant(f"{result.name}/{name}", np.broadcast_to(values.reshape(-1), channels).copy())
        for name, values in pairs
    ]


def _first(tensor: Tensor) -> Tensor:
    """A tensor like another one, with channels first."""
    made = tensor.like(f"{tensor.name}/channels_first")
    made.shape = tuple(tensor.shape[axis] for axis in _CHANNELS_FIRST)
    default = tensor.default_shape
    made.default_shape = default and tuple(default[axis] for axis in _CHANNELS_FIRST)
    return made


def _transpose(source: Tensor, result: Tensor, order: tuple[int, ...], origin: Origin) -> Op:
    axes = constant(f"{result.name}/axes", np.array(order, np.int32))
    return Op("TRANSPOSE", [source, axes], [result], NoAttrs(), origin)
