"""A variable that holds strings, which nothing starts."""

from __future__ import annotations

from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops.build import builder

CODE = "E-GRAPH"
RUNS = True


def make() -> bytes:
    b = builder()
    memory = b.graph.add_tensor(Tensor("memory", DType.STRING, (2,), is_variable=True))
    return dumps(b.output(memory).model(), "tflite")
