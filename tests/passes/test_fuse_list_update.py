from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.passes import make
from tests.evaluate import evaluate
from tests.passes.harness import kinds_of, source_names

ROWS = 5


def updating(step: int = 1, axis_size: int = 1) -> Graph:
    """list[i] = item, as converters write it; `step` other than 1 leaves something out."""
    b = builder()
    rows = b.input("list", DType.FLOAT32, (ROWS, 1, 3))
    item = b.input("item", DType.FLOAT32, (axis_size, 1, 3))
    i = b.input("i", DType.INT32, ())
    join = ConcatenationAttrs(axis=0)

    def vector(number: Tensor, rest: int, name: str) -> Tensor:
        head = b.op("EXPAND_DIMS", [number, b.constant("axis", np.int32(0))], name=f"{name} head")
        fill = b.constant(f"{name} rest", np.full(2, rest, np.int32))
        return b.op("CONCATENATION", [head, fill], join, name=name)

    zeros, whole = b.constant("zeros", np.zeros(3, np.int32)), b.constant("all", -np.ones(3, "i4"))
    after = b.op("ADD", [i, b.constant("step", np.int32(step))], name="after")
    head = b.op("SLICE", [rows, zeros, vector(i, -1, "sizes")], name="head")
    tail = b.op("SLICE", [rows, vector(after, 0, "starts"), whole], name="tail")
    return b.output(b.op("CONCATENATION", [head, item, tail], join, name="joined")).build()


@pytest.mark.parametrize("position", range(ROWS))
def test_writing_one_element_becomes_one_update(position: int) -> None:
    graph = updating()
    inputs = [
        np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 1, 3),
        np.full((1, 1, 3), -1, np.float32),
        np.array(position, np.int32),
    ]
    (wanted,) = evaluate(graph, inputs)
    assert make("fuse-list-update").run(graph)
    make("remove-dead-ops").run(graph)
    assert kinds_of(graph) == ["EXPAND_DIMS", "CONCATENATION", "DYNAMIC_UPDATE_SLICE"]
    assert {"head", "tail", "joined"} <= source_names(graph)
    np.testing.assert_array_equal(evaluate(graph, inputs)[0], wanted)


@pytest.mark.parametrize("graph", [updating(step=2), updating(axis_size=2)])
def test_another_join_stays(graph: Graph) -> None:
    assert not make("fuse-list-update").run(graph)
