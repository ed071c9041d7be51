"""Operands brought to the scales at which records want them."""

from __future__ import annotations

from circlet.formats.nnapi.call import Call
from circlet.ir import Quantization, Tensor


def requantised(call: Call, tensor: Tensor, scale: Quantization | None) -> Tensor:
    """A quantised tensor at another scale; the tensor itself where that is its own, or none is."""
    if scale is None or tensor.quant is None or tensor.quant == scale:
        return tensor
    return call.op("QUANTIZE", [tensor], quant=scale)
