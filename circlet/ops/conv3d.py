"""CONV_3D: convolution over volumes [batch, depth, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.ir import Op
from circlet.ops import checks
from circlet.ops.geometry import Window, output_size, padding_sizes
from circlet.ops.operands import moves_bytes, operand, present
from circlet.ops.record import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.requantize import activate_float

_SIZES = ("stride_d", "stride_h", "stride_w")
_DILATIONS = ("dilation_d_factor", "dilation_h_factor", "dilation_w_factor")


@dataclass(frozen=True)
class Conv3DAttrs:
    """Options of CONV_3D."""

    padding: str = "SAME"
    stride_d: int = 0
    stride_w: int = 0
    stride_h: int = 0
    fused_activation_function: str = "NONE"
    dilation_d_factor: int = 1
    dilation_w_factor: int = 1
    dilation_h_factor: int = 1


def windows_of(op: Op) -> tuple[Window, ...]:
    """The windows along depth, height and width, over concrete weights [d, h, w, in, out]."""
    sizes = operand(op, 1).static_shape[:3]
    steps = [getattr(op.attrs, name) for name in _SIZES]
    dilations = [getattr(op.attrs, name) for name in _DILATIONS]
    return tuple(Window(*each) for each in zip(sizes, steps, dilations, strict=True))


def _padding(op: Op) -> str:
    return str(getattr(op.attrs, "padding", "SAME"))


def _infer(op: Op) -> list[TensorType]:
    data, weights = operand(op, 0), operand(op, 1)
    shape = data.shape if data.has_rank else (None,) * 5
    pairs = zip(shape[1:4], windows_of(op), strict=True)
    sizes = [output_size(_padding(op), size, window) for size, window in pairs]
    return [TensorType(data.dtype, (shape[0], *sizes, weights.shape[4]))]


def pads_before(op: Op, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Padding ahead of each axis of a volume of `sizes`."""
    found = []
    for size, window in zip(sizes, windows_of(op), strict=True):
        count = output_size(_padding(op), size, window) or 0
        found.append(padding_sizes(_padding(op), size, count, window)[0])
    return tuple(found)


def _span(tap: int, window: Window, before: int, size: int, count: int) -> tuple[slice, slice]:
    """Outputs whose tap meets a real element, and those elements."""
    offset = tap * window.dilation - before
    first = max(0, -(offset // window.stride))
    last = max(first, min(count, (size - 1 - offset) // window.stride + 1))
    start = first * window.stride + offset
    stop = start + (last - first - 1) * window.stride + 1 if last > first else start
    return slice(first, last), slice(start, stop, window.stride)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    data, weights = present(arrays[0]), present(arrays[1])
    windows, sizes = windows_of(op), data.shape[1:4]
    counts = [output_size(_padding(op), n, w) or 0 for n, w in zip(sizes, windows, strict=True)]
    before = pads_before(op, sizes)
    total = np.zeros((data.shape[0], *counts, weights.shape[4]), np.float32)
    for tap in product(*(range(window.size) for window in windows)):
        facts = zip(tap, windows, before, sizes, counts, strict=True)
        spans = [_span(*each) for each in facts]
        outputs, elements = ([span[side] for span in spans] for side in (0, 1))
        total[:, *outputs] += data[:, *elements] @ weights[tap]
    bias = arrays[2] if len(arrays) > 2 else None
    biased = total if bias is None else total + bias.reshape(-1)
    activation = str(getattr(op.attrs, "fused_activation_function", "NONE"))
    return [activate_float(np.asarray(biased, np.float32), activation)]


def _filters(op: Op) -> int | None:
    return operand(op, 1).shape[4]


def _depths_agree(op: Op) -> bool:
    data = operand(op, 0)
    return not data.has_rank or data.shape[4] in (None, operand(op, 1).shape[3])


def _cost(op: Op) -> Cost:
    taps = prod(operand(op, 1).static_shape[:4])
    return Cost(macs=prod(op.outputs[0].static_shape) * taps, bytes=moves_bytes(op).bytes)


register(
    OpDef(
        kind="CONV_3D",
        attrs=Conv3DAttrs,
        options="Conv3DOptions",
        arity=(2, 3),
        required=2,
        dtypes=("FLOAT32 FLOAT32 FLOAT32 -> FLOAT32", "FLOAT32 FLOAT32 _ -> FLOAT32"),
        infer=_infer,
        evaluate=_evaluate,
        rules=(
            checks.rank_is(0, 5, "input"),
            checks.rank_is(1, 5, "weights"),
            checks.not_empty(0, 1),
            checks.known_sizes(1, "weights"),
            checks.one_of("padding", checks.PADDINGS),
            checks.one_of("fused_activation_function", checks.ACTIVATIONS),
            checks.at_least((*_SIZES, *_DILATIONS), 1),
            Rule("depths", _depths_agree, "input and weights must have equal channels"),
            checks.bias_fits(2, _filters),
            Rule("window_fits", lambda op: 0 not in _infer(op)[0].shape, "the window must fit"),
        ),
        numerics="tolerance",
        cost=_cost,
    )
)
