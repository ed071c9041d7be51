"""Operators over images and matrices: convolutions, pools, full connections, resizes."""

from __future__ import annotations

from circlet.formats.nnapi.codes import PaddingCode
from circlet.formats.nnapi.writing import NotWrittenError, Written, writes
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.blocks import DepthAttrs
from circlet.ops.conv import Conv2DAttrs, DepthwiseConv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER, UNPADDED, Padding
from circlet.ops.inverse_root import L2NormAttrs
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.pool import Pool2DAttrs
from circlet.ops.resize import ResizeAttrs
from circlet.ops.transpose_conv import TransposeConvAttrs

_COORDINATES = {
    "asymmetric": (False, False),
    "align_corners": (True, False),
    "half_pixel": (False, True),
    "half_pixel_align_corners": (True, True),
}


@writes("CONV_2D")
def _conv(op: Written) -> None:
    attrs, data, weights = op.attrs(Conv2DAttrs), op[0], op[1]
    depth, channels = weights.shape[3], data.shape[3] if len(data.shape) == 4 else None
    if not channels or not depth:
        raise NotWrittenError("the number of channels is not known")
    groups = attrs.groups or channels // depth
    rest = [op.activation(attrs.activation)]
    kind = "CONV_2D" if groups == 1 else "GROUPED_CONV_2D"
    if groups > 1:
        if attrs.dilations != (1, 1):
            raise NotWrittenError("no operation has groups and dilations")
        rest = [op.whole(groups), *rest, op.flag(False)]
    rest += _dilations(op, attrs.dilations)
    operands = [data, _weights(op, weights, data), _bias(op, 2, data, weights, 0)]
    op.operation(kind, [*operands, *_steps(op, attrs.padding, attrs.strides), *rest])


