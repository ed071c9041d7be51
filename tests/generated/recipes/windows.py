"""Recipes of kinds with windows or weights: convolutions, pooling, products, resizing."""

from __future__ import annotations

from typing import TypeVar

from circlet.ir import DType, Quantization
from circlet.ops import OpDef
from circlet.ops.geometry import SAME_UPPER, Padding, Window
from circlet.ops.operands import QUANTISED
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand, Sizes
from tests.generated.recipes.common import Recipe, drawn_attrs, output_quant, result

T = TypeVar("T")


def _pair(draw: Draw, *choices: int) -> tuple[int, int]:
    return draw.pick(choices), draw.pick(choices)


def _padding(draw: Draw, rank: int = 2) -> Padding:
    return draw.pick((SAME_UPPER, ((0, 0),) * rank))


def _finite(draw: Draw) -> None:
    """Sums of what is not finite depend on their order and grouping; see docs/exactness.md."""
    draw.style = "small"


def _image(draw: Draw, dtype: DType, depth: int = 0) -> Operand:
    rows, columns = (draw.integer(3, 9) for _ in range(2))
    shape = (draw.integer(1, 2), rows, columns, depth or draw.pick((1, 2, 3, 4, 8)))
    return draw.data(dtype, shape, constant=0)


def _weights(draw: Draw, dtype: DType, shape: Sizes, channels: int, axis: int) -> Operand:
    """Constant weights; int8 ones with a scale for each channel, or one for all."""
    values = draw.values(dtype, shape)
    if dtype not in QUANTISED:
        return Operand(values, None, True)
    zero = draw.integer(100, 150) if dtype is DType.UINT8 else 0
    if dtype is DType.INT8 and draw.chance(0.5):
        scales = 2.0 ** draw.rng.uniform(-9, -6, channels)
        return Operand(values, Quantization.per_channel(scales, axis), True)
    return Operand(values, Quantization.per_tensor(2.0 ** draw.rng.uniform(-9, -6), zero), True)


def _bias(draw: Draw, form: Form, index: int, source: Operand, weights: Operand) -> Operand | None:
    """A constant bias in the scale of the sums."""
    dtype = form.inputs[index] if len(form.inputs) > index else None
    if dtype is None:
        return None
    channels = len(weights.quant.scale) if weights.quant is not None else 1
    count = _filters(weights, index)
    if dtype is DType.FLOAT32:
        return Operand(draw.values(dtype, (count,)), None, True)
    assert source.quant is not None and weights.quant is not None
    scales = source.quant.scale * weights.quant.scale
    quant = Quantization.per_channel(scales, 0) if channels > 1 else None
    values = draw.rng.integers(-3000, 3000, count).astype(dtype.numpy)
    return Operand(values, quant or Quantization.per_tensor(float(scales[0]), 0), True)


def _filters(weights: Operand, index: int) -> int:
    shape = weights.array.shape
    if len(shape) == 5:  # of CONV_3D_TRANSPOSE filters come before channels
        return shape[4] if index == 2 else shape[3]
    return shape[3] if len(shape) == 4 and shape[0] == 1 else shape[0]


def _bias_type(form: Form, index: int) -> str:
    """What options say of the bias: 16-bit layers read a 32-bit one as 64 bits without it."""
    bias = form.inputs[index] if len(form.inputs) > index else None
    is_narrow = bias is DType.INT32 and form.output is DType.INT16
    return "INT32" if is_narrow else "FLOAT32"


def _sum_quant(draw: Draw, record: OpDef, form: Form) -> list[tuple[DType, Quantization | None]]:
    quant = output_quant(draw, record, form.output, None, 2.0**-3)
    if form.output is DType.INT16:
        quant = Quantization.per_tensor(2.0**-9, 0)
    return [(form.output, quant)]


