"""CONV_3D and CONV_3D_TRANSPOSE over volumes [batch, depth, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops import checks
from circlet.ops.geometry import Padding, Window, axis_padding, output_size, padding_sizes
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import known_ints, moves_bytes, operand, present
from circlet.ops.parts import matmul
from circlet.ops.requantize import activate_float, activation_of


@dataclass(frozen=True)
class Conv3DAttrs:
    """Attributes of both; a transposed one's are those of the convolution that it transposes."""

    padding: Padding = ((0, 0), (0, 0), (0, 0))
    strides: tuple[int, int, int] = (1, 1, 1)
    dilations: tuple[int, int, int] = (1, 1, 1)
    activation: str = "NONE"


def windows_of(op: Op) -> tuple[Window, ...]:
    """The windows along depth, height and width, over concrete weights [d, h, w, in, out]."""
    sizes = operand(op, 1).static_shape[:3]
    attrs = op.attributes(Conv3DAttrs)
    return tuple(map(Window, sizes, attrs.strides, attrs.dilations))


def counts_of(op: Op, sizes: Shape) -> list[int | None]:
    """Number of windows along each axis of a volume of `sizes`."""
    padding = op.attributes(Conv3DAttrs).padding
    axes = enumerate(zip(sizes, windows_of(op), strict=True))
    return [output_size(axis_padding(padding, i), size, window) for i, (size, window) in axes]


def _infer(op: Op) -> list[TensorType]:
    data, weights = operand(op, 0), operand(op, 1)
    shape = data.shape if data.has_rank else (None,) * 5
    return [TensorType(data.dtype, (shape[0], *counts_of(op, shape[1:4]), weights.shape[4]))]


def pads_before(op: Op, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Padding ahead of each axis of a volume of `sizes`, the output's of a transposed one."""
    padding = op.attributes(Conv3DAttrs).padding
    axes = enumerate(zip(sizes, counts_of(op, sizes), windows_of(op), strict=True))
    return tuple(padding_sizes(axis_padding(padding, i), n, c or 0, w)[0] for i, (n, c, w) in axes)


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
    counts = [count or 0 for count in counts_of(op, sizes)]
    before = pads_before(op, sizes)
    total = np.zeros((data.shape[0], *counts, weights.shape[4]), np.float32)
    for tap in product(*(range(window.size) for window in windows)):
        facts = zip(tap, windows, before, sizes, counts, strict=True)
        spans = [_span(*each) for each in facts]
        outputs, elements = ([span[side] for span in spans] for side in (0, 1))
        total[:, *outputs] += matmul(data[:, *elements], weights[tap])
    return [_finished(op, total, arrays[2] if len(arrays) > 2 else None)]


def _finished(op: Op, total: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    biased = total if bias is None else total + bias.reshape(-1)
    activation = activation_of(op)
    return activate_float(np.asarray(biased, np.float32), activation)


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
            checks.padding(3),
            checks.one_of("activation", checks.ACTIVATIONS),
            checks.steps(3, "strides", "dilations"),
            Rule("depths", _depths_agree, "input and weights must have equal channels"),
            checks.bias_fits(2, _filters),
            Rule("window_fits", lambda op: 0 not in _infer(op)[0].shape, "the window must fit"),
        ),
        numerics="tolerance",
        cost=_cost,
    )
)


_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


def _infer_transposed(op: Op) -> list[TensorType]:
    sizes: Shape = known_ints(operand(op, _SHAPE)) or (None,) * 5
    return [TensorType(operand(op, _DATA).dtype, sizes)]


def _evaluate_transposed(op: Op, arrays: Arrays) -> list[np.ndarray]:
    shape, weights, data = (present(array) for array in arrays[:_BIAS])
    sizes = tuple(int(size) for size in shape.reshape(-1))
    if not _is_output(op, sizes, data.shape):
        raise GraphError(
            "the output shape does not fit the input",
            where=op.name,
            why=f"output {sizes}, input {data.shape}",
        )
    windows, before = windows_of(op), pads_before(op, sizes[1:4])
    total = np.zeros(sizes, np.float32)
    for tap in product(*(range(window.size) for window in windows)):
        facts = zip(tap, windows, before, sizes[1:4], data.shape[1:4], strict=True)
        spans = [_span(*each) for each in facts]
        inputs, elements = ([span[side] for span in spans] for side in (0, 1))
        total[:, *elements] += matmul(data[:, *inputs], weights[tap].T)
    return [_finished(op, total, arrays[_BIAS] if len(arrays) > _BIAS else None)]


def _is_output(op: Op, sizes: tuple[int, ...], data: Shape) -> bool:
    if len(sizes) != 5 or min(sizes) < 1:
        return False
    if data[0] not in (None, sizes[0]) or operand(op, _WEIGHTS).shape[3] != sizes[4]:
        return False
    pairs = zip(data[1:4], counts_of(op, sizes[1:4]), strict=True)
    return all(size in (None, count) for size, count in pairs)


def _output_fits(op: Op) -> bool:
    shape, data = operand(op, _SHAPE), operand(op, _DATA)
    sizes = known_ints(shape)
    if sizes is None:
        return not shape.has_rank or shape.shape in ((5,), (None,))
    return _is_output(op, sizes, data.shape if data.has_rank else (None,) * 5)


def _transposed_depths_agree(op: Op) -> bool:
    data = operand(op, _DATA)
    return not data.has_rank or data.shape[4] in (None, operand(op, _WEIGHTS).shape[4])


def _transposed_filters(op: Op) -> int | None:
    return operand(op, _WEIGHTS).shape[3]


def _transposed_cost(op: Op) -> Cost:
    taps = prod(operand(op, _WEIGHTS).static_shape[:4])
    return Cost(macs=operand(op, _DATA).elements * taps, bytes=moves_bytes(op).bytes)


def _decompose_transposed(op: Op) -> list[Op]:
    from circlet.ops.conv3d_parts import transposed_parts  # It asks this file for windows.

    return transposed_parts(op)


register(
    OpDef(
        kind="CONV_3D_TRANSPOSE",
        attrs=Conv3DAttrs,
        arity=(3, 4),
        required=3,
        dtypes=("INT32 FLOAT32 FLOAT32 FLOAT32 -> FLOAT32", "INT32 FLOAT32 FLOAT32 _ -> FLOAT32"),
        infer=_infer_transposed,
        evaluate=_evaluate_transposed,
        rules=(
            checks.rank_is(_DATA, 5, "input"),
            checks.rank_is(_WEIGHTS, 5, "weights"),
            checks.not_empty(_WEIGHTS, _DATA),
            checks.known_sizes(_WEIGHTS, "weights"),
            checks.padding(3),
            checks.one_of("activation", checks.ACTIVATIONS),
            checks.steps(3, "strides", "dilations"),
            Rule("depths", _transposed_depths_agree, "input and weights must have equal channels"),
            checks.bias_fits(_BIAS, _transposed_filters),
            Rule(
                "output_shape_fits",
                _output_fits,
                "the output shape must be five positive sizes, which hold as many windows as the "
                "input has elements, of the weights' filter count",
            ),
        ),
        numerics="tolerance",
        cost=_transposed_cost,
        decompose=_decompose_transposed,
    )
)