@writes("DEPTHWISE_CONV_2D")
def _depthwise(op: Written) -> None:
    attrs, data, weights = op.attrs(DepthwiseConv2DAttrs), op[0], op[1]
    channels = data.shape[3] if len(data.shape) == 4 else None
    if not channels or not weights.shape[3]:
        raise NotWrittenError("the number of channels is not known")
    operands = [data, _weights(op, weights, data), _bias(op, 2, data, weights, 3)]
    multiplier = op.whole(weights.shape[3] // channels)
    steps = _steps(op, attrs.padding, attrs.strides)
    rest = [multiplier, op.activation(attrs.activation), *_dilations(op, attrs.dilations)]
    op.operation("DEPTHWISE_CONV_2D", [*operands, *steps, *rest])


@writes("TRANSPOSE_CONV")
def _transpose_conv(op: Written) -> None:
    attrs, weights, data = op.attrs(TransposeConvAttrs), op[1], op[2]
    if attrs.padding not in (SAME_UPPER, UNPADDED):
        raise NotWrittenError("its padding is given by amounts")
    steps = _steps(op, attrs.padding, attrs.strides)
    operands = [data, _weights(op, weights, data), _bias(op, 3, data, weights, 0), op[0]]
    rest = [op.activation(attrs.activation), op.flag(False)]
    op.operation("TRANSPOSE_CONV_2D", [*operands, *steps, *rest])


@writes("FULLY_CONNECTED")
def _fully_connected(op: Written) -> None:
    attrs, data, weights = op.attrs(FullyConnectedAttrs), op[0], op[1]
    if attrs.weights_format != "DEFAULT":
        raise NotWrittenError(f"its weights have the format {attrs.weights_format}")
    operands = [data, _weights(op, weights, data), _bias(op, 2, data, weights, 0)]
    inputs: list[Tensor | int] = [*operands, op.activation(attrs.activation)]
    result = op.op.outputs[0]
    if len(result.shape) == 2:
        op.operation("FULLY_CONNECTED", inputs)
        return
    if not result.shape or None in result.shape:
        raise NotWrittenError("it keeps dimensions of unknown sizes")
    units = result.static_shape[-1]
    rows = result.elements // units if units else 0
    flat = Tensor(f"{result.name} flat", result.dtype, (rows, units), result.quant)
    op.operation("FULLY_CONNECTED", inputs, [flat])
    op.operation("RESHAPE", [flat, op.wholes(result.static_shape)])


@writes("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
def _pool(op: Written) -> None:
    attrs = op.attrs(Pool2DAttrs)
    down, across = attrs.kernel_shape
    sizes = [op.whole(across), op.whole(down), op.activation(attrs.activation)]
    op.operation(op.op.kind, [op[0], *_steps(op, attrs.padding, attrs.strides), *sizes])


@writes("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(op: Written) -> None:
    coordinates = op.attrs(ResizeAttrs).coordinate_transformation
    if coordinates not in _COORDINATES:
        raise NotWrittenError(f"no operation has the coordinates {coordinates}")
    align, half = _COORDINATES[coordinates]
    height, width = (int(size) for size in op.constant(op[1]).reshape(-1))
    sizes = [op.whole(width), op.whole(height), op.flag(False)]
    op.operation(op.op.kind, [op[0], *sizes, op.flag(align), op.flag(half)])


@writes("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _depth(op: Written) -> None:
    op.operation(op.op.kind, [op[0], op.whole(op.attrs(DepthAttrs).block_size)])


@writes("SPACE_TO_BATCH_ND")
def _space_to_batch(op: Written) -> None:
    op.constant(op[1])
    op.operation("SPACE_TO_BATCH_ND", [op[0], op[1], op[2]])


@writes("BATCH_TO_SPACE_ND")
def _batch_to_space(op: Written) -> None:
    if op.constant(op[2]).any():
        raise NotWrittenError("the operation crops nothing")
    op.operation("BATCH_TO_SPACE_ND", [op[0], op[1]])


@writes("L2_NORMALIZATION")
def _l2_norm(op: Written) -> None:
    if op.attrs(L2NormAttrs).activation != "NONE":
        raise NotWrittenError("the operation applies no activation")
    op.operation("L2_NORMALIZATION", [op[0]])


@writes("LOCAL_RESPONSE_NORMALIZATION")
def _local_response(op: Written) -> None:
    attrs = op.attrs(LocalResponseNormAttrs)
    reals = [op.real(value) for value in (attrs.bias, attrs.alpha, attrs.beta)]
    op.operation("LOCAL_RESPONSE_NORMALIZATION", [op[0], op.whole(attrs.radius), *reals])


def _steps(op: Written, padding: Padding, strides: tuple[int, int]) -> list[int]:
    """Padding by a scheme or by amounts, then strides; widths before heights."""
    down, across = strides
    if padding == SAME_UPPER:
        numbers = [int(PaddingCode.SAME)]
    elif padding == UNPADDED:
        numbers = [int(PaddingCode.VALID)]
    else:
        (top, bottom), (left, right) = padding
        numbers = [left, right, top, bottom]
    return [op.whole(number) for number in (*numbers, across, down)]


def _dilations(op: Written, dilations: tuple[int, int]) -> list[int]:
    if dilations == (1, 1):
        return []
    down, across = dilations
    return [op.flag(False), op.whole(across), op.whole(down)]


def _weights(op: Written, weights: Tensor, data: Tensor) -> Tensor:
    if weights.dtype is not data.dtype:
        pair = f"{weights.dtype.name} and values of {data.dtype.name}"
        raise NotWrittenError(f"no operation takes weights of {pair}")
    return weights


def _bias(op: Written, index: int, data: Tensor, weights: Tensor, axis: int) -> Tensor:
    """The bias, zeros where the operator has none: operations demand one."""
    given = op.op.input(index)
    if given is not None:
        return given
    count = weights.shape[axis]
    if count is None:
        raise NotWrittenError("it has no bias, and the number of its sums is not known")
    if data.dtype is DType.FLOAT32:
        return op.zeros(count, DType.FLOAT32, None)
    if data.quant is None or weights.quant is None:
        raise NotWrittenError("it has no bias and no scales")
    scale = float(data.quant.scale[0]) * float(weights.quant.scale[0])
    one = Quantization.per_tensor(scale, 0) if len(weights.quant.scale) == 1 else None
    return op.zeros(count, DType.INT32, one)
