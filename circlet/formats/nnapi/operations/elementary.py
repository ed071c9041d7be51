"""Element-wise functions, comparisons, logic and choices."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.operations.scales import requantised
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType, Tensor
from circlet.ops.quantize import CastAttrs

_TRUE = 255
_ORDERS = ("GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
_EXTENSIONS = {
    "COS_EX": "COS",
    "ROUND_EX": "ROUND",
    "ZEROS_LIKE_EX": "ZEROS_LIKE",
    "ABS_EX": "ABS",
    "EXP_EX": "EXP",
    "LOGICAL_NOT_EX": "LOGICAL_NOT",
    "NEG_EX": "NEG",
    "RSQRT_EX": "RSQRT",
    "SQRT_EX": "SQRT",
}
_COMPARISONS_EX = {
    "EQUAL_EX": "EQUAL",
    "NOT_EQUAL_EX": "NOT_EQUAL",
    "GREATER_EQUAL_EX": "GREATER_EQUAL",
    "LESS_EX": "LESS",
    "LOGICAL_AND_EX": "LOGICAL_AND",
    "LOGICAL_OR_EX": "LOGICAL_OR",
}


@lowers("ABS", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG", "RSQRT", "SIN", "SQRT")
@lowers(*_EXTENSIONS)
def _unary(call: Call) -> None:
    kind = _EXTENSIONS.get(call.kind, call.kind)
    if call[0].dtype is not DType.UINT8:
        call.result(kind, [call[0]])
        return
    real = call.op("DEQUANTIZE", [call[0]], dtype=DType.FLOAT32)  # no record has it over bytes
    call.result("QUANTIZE", [call.op(kind, [real])])


@lowers("LOGICAL_AND", "LOGICAL_OR", "POW")
def _binary(call: Call) -> None:
    call.result(call.kind, [call[0], call[1]])


@lowers("MAXIMUM", "MINIMUM")
def _extremum(call: Call) -> None:
    """Operands of different scales are brought to the scale of the result first."""
    scale = call.output().quant
    call.result(call.kind, [requantised(call, call[each], scale) for each in (0, 1)])


@lowers("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL")
def _comparison(call: Call) -> None:
    call.result(call.kind, _compared(call, call.kind))


@lowers(*_COMPARISONS_EX)
def _comparison_with_bytes(call: Call) -> None:
    """The result may be declared as bytes, of which 255 is true."""
    kind = _COMPARISONS_EX[call.kind]
    if call.output().dtype is DType.BOOL:
        call.result(kind, _compared(call, kind))
        return
    found = call.op(kind, _compared(call, kind), dtype=DType.BOOL)
    stored = call.output().dtype.numpy
    values = [call.const(value, stored) for value in (_TRUE, 0)]
    for value in values:
        value.quant = call.output().quant
    call.result("SELECT_V2", [found, *values])


def _compared(call: Call, kind: str) -> list[Tensor]:
    """Operands as records compare them: bytes of large scales as numbers, truth as integers."""
    pair = [call[0], call[1]]
    if pair[0].dtype is DType.BOOL and kind in _ORDERS:
        attrs = CastAttrs("BOOL", "INT32")
        return [call.op("CAST", [tensor], attrs, dtype=DType.INT32) for tensor in pair]
    if any(tensor.quant and tensor.quant.scale.max() >= 1 for tensor in pair):
        return [call.op("DEQUANTIZE", [tensor], dtype=DType.FLOAT32) for tensor in pair]
    return pair


@lowers("SELECT", "SELECT_V2_EX")
def _select(call: Call) -> None:
    scale = call.output().quant
    chosen = [requantised(call, call[each], scale) for each in (1, 2)]
    call.result("SELECT_V2", [call[0], *chosen])


@lowers("SQUARED_DIFFERENCE_EX")
def _squared_difference(call: Call) -> None:
    call.result("SQUARED_DIFFERENCE", [call[0], call[1]])


@lowers("ADDV2_EX")
def _add(call: Call) -> None:
    activation = call.activation(2) if len(call) > 2 else "NONE"
    call.result("ADD", [call[0], call[1]], activation=activation)
