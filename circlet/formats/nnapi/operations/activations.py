"""Functions of one value that follow layers."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType, Shape, Tensor

_KINDS = {"RELU1": "RELU_N1_TO_1"}


@lowers("HARD_SWISH", "LOGISTIC", "RELU", "RELU1", "RELU6", "TANH")
def _activation(call: Call) -> None:
    call.result(_KINDS.get(call.kind, call.kind), [call[0]])


@lowers("ELU")
def _elu(call: Call) -> None:
    """The factor is of what lies below zero, which a record has as 1."""
    alpha = call[1]
    if alpha.data is not None and call.real(1) == 1.0:
        call.result("ELU", [call[0]])
        return
    zero = call.const(0.0, "f4")
    below = call.op("ELU", [call.op("MINIMUM", [call[0], zero])])
    scaled = call.op("MUL", [below, alpha])
    call.result("ADD", [call.op("MAXIMUM", [call[0], zero]), scaled])


@lowers("PRELU", "PRELU_EX")
def _prelu(call: Call) -> None:
    source, slopes = call[0], call[1]
    if len(slopes.shape) > len(source.shape) or _enlarges(source.shape, slopes.shape):
        sizes = call.op("BROADCAST_ARGS", [_sizes(call, 0), _sizes(call, 1)])
        source = call.op("BROADCAST_TO", [source, sizes], quant=source.quant)
    call.result("PRELU", [source, slopes])


def _sizes(call: Call, index: int) -> Tensor:
    return call.op("SHAPE", [call[index]], dtype=DType.INT32)


def _enlarges(source: Shape, slopes: Shape) -> bool:
    """Whether slopes spread over more values than there are."""
    pairs = zip(reversed(source), reversed(slopes), strict=False)
    return any(size == 1 and slope not in (1, None) for size, slope in pairs)
