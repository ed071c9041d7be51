"""Normalisations: along an axis, over a window of channels, of images."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call, NotLoweredError
from circlet.formats.nnapi.operations.movement import as_list
from circlet.formats.nnapi.table import lowers
from circlet.formats.nnapi.windows import image, image_result, transposed
from circlet.ir import DType, Quantization, Tensor
from circlet.ops.build import default_attrs
from circlet.ops.circle_norm import InstanceNormAttrs
from circlet.ops.inverse_root import L2NormAttrs
from circlet.ops.local_response_norm import LocalResponseNormAttrs
from circlet.ops.opdef import NoAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.softmax import SoftmaxAttrs


@lowers("SOFTMAX")
def _softmax(call: Call) -> None:
    source = call[0]
    if call[1].data is not None or source.dtype is not DType.FLOAT32:
        _along_axis(call, "SOFTMAX", source, SoftmaxAttrs(call.real(1)), 2)
        return
    _along_axis(call, "SOFTMAX", call.op("MUL", [source, call[1]]), SoftmaxAttrs(1.0), 2)


@lowers("LOG_SOFTMAX")
def _log_softmax(call: Call) -> None:
    source, beta = call[0], call[1]
    if beta.data is None or call.real(1) != 1.0:
        source = call.op("MUL", [source, beta])
    _along_axis(call, "LOG_SOFTMAX", source, NoAttrs(), 2)


@lowers("L2_NORMALIZATION")
def _l2_norm(call: Call) -> None:
    """Stored results are steps of 1/128, whatever is declared."""
    result = call.output()
    if result.dtype is DType.UINT8:
        result.quant = Quantization.per_tensor(1 / 128, 128)
    _along_axis(call, "L2_NORMALIZATION", call[0], L2NormAttrs(), 1)


@lowers("LOCAL_RESPONSE_NORMALIZATION")
def _local_response(call: Call) -> None:
    attrs = LocalResponseNormAttrs(call.whole(1), call.real(2), call.real(3), call.real(4))
    _along_axis(call, "LOCAL_RESPONSE_NORMALIZATION", call[0], attrs, 5)


def _along_axis(call: Call, kind: str, source: Tensor, attrs: object, position: int) -> None:
    """Make an op that works along the last axis work along the one that a scalar names."""
    axis = -1 if call.optional(position) is None else call.whole(position)
    rank = len(source.shape)
    if not source.has_rank and axis != -1:
        raise NotLoweredError("how many axes its input has is not known")
    if source.has_rank and not -rank <= axis < rank:
        raise call.wrong("an axis does not exist", f"{axis} of {rank}")
    if axis in (-1, rank - 1):
        call.result(kind, [source], attrs)
        return
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    result = call.output()
    moved = transposed(call, source, tuple(order))
    made = call.op(kind, [moved], attrs, result.dtype, result.quant)
    call.result("TRANSPOSE", [made, call.const(order, "i4")])


@lowers("INSTANCE_NORMALIZATION")
def _instance_norm(call: Call) -> None:
    is_nchw = call.flag(4)
    gamma, beta = (as_list(call, call[index]) for index in (1, 2))
    inputs: list[Tensor | None] = [image(call, call[0], is_nchw), gamma, beta]
    attrs = InstanceNormAttrs(call.real(3))
    image_result(call, "INSTANCE_NORM", inputs, attrs, is_nchw=is_nchw)


@lowers("FUSED_BATCH_NORM_V3_EX")
def _fused_batch_norm(call: Call) -> None:
    """Inputs: data, scale, offset, mean, variance, is_training, data_format, epsilon."""
    is_nchw = bytes(call.known(6).astype("u1")) == b"NCHW"
    data, (scale, offset) = image(call, call[0], is_nchw), (call[1], call[2])
    mean, variance = (call[3], call[4])
    if call.flag(5):
        axes, keep = call.const([0, 1, 2], "i4"), ReducerAttrs(keep_dims=True)
        mean = call.op("MEAN", [data, axes], keep)
        squares = call.op("SQUARED_DIFFERENCE", [data, mean])
        variance = call.op("MEAN", [squares, axes], keep)
    shifted = call.op("ADD", [variance, call.const(call.real(7), "f4")])
    factor = call.op("MUL", [call.op("RSQRT", [shifted]), scale])
    scaled = call.op("MUL", [call.op("SUB", [data, mean]), factor])
    attrs = default_attrs("ADD")
    image_result(call, "ADD", [scaled, offset], attrs, is_nchw=is_nchw)
