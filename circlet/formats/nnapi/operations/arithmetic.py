"""Element-wise arithmetic of two operands, with broadcasting."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.ops.build import default_attrs


@lowers("ADD", "SUB", "MUL", "DIV")
def _arithmetic(call: Call) -> None:
    attrs = default_attrs(call.kind)
    call.result(call.kind, [call[0], call[1]], attrs, activation=call.activation(2))
