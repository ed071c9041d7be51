from __future__ import annotations

import numpy as np
import pytest

from circlet.errors import GraphError
from circlet.formats import dumps
from circlet.ir import DType, Graph, Model, RawAttrs, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.passes.resolve_variables import resolve_variables
from circlet.runtime.session import Session

SHAPE = (1, 3)


def handle(b: Builder, name: str) -> Tensor:
    attrs = RawAttrs("VarHandleOptions", {"container": "", "shared_name": name})
    return b.op("VAR_HANDLE", [], attrs, name=f"{name} handle", dtype=DType.RESOURCE, shape=())


def starting(values: np.ndarray, computed: bool = False) -> Graph:
    b = builder("init")
    value = b.constant("start", values)
    if computed:
        value = b.input("given", DType.FLOAT32, SHAPE)
    b.op_many("ASSIGN_VARIABLE", [handle(b, "sum"), value], [], RawAttrs())
    return b.build()


def summing(start: Graph | None) -> Model:
    """Adds its input to a variable and returns the new sum."""
    b = builder("main")
    x = b.input("x", DType.FLOAT32, SHAPE)
    if start is not None:
        b.op_many("CALL_ONCE", [], [], RawAttrs("CallOnceOptions"))
        b.graph.ops[-1].regions = [start]
    variable = handle(b, "sum")
    before = b.op(
        "READ_VARIABLE", [variable], RawAttrs(), name="before", dtype=DType.FLOAT32, shape=SHAPE
    )
    after = b.op("ADD", [before, x], name="after")
    b.op_many("ASSIGN_VARIABLE", [variable, after], [], RawAttrs())
    return Model([b.output(after).build(), *([start] if start is not None else [])])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    "start", [None, np.array([[1, 2, 3]], np.float32), np.zeros(SHAPE, np.float32)]
)
def test_a_variable_lives_on_from_its_start_until_reset(
    start: np.ndarray | None, backend: str
) -> None:
    model = summing(None if start is None else starting(start))
    session = Session(dumps(model, "tflite"), backends=(backend,), threads=1)
    first = np.zeros(SHAPE, np.float32) if start is None else start
    x = np.array([[1, 1, 1]], np.float32)
    for turn in (1, 2, 3):
        np.testing.assert_array_equal(session.run([x])["after"], first + turn)
    session.reset()
    np.testing.assert_array_equal(session.run([x])["after"], first + 1)


def test_handles_and_calls_are_gone_and_nothing_else() -> None:
    graph = summing(starting(np.zeros(SHAPE, np.float32))).main
    assert resolve_variables(graph)
    assert [op.kind for op in graph.ops] == ["READ_VARIABLE", "ADD", "ASSIGN_VARIABLE"]
    assert not resolve_variables(graph)


def test_a_start_that_is_computed_is_refused() -> None:
    with pytest.raises(GraphError, match="constant"):
        resolve_variables(summing(starting(np.zeros(SHAPE, np.float32), computed=True)).main)


def test_a_variable_without_a_type_is_refused() -> None:
    graph = summing(None).main
    read = next(op for op in graph.ops if op.kind == "READ_VARIABLE")
    assign = next(op for op in graph.ops if op.kind == "ASSIGN_VARIABLE")
    read.outputs, assign.inputs = [], assign.inputs[:1]
    with pytest.raises(GraphError, match="type"):
        resolve_variables(graph)
