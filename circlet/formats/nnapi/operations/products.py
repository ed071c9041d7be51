"""Layers whose every output reads every input."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.requantization import DOUBLE


@lowers("FULLY_CONNECTED")
def _fully_connected(call: Call) -> None:
    attrs = FullyConnectedAttrs(call.activation(3))
    call.result("FULLY_CONNECTED", [call[0], call[1], call[2]], attrs)
    if call[0].dtype is DType.UINT8:
        call.ops[-1].requantization = DOUBLE
