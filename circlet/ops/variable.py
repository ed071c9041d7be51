"""READ_VARIABLE and ASSIGN_VARIABLE over variable tensors.

Files name variables by resource handles; `passes.resolve_variables` puts a variable tensor in the
place of each handle. Only that form can be run.
"""

from __future__ import annotations

import numpy as np

from circlet.ir import Op
from circlet.ops.opdef import Arrays, Effects, OpDef, Rule, TensorType, register
from circlet.ops.operands import operand, present


def _infer_read(op: Op) -> list[TensorType]:
    variable = operand(op, 0)
    return [TensorType(variable.dtype, variable.shape)]


def _evaluate_read(op: Op, arrays: Arrays) -> list[np.ndarray]:
    return [present(arrays[0]).copy()]


def _evaluate_assign(op: Op, arrays: Arrays) -> list[np.ndarray]:
    return [present(arrays[1])]


def _is_variable(op: Op) -> bool:
    return operand(op, 0).is_variable


def _same_type(op: Op) -> bool:
    variable, value = operand(op, 0), operand(op, 1)
    return variable.dtype is value.dtype and (
        None in value.shape or None in variable.shape or variable.shape == value.shape
    )


_VARIABLE = Rule("variable", _is_variable, "the handle is not of a variable of this network")
_DTYPES = ("FLOAT32", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL")

register(
    OpDef(
        "READ_VARIABLE",
        infer=_infer_read,
        evaluate=_evaluate_read,
        effects=Effects.READS_VARIABLE,
        arity=(1, 1),
        dtypes=tuple(f"{name} -> {name}" for name in _DTYPES),
        rules=(_VARIABLE,),
    )
)

register(
    OpDef(
        "ASSIGN_VARIABLE",
        infer=lambda op: [],
        evaluate=_evaluate_assign,
        effects=Effects.WRITES_VARIABLE,
        arity=(2, 2),
        dtypes=tuple(f"{name} {name} -> *" for name in _DTYPES),
        outputs=0,
        required=2,
        updates=(0,),
        rules=(
            _VARIABLE,
            Rule("same-type", _same_type, "the value has another type or shape than the variable"),
        ),
    )
)
