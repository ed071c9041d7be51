"""SOFTMAX and LOG_SOFTMAX."""

from __future__ import annotations

from circlet.backends.opencl.emission import Emission
from circlet.backends.opencl.lowering import c_type, lowers, take
from circlet.ir import DType, Op
from circlet.ops.operands import limits, operand
from circlet.ops.softmax import SoftmaxAttrs, exponent_params

_ITEMS = 64


@lowers("SOFTMAX", "LOG_SOFTMAX")
def _softmax(op: Op, emission: Emission) -> None:
    data, result = operand(op, 0), op.outputs[0]
    depth = data.static_shape[-1]
    rows = data.elements // depth
    if data.dtype is not DType.FLOAT32:
        _stored(op, emission, rows, depth)
        return
    flags = {"ITEMS": _ITEMS, "LOGARITHM": int(op.kind == "LOG_SOFTMAX")}
    beta = 1.0 if op.kind == "LOG_SOFTMAX" else float(op.attributes(SoftmaxAttrs).beta)
    arguments = [emission.value(data), result, depth, beta]
    emission.launch(emission.template("softmax", flags), arguments, (rows * _ITEMS,), (_ITEMS,))


def _stored(op: Op, emission: Emission, rows: int, depth: int) -> None:
    data, result = operand(op, 0), op.outputs[0]
    take(op.kind == "SOFTMAX", "logarithms of stored shares are not computed here")
    take(data.dtype in (DType.INT8, DType.UINT8), f"does not take {data.dtype.name}")
    types = {"A_T": c_type(data.dtype), "C_T": c_type(result.dtype), "OUT_BITS": result.dtype.bits}
    kernel = emission.template("softmax_q8", types)
    numbers = [rows, depth, *exponent_params(op), *limits(result.dtype)]
    emission.per_element(kernel, [emission.value(data), result, *numbers], rows)
