"""Interpreters of both engines, and a small network for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder

Make = Callable[..., Any]


def litert(**arguments: Any) -> Any:
    """LiteRT with its reference kernels, which Circlet's integers are equal to."""
    module = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")
    kind = module.OpResolverType.BUILTIN_REF
    return module.Interpreter(**{"experimental_op_resolver_type": kind, **arguments})


def circlet(**arguments: Any) -> Any:
    import circlet as package

    return package.Interpreter(**arguments)


def chain() -> bytes:
    """x [?, 4] -> "hidden" = relu(x) -> "y" = hidden + bias, with the signature "serve"."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 4))
    x.default_shape = (1, 4)
    hidden = b.op("RELU", [x], name="hidden")
    bias = b.constant("bias", np.arange(4, dtype=np.float32))
    y = b.op("ADD", [hidden, bias], name="y")
    for tensor in (hidden, y):
        tensor.default_shape = (1, 4)
    return dumps(b.output(y).model("serve"), "tflite")


ROWS = np.array([[-1, 2, -3, 4], [5, -6, 7, -8]], np.float32)
ANSWER = np.maximum(ROWS, 0) + np.arange(4, dtype=np.float32)


def by_name(interpreter: Any, name: str) -> int:
    details = interpreter.get_tensor_details()
    return next(int(entry["index"]) for entry in details if entry["name"] == name)
