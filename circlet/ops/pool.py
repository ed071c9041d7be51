"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.ir import Op
from circlet.ops import checks
from circlet.ops.geometry import SAME_UPPER, UNPADDED, Padding, Window, Window2D
from circlet.ops.opdef import (
    Arrays,
    Cost,
    OpDef,
    QuantRule,
    Rule,
    TensorType,
    register,
)
from circlet.ops.operands import affine, moves_bytes, operand, present, same_quant
from circlet.ops.pooling import average, l2_norm, maximum
from circlet.ops.requantize import activate_float, activation_of, activation_range

Reduce = Callable[[np.ndarray, Window2D], np.ndarray]


@dataclass(frozen=True)
class Pool2DAttrs:
    """Attributes of the pooling operators; pairs are for rows and columns."""

    padding: Padding = UNPADDED
    strides: tuple[int, int] = (1, 1)
    kernel_shape: tuple[int, int] = (1, 1)
    activation: str = "NONE"


def pool_window_of(op: Op) -> Window2D:
    """The windows of a pooling operator."""
    attrs = op.attributes(Pool2DAttrs)
    return Window2D(attrs.padding, *map(Window, attrs.kernel_shape, attrs.strides))


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    batch, height, width, channels = checks.image_shape(data)
    sizes = pool_window_of(op).output(height, width)
    return [TensorType(data.dtype, (batch, *sizes, channels))]


def _holds_pixels(op: Op) -> bool:
    attrs = op.attributes(Pool2DAttrs)
    if attrs.padding == SAME_UPPER:
        return True
    return all(
        max(pads) < taps for pads, taps in zip(attrs.padding, attrs.kernel_shape, strict=True)
    )


def _cost(op: Op) -> Cost:
    taps = prod(op.attributes(Pool2DAttrs).kernel_shape)
    return Cost(arithmetic=prod(op.outputs[0].static_shape) * taps, bytes=moves_bytes(op).bytes)


def _activated(op: Op, values: np.ndarray) -> np.ndarray:
    activation = activation_of(op)
    if op.outputs[0].dtype.is_float:
        return activate_float(values, activation)
    low, high = activation_range(activation, op.outputs[0])
    stored: np.ndarray = np.clip(values, low, high).astype(op.outputs[0].dtype.numpy)
    return stored


def _pool(kind: str, reduce: Reduce, types: tuple[str, ...]) -> OpDef:
    def evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
        return [_activated(op, reduce(present(arrays[0]), pool_window_of(op)))]

    return OpDef(
        kind=kind,
        attrs=Pool2DAttrs,
        arity=(1, 1),
        dtypes=tuple(f"{name} -> {name}" for name in types),
        infer=_infer,
        rules=(
            checks.rank_is(0, 4, "input"),
            checks.not_empty(images=0),
            checks.padding(2),
            checks.one_of("activation", checks.ACTIVATIONS),
            checks.steps(2, "strides", "kernel_shape"),
            Rule(
                "padding_below_kernel",
                _holds_pixels,
                "padding must be smaller than the window, so that each holds a pixel",
                sized=False,
            ),
            Rule(
                "window_fits",
                lambda op: 0 not in _infer(op)[0].shape[1:],
                "the window must fit into the input",
            ),
            affine(0),
            same_quant(0),
        ),
        evaluate=evaluate,
        numerics="exact" if len(types) > 1 else "tolerance",
        quant=QuantRule(same_as_input=True),
        cost=_cost,
    )


AVERAGE_POOL_2D = register(_pool("AVERAGE_POOL_2D", average, ("FLOAT32", "UINT8", "INT8", "INT16")))
MAX_POOL_2D = register(_pool("MAX_POOL_2D", maximum, ("FLOAT32", "UINT8", "INT8", "INT16")))
L2_POOL_2D = register(_pool("L2_POOL_2D", l2_norm, ("FLOAT32",)))
