"""Element-wise kinds of StableHLO that mean what another kind does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from circlet.ir import DType
from circlet.ops.quantize import CastAttrs
from circlet.passes.stablehlo.steps import Steps

_FLOAT = frozenset({DType.FLOAT32})
_PLAIN = frozenset({DType.FLOAT32, DType.INT32, DType.INT64})
_SIGNED = frozenset({DType.FLOAT32, DType.INT32})
_FLAGS = frozenset({DType.BOOL})

# The kind that means the same, and the types for which it does.
_SAME: Mapping[str, tuple[str, frozenset[DType]]] = {
    "STABLEHLO_ABS": ("ABS", _SIGNED),
    "STABLEHLO_ADD": ("ADD", _PLAIN),
    "STABLEHLO_AND": ("LOGICAL_AND", _FLAGS),
    "STABLEHLO_COSINE": ("COS", _FLOAT),
    "STABLEHLO_DIVIDE": ("DIV", _FLOAT),
    "STABLEHLO_EXPONENTIAL": ("EXP", _FLOAT),
    "STABLEHLO_FLOOR": ("FLOOR", _FLOAT),
    "STABLEHLO_LOG": ("LOG", _FLOAT),
    "STABLEHLO_LOGISTIC": ("LOGISTIC", _FLOAT),
    "STABLEHLO_MULTIPLY": ("MUL", _PLAIN),
    "STABLEHLO_NEGATE": ("NEG", _PLAIN),
    "STABLEHLO_OR": ("LOGICAL_OR", _FLAGS),
    "STABLEHLO_POWER": ("POW", _FLOAT),
    "STABLEHLO_RSQRT": ("RSQRT", _FLOAT),
    "STABLEHLO_SUBTRACT": ("SUB", _PLAIN),
    "STABLEHLO_TANH": ("TANH", _FLOAT),
}


def _renamed(steps: Steps) -> None:
    kind, types = _SAME[steps.op.kind]
    if steps.operand(0).dtype in types:
        steps.add(kind, [steps.operand(index) for index in range(len(steps.op.inputs))])


def _select(steps: Steps) -> None:
    steps.add(
        "SELECT_V2", [steps.operand(index) for index in range(3)], dtype=steps.operand(1).dtype
    )


def _convert(steps: Steps) -> None:
    source, result = steps.operand(0).dtype, steps.op.outputs[0].dtype
    steps.add("CAST", [steps.operand(0)], CastAttrs(source.name, result.name), result)


ARITHMETIC: Mapping[str, Callable[[Steps], None]] = {
    **dict.fromkeys(_SAME, _renamed),
    "STABLEHLO_CONVERT": _convert,
    "STABLEHLO_SELECT": _select,
}
