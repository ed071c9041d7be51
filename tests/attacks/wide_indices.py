"""SPARSE_TO_DENSE with index vectors that are longer than the result has dimensions."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Op, Origin, Tensor
from circlet.ops.build import builder
from circlet.ops.scatter import SparseToDenseAttrs

CODE = "E-GRAPH"
RUNS = True


def make() -> bytes:
    b = builder()
    indices = b.input("indices", DType.INT32, (3, 6300))
    values = b.input("values", DType.FLOAT32, (3,))
    sizes, zero = b.constant("sizes", np.array([4, 4], np.int32)), b.constant("z", np.float32(0))
    made = b.graph.add_tensor(Tensor("dense", DType.FLOAT32, (4, 4)))
    operands: list[Tensor | None] = [indices, sizes, values, zero]
    attrs = SparseToDenseAttrs()
    b.graph.ops.append(Op("SPARSE_TO_DENSE", operands, [made], attrs, Origin.of(0, "dense")))
    return dumps(b.output(made).model(), "tflite")
