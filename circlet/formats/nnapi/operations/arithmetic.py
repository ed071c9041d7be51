"""Element-wise arithmetic of two operands, with broadcasting; integers divide downwards."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType
from circlet.ops.build import default_attrs


@lowers("ADD", "SUB", "MUL", "DIV")
def _arithmetic(call: Call) -> None:
    if call.kind == "DIV" and call[0].dtype is DType.INT32:
        call.result("FLOOR_DIV", [call[0], call[1]])  # which no activation follows
        return
    attrs = default_attrs(call.kind)
    call.result(call.kind, [call[0], call[1]], attrs, activation=call.activation(2))
