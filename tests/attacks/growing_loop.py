"""A WHILE without end whose body doubles its variable."""

from __future__ import annotations

import numpy as np

from circlet.formats import dumps
from circlet.ir import DType, Model, Tensor
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs

CODE = "E-LIMIT"
RUNS = True


def make() -> bytes:
    condition = builder("condition")
    condition.input("x", DType.FLOAT32, (None,))
    condition.output(condition.constant("always", np.array([True])))
    body = builder("body")
    x = body.input("x", DType.FLOAT32, (None,))
    body.output(body.op("CONCATENATION", [x, x], ConcatenationAttrs(0), name="twice"))
    main = builder()
    result = Tensor("result", DType.FLOAT32, (None,), default_shape=(1,))
    start = main.input("start", DType.FLOAT32, (1,))
    main.output(*main.op_many("WHILE", [start], [result]))
    graphs = [main.build(), condition.build(), body.build()]
    graphs[0].ops[0].regions = graphs[1:]
    return dumps(Model(graphs), "tflite")
