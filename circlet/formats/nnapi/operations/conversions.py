"""Changes of the type of elements."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.formats.nnapi.table import lowers
from circlet.ir import DType
from circlet.ops.quantize import CastAttrs


@lowers("QUANTIZE", "DEQUANTIZE")
def _quantize(call: Call) -> None:
    call.result(call.kind, [call[0]])


@lowers("CAST", "CAST_EX")
def _cast(call: Call) -> None:
    """Stored values count as they are; numbers that UINT8 cannot hold become its nearest one."""
    source, result = call[0], call.output()
    if source.dtype is DType.INT32 and result.dtype is DType.UINT8:
        source = call.op("MAXIMUM", [source, call.const(0, "i4")])
        source = call.op("MINIMUM", [source, call.const(255, "i4")])
    call.result("CAST", [source], CastAttrs(source.dtype.name, result.dtype.name))
