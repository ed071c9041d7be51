"""A concatenation of floats, quantised as no floats are, to bytes."""

from __future__ import annotations

from circlet.formats import dumps
from circlet.ir import DType, Quantization
from circlet.ops.build import builder, default_attrs

CODE = "E-GRAPH"
RUNS = True


def make() -> bytes:
    b, quant = builder(), Quantization.per_tensor(0.5, 3)
    parts = [b.input(name, DType.FLOAT32, (2,)) for name in "xy"]
    for part in parts:
        part.quant = quant
    op = b.op("CONCATENATION", parts, default_attrs("CONCATENATION"), name="joined")
    joined = b.output(op).graph.outputs[0]
    joined.dtype, joined.quant = DType.UINT8, quant
    return dumps(b.model(), "tflite")
