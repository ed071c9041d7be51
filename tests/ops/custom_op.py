"""Networks of one custom operator, in Circlet and in the interpreters that define it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType, Model, Op, Origin, Tensor
from circlet.ir.builder import constant
from circlet.ir.graph import Graph
from circlet.ops import get


def network(
    code: str,
    attrs: object,
    inputs: Sequence[tuple[DType, tuple[int, ...]] | np.ndarray],
    version: int = 1,
) -> Graph:
    """A custom operator over inputs of a type and sizes, and constants; outputs are inferred."""
    tensors = [
        constant(f"c{index}", given)
        if isinstance(given, np.ndarray)
        else Tensor(f"x{index}", *given)
        for index, given in enumerate(inputs)
    ]
    op = Op("CUSTOM", list(tensors), [], attrs, Origin.of(0, "y"), version, code)
    op.outputs = [
        Tensor(f"y{index}", made.dtype, made.shape) for index, made in enumerate(get(op).infer(op))
    ]
    fed = [tensor for tensor in tensors if not tensor.is_constant]
    return Graph("main", fed, op.outputs, [op], [*tensors, *op.outputs])


def session(
    graph: Graph, *, backends: Sequence[str] = ("reference",), strict: bool = False
) -> Session:
    """The network as a file, opened again: options are written and read on the way."""
    return Session(dumps(Model([graph]), "tflite"), backends=list(backends), strict=strict)


def outputs(opened: Session, *arrays: np.ndarray) -> list[np.ndarray]:
    return list(opened.run(list(arrays)).values())


def micro_interpreter(graph: Graph) -> Any:
    """TFLite Micro's own interpreter of a network."""
    micro = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="TFLite Micro is the judge"
    )
    return micro.Interpreter.from_bytes(dumps(Model([graph]), "tflite"), arena_size=1 << 20)


def micro_outputs(opened: Any, count: int, *arrays: np.ndarray) -> list[np.ndarray]:
    for index, array in enumerate(arrays):
        opened.set_input(array, index)
    opened.invoke()
    return [opened.get_output(index) for index in range(count)]