def convolved(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Weights [filters, h, w, depth], grouped where the depth divides the channels."""
    _finite(draw)
    groups = draw.pick((1, 1, 1, 2))
    source = _image(draw, form.input(0), draw.pick((1, 2, 3, 4, 8)) * groups)
    window, filters = _pair(draw, 1, 2, 3), draw.integer(2, 5) * groups
    depth = source.array.shape[3] // groups
    weights = _weights(draw, form.input(1), (filters, *window, depth), filters, 0)
    strides = _pair(draw, 1, 1, 2)
    dilations = (1, 1) if max(strides) > 1 else _pair(draw, 1, 1, 2)
    attrs = drawn_attrs(
        draw, record, padding=_padding(draw), strides=strides, dilations=dilations,
        activation=draw.pick(_ACTIVATIONS), quantized_bias_type=_bias_type(form, 2),
    )  # fmt: skip
    operands = [source, weights, _bias(draw, form, 2, source, weights)]
    return Parts(_given(operands), attrs, _sum_quant(draw, record, form))


def depthwise(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Weights [1, h, w, channels * multiplier]."""
    _finite(draw)
    source = _image(draw, form.input(0))
    channels = source.array.shape[3] * draw.pick((1, 1, 2))
    weights = _weights(draw, form.input(1), (1, *_pair(draw, 1, 2, 3), channels), channels, 3)
    attrs = drawn_attrs(
        draw, record, padding=_padding(draw), strides=(draw.pick((1, 2)),) * 2,
        activation=draw.pick(_ACTIVATIONS), depth_multiplier=channels // source.array.shape[3],
    )  # fmt: skip
    operands = [source, weights, _bias(draw, form, 2, source, weights)]
    return Parts(_given(operands), attrs, _sum_quant(draw, record, form))


def convolved_back(draw: Draw, record: OpDef, form: Form) -> Parts:
    """An output shape that holds as many windows as the input has pixels."""
    _finite(draw)
    source, window, strides = _image(draw, form.input(2)), _pair(draw, 1, 2, 3), _pair(draw, 1, 2)
    filters, padding = draw.integer(2, 5), _padding(draw)
    shape = (filters, *window, source.array.shape[3])
    weights = _weights(draw, form.input(1), shape, filters, 0)
    sizes = [
        _grown(size, Window(taps, step), padding)
        for size, taps, step in zip(source.array.shape[1:3], window, strides, strict=True)
    ]
    attrs = drawn_attrs(
        draw, record, padding=padding, strides=strides, activation=draw.pick(_ACTIVATIONS),
        quantized_bias_type=_bias_type(form, 3),
    )  # fmt: skip
    sizes = [source.array.shape[0], *sizes, filters]
    operands = [draw.ints(sizes, constant=0.9), weights, source]
    operands_or_none = [*operands, _bias(draw, form, 3, source, weights)]
    return Parts(_given(operands_or_none), attrs, _sum_quant(draw, record, form))


def _grown(size: int, window: Window, padding: Padding) -> int:
    """A size of an image that `size` windows cover."""
    if padding == SAME_UPPER:
        return size * window.stride
    return (size - 1) * window.stride + window.extent


def convolved_volume(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Weights [d, h, w, channels, filters]; the transposed kind has filters before channels."""
    _finite(draw)
    back = record.kind.endswith("TRANSPOSE")
    sizes, window = ([draw.integer(low, high) for _ in range(3)] for low, high in ((3, 5), (1, 3)))
    strides, padding = tuple(draw.pick((1, 1, 2)) for _ in range(3)), _padding(draw, 3)
    channels, filters = draw.integer(1, 3), draw.integer(1, 3)
    ends = (filters, channels) if back else (channels, filters)
    weights = Operand(draw.values(DType.FLOAT32, (*window, *ends)), None, True)
    source = draw.data(DType.FLOAT32, (draw.integer(1, 2), *sizes, channels), constant=0)
    bias = Operand(draw.values(DType.FLOAT32, (filters,)), None, True)
    attrs = drawn_attrs(
        draw, record, padding=padding, strides=strides, activation=draw.pick(_ACTIVATIONS)
    )
    operands: list[Operand | None] = [source, weights]
    if back:
        axes = zip(sizes, window, strides, strict=True)
        grown = [_grown(size, Window(taps, step), padding) for size, taps, step in axes]
        shape = [source.array.shape[0], *grown, filters]
        operands = [draw.ints(shape, constant=1), weights, source]
    if form.inputs[-1] is not None:
        operands.append(bias)
    return Parts(operands, attrs, [(form.output, None)])


def pooled(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Windows of an image."""
    _finite(draw)
    source = _image(draw, form.input(0))
    attrs = drawn_attrs(
        draw, record, padding=_padding(draw), strides=_pair(draw, 1, 2, 3),
        kernel_shape=_pair(draw, 1, 2, 3), activation=draw.pick(_ACTIVATIONS),
    )  # fmt: skip
    return Parts([source], attrs, result(draw, record, form, source))


def connected(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Rows times weights [units, depth]."""
    _finite(draw)
    depth, units = draw.pick((1, 3, 8, 17)), draw.integer(2, 9)
    source = draw.data(form.input(0), (*draw.shape(1, 2), depth), constant=0)
    weights = _weights(draw, form.input(1), (units, depth), units, 0)
    if form.input(1) is DType.INT16:
        weights = Operand(weights.array, Quantization.per_tensor(2.0**-12, 0), True)
    if form.input(0) is DType.FLOAT32 and form.input(1) is DType.UINT8:
        weights = Operand(weights.array, Quantization.per_tensor(2.0**-7, 128), True)
    attrs = drawn_attrs(
        draw, record, activation=draw.pick(_ACTIVATIONS), quantized_bias_type=_bias_type(form, 2)
    )
    operands = [source, weights, _bias(draw, form, 2, source, weights)]
    return Parts(_given(operands), attrs, _sum_quant(draw, record, form))


def multiplied(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Stacks of matrices that broadcast."""
    _finite(draw)
    stacks, (rows, depth, columns) = draw.shape(0, 3), (draw.integer(1, 9) for _ in range(3))
    attrs = drawn_attrs(draw, record)
    left, right = (rows, depth), (depth, columns)
    if vars(attrs)["adj_x"]:
        left = (depth, rows)
    if vars(attrs)["adj_y"]:
        right = (columns, depth)
    first = draw.data(form.input(0), (*draw.spread(stacks), *left), constant=0)
    second = draw.data(form.input(1), (*draw.spread(stacks), *right), constant=0.3)
    if second.dtype in QUANTISED and form.output is not DType.INT8:
        second = Operand(second.array, Quantization.per_tensor(2.0**-9, 0), second.constant)
    return Parts([first, second], attrs, _sum_quant(draw, record, form))


def resized(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Images made larger and smaller."""
    _finite(draw)
    source = _image(draw, form.input(0))
    size = draw.ints([draw.integer(1, 12) for _ in range(2)])
    choices = ("asymmetric", "half_pixel", "align_corners")
    attrs = drawn_attrs(draw, record, coordinate_transformation=draw.pick(choices))
    return Parts([source, size], attrs, result(draw, record, form, source))


def transformed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Planes cut or filled up to lengths that are powers of two."""
    _finite(draw)
    source = draw.data(form.input(0), (*draw.shape(0, 2), draw.integer(1, 9), draw.integer(1, 9)))
    lengths = draw.ints([draw.pick((1, 2, 4, 8)), draw.pick((2, 4, 8, 16))])
    return Parts([source, lengths], None, [(form.output, None)])


def _given(operands: list[T | None]) -> list[T | None]:
    """Operands without those that are omitted at the end."""
    return operands if operands[-1] is not None else operands[:-1]


_ACTIVATIONS = ("NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1")

WINDOWS: dict[str, Recipe] = {
    "AVERAGE_POOL_2D": pooled,
    "BATCH_MATMUL": multiplied,
    "CONV_2D": convolved,
    "CONV_3D": convolved_volume,
    "CONV_3D_TRANSPOSE": convolved_volume,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": connected,
    "L2_POOL_2D": pooled,
    "MAX_POOL_2D": pooled,
    "RESIZE_BILINEAR": resized,
    "RESIZE_NEAREST_NEIGHBOR": resized,
    "RFFT2D": transformed,
    "TRANSPOSE_CONV": convolved_back,
}
