"""A variable of no stated rank that the network gives."""

from __future__ import annotations

from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops.build import builder

CODE = "E-GRAPH"
RUNS = True


def make() -> bytes:
    b = builder()
    memory = Tensor("memory", DType.FLOAT32, (), has_rank=False, is_variable=True)
    return dumps(b.output(b.graph.add_tensor(memory)).model(), "tflite")
