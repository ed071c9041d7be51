"""Functions of one element or two, and changes of type."""

from __future__ import annotations

import numpy as np

from circlet.formats.nnapi.writing import NotWrittenError, Written, writes
from circlet.ir import DType
from circlet.ops.arithmetic import AddAttrs, MulAttrs, SubAttrs
from circlet.ops.quotient import DivAttrs
from circlet.ops.softmax import SoftmaxAttrs

_SAME = (
    *("LOGISTIC", "TANH", "RELU", "RELU6", "ABS", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG"),
    *("RSQRT", "SIN", "SQRT", "MAXIMUM", "MINIMUM", "POW", "EQUAL", "NOT_EQUAL", "GREATER"),
    *("GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "PRELU", "QUANTIZE"),
    *("SELECT", "CAST"),
)
_RENAMED = {
    "RELU_N1_TO_1": "RELU1",
    "COS": "COS_EX",
    "ROUND": "ROUND_EX",
    "ZEROS_LIKE": "ZEROS_LIKE_EX",
    "SQUARED_DIFFERENCE": "SQUARED_DIFFERENCE_EX",
    "SELECT_V2": "SELECT_V2_EX",
}
_ARITHMETIC: dict[str, type[AddAttrs | MulAttrs | DivAttrs]] = {
    "ADD": AddAttrs,
    "SUB": SubAttrs,
    "MUL": MulAttrs,
    "DIV": DivAttrs,
}


@writes(*_SAME)
def _same(op: Written) -> None:
    _renamed(op)


@writes(*_RENAMED)
def _renamed(op: Written) -> None:
    kind = op.op.kind
    inputs = [op[index] for index in range(len(op.op.inputs))]
    op.operation(_RENAMED.get(kind, kind), inputs)


@writes(*_ARITHMETIC)
def _arithmetic(op: Written) -> None:
    attrs = op.attrs(_ARITHMETIC[op.op.kind])
    op.operation(op.op.kind, [op[0], op[1], op.activation(attrs.activation)])


@writes("DEQUANTIZE")
def _dequantize(op: Written) -> None:
    """Constants are given as what they mean: operations take no FLOAT16 beside FLOAT32."""
    source = op[0]
    if source.data is None or source.dtype is not DType.FLOAT16:
        op.operation("DEQUANTIZE", [source])
        return
    op.is_constant(op.op.outputs[0], op.constant(source).astype(np.float32))


@writes("SOFTMAX")
def _softmax(op: Written) -> None:
    op.operation("SOFTMAX", [op[0], op.real(op.attrs(SoftmaxAttrs).beta)])


@writes("LOG_SOFTMAX")
def _log_softmax(op: Written) -> None:
    op.operation("LOG_SOFTMAX", [op[0], op.real(1.0), op.whole(-1)])


@writes("HARD_SWISH", "ELU", "LEAKY_RELU", "GELU")
def _later(op: Written) -> None:
    raise NotWrittenError("the operation came after NNAPI 1.2")
