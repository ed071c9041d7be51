"""A variable tensor whose sizes are open."""

from __future__ import annotations

from circlet.formats import dumps
from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from tests.windows import pool_attrs

CODE = ""
RUNS = True


def make() -> bytes:
    b = builder()
    shape = (1, 4, 4, 2)
    memory = b.graph.add_tensor(
        Tensor("memory", DType.FLOAT32, (None,) * 4, default_shape=shape, is_variable=True)
    )
    made = b.op("MAX_POOL_2D", [memory], pool_attrs("VALID", 2, 2, 2, 2), name="pooled")
    return dumps(b.output(made).model(), "tflite")
