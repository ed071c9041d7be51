"""TRANSPOSE_CONV: every input pixel adds its scaled filter to the output."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Shape
from circlet.ops import checks
from circlet.ops.convolve import convolve_transposed
from circlet.ops.geometry import UNPADDED, Padding, Window, Window2D
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import affine, known_ints, moves_bytes, operand, present
from circlet.ops.weighted import centred_int16, evaluate_weighted, factor_in_reach, weighted_forms

_SHAPE, _WEIGHTS, _DATA, _BIAS = range(4)


@dataclass(frozen=True)
class TransposeConvAttrs:
    """Attributes of TRANSPOSE_CONV; padding is that of the convolution it transposes."""

    padding: Padding = UNPADDED
    strides: tuple[int, int] = (1, 1)
    activation: str = "NONE"
    quantized_bias_type: str = "FLOAT32"


def transposed_window_of(op: Op) -> Window2D:
    """The windows, over the output image, of a transposed convolution."""
    _, rows, columns, _ = operand(op, _WEIGHTS).static_shape
    attrs = op.attributes(TransposeConvAttrs)
    return Window2D(attrs.padding, *map(Window, (rows, columns), attrs.strides))


def _infer(op: Op) -> list[TensorType]:
    data = operand(op, _DATA)
    sizes: Shape = known_ints(operand(op, _SHAPE)) or (None,) * 4
    return [TensorType(data.dtype, sizes)]


def _filters(op: Op) -> int | None:
    return operand(op, _WEIGHTS).shape[0]


def _output_shape_fits(op: Op) -> bool:
    sizes = known_ints(operand(op, _SHAPE))
    if sizes is None:
        return not operand(op, _SHAPE).has_rank or operand(op, _SHAPE).shape in ((4,), (None,))
    return _is_output_shape(op, sizes, checks.image_shape(operand(op, _DATA)))


def _is_output_shape(op: Op, sizes: tuple[int, ...], data: Shape) -> bool:
    if len(sizes) != 4 or min(sizes[1:]) < 1 or sizes[0] < 0:
        return False
    return data[0] in (None, sizes[0]) and _filters(op) in (None, sizes[3])


def _depth_fits(op: Op) -> bool:
    depths = checks.image_shape(operand(op, _DATA))[3], operand(op, _WEIGHTS).shape[3]
    return None in depths or depths[0] == depths[1]


def _windows_fit(op: Op) -> bool:
    sizes = known_ints(operand(op, _SHAPE))
    return sizes is None or _holds_windows(op, sizes, checks.image_shape(operand(op, _DATA)))


def _holds_windows(op: Op, sizes: tuple[int, ...], data: Shape) -> bool:
    counts = transposed_window_of(op).output(*sizes[1:3])
    return all(size in (None, count) for size, count in zip(data[1:3], counts, strict=True))


def _cost(op: Op) -> Cost:
    taps = prod(operand(op, _WEIGHTS).static_shape[:3])
    return Cost(macs=operand(op, _DATA).elements * taps, bytes=moves_bytes(op).bytes)


def _evaluate(op: Op, arrays: Arrays) -> list[np.ndarray]:
    shape, data = present(arrays[_SHAPE]), present(arrays[_DATA])
    sizes = tuple(int(size) for size in shape.reshape(-1))
    if not _is_output_shape(op, sizes, data.shape) or not _holds_windows(op, sizes, data.shape):
        raise GraphError(
            "the output shape does not fit the input",
            where=op.name,
            why=f"output {sizes}, input {data.shape}",
        )
    window = transposed_window_of(op)
    return evaluate_weighted(
        op,
        [data, *arrays[_WEIGHTS:_DATA], *arrays[_BIAS:]],
        lambda x, w: convolve_transposed(x, w, window, (sizes[1], sizes[2])),
        operands=(_DATA, _WEIGHTS),
    )


def _decompose(op: Op) -> list[Op]:
    """Over 8-bit weights that are computed: a convolution of the pixels with zeros between."""
    from circlet.ops.computed_weights import pixels_apart  # It asks this file for windows.

    return pixels_apart(op)


TRANSPOSE_CONV = register(
    OpDef(
        kind="TRANSPOSE_CONV",
        attrs=TransposeConvAttrs,
        arity=(3, 4),
        required=3,
        dtypes=weighted_forms("INT32 {weights} {data} {bias} -> {data}"),
        infer=_infer,
        rules=(
            checks.rank_is(_DATA, 4, "input"),
            checks.rank_is(_WEIGHTS, 4, "weights"),
            checks.not_empty(_WEIGHTS, images=_DATA),
            checks.known_sizes(_WEIGHTS, "weights"),
            checks.padding(2),
            checks.one_of("activation", checks.ACTIVATIONS),
            checks.steps(2, "strides"),
            Rule("depth_fits", _depth_fits, "input and weights must have equal depth"),
            Rule(
                "output_shape_fits",
                _output_shape_fits,
                "the output shape must be four sizes: the input's batch, positive height and "
                "width, and the weights' filter count",
            ),
            Rule(
                "windows_fit",
                _windows_fit,
                "the output shape must hold as many windows as the input has pixels",
            ),
            checks.bias_fits(_BIAS, _filters),
            affine(_DATA),
            checks.weights_quantised(_WEIGHTS, 0, _filters),
            factor_in_reach(_DATA, _WEIGHTS),
            centred_int16(_DATA),
        ),
        evaluate=_evaluate,
        cost=_cost,
        decompose=_decompose,
    )
)
