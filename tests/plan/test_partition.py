from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.errors import GraphError
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ir.builder import Builder
from circlet.plan.partition import Partition, partition

pytestmark = pytest.mark.smoke

F32 = DType.FLOAT32


class Sketch:
    """Graphs of two-input ops where only the edges and backends matter."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.x = self.builder.input("x", F32, (4,))
        self.placement: dict[Op, str] = {}

    def op(self, backend: str, *inputs: Tensor) -> Tensor:
        result = self.builder.op("ADD", inputs or (self.x,), shape=(4,))
        self.placement[self.builder.graph.ops[-1]] = backend
        return result

    def cut(self, *outputs: Tensor) -> list[Partition]:
        return partition(self.builder.output(*outputs).build(), self.placement)


def backends(parts: list[Partition]) -> list[str]:
    return [part.backend for part in parts]


def is_convex(graph: Graph, parts: list[Partition]) -> bool:
    """Whether every op reads only from its own partition or from those before it."""
    number = {op: index for index, part in enumerate(parts) for op in part.ops}
    producers = graph.producers()
    return all(
        number[producers[t]] <= number[op] for op in graph.ops for t in op.inputs if t in producers
    )


def test_one_backend_makes_one_partition() -> None:
    sketch = Sketch()
    a = sketch.op("cpu")
    b = sketch.op("cpu", a)
    (part,) = sketch.cut(b)
    assert (part.inputs, part.outputs) == ((sketch.x,), (b,))
    assert len(part.ops) == 2


def test_alternating_backends_make_one_partition_each() -> None:
    sketch = Sketch()
    t = sketch.x
    for backend in ("cpu", "reference", "cpu", "reference"):
        t = sketch.op(backend, t)
    assert backends(sketch.cut(t)) == ["cpu", "reference", "cpu", "reference"]


def test_independent_branches_of_a_backend_join() -> None:
    sketch = Sketch()
    left = sketch.op("cpu")
    middle = sketch.op("reference")
    right = sketch.op("cpu")
    total = sketch.op("cpu", left, middle, right)
    parts = sketch.cut(total)
    assert backends(parts) == ["cpu", "reference", "cpu"]
    assert len(parts[0].ops) == 2
    assert parts[2].inputs == (left, middle, right)


def test_a_diamond_through_another_backend_is_not_swallowed() -> None:
    sketch = Sketch()
    top = sketch.op("cpu")
    side = sketch.op("reference", top)
    bottom = sketch.op("cpu", top, side)
    first, second, third = sketch.cut(bottom)
    assert (first.outputs, second.inputs, second.outputs) == ((top,), (top,), (side,))
    assert third.inputs == (top, side)


def test_a_graph_output_that_is_also_read_inside_leaves_its_partition() -> None:
    sketch = Sketch()
    a = sketch.op("cpu")
    b = sketch.op("cpu", a)
    (part,) = sketch.cut(a, b)
    assert part.outputs == (a, b)


def test_constants_do_not_cross_partitions() -> None:
    sketch = Sketch()
    weights = sketch.builder.constant("w", [1.0, 2.0, 3.0, 4.0])
    (part,) = sketch.cut(sketch.op("cpu", sketch.x, weights))
    assert part.inputs == (sketch.x,)


def test_ops_out_of_order_are_put_in_order() -> None:
    sketch = Sketch()
    a = sketch.op("cpu")
    b = sketch.op("reference", a)
    c = sketch.op("cpu", b)
    sketch.builder.graph.ops.reverse()
    parts = sketch.cut(c)
    assert [part.outputs for part in parts] == [(a,), (b,), (c,)]


def test_a_cycle_is_an_error_that_names_an_operator() -> None:
    sketch = Sketch()
    a = sketch.op("cpu")
    sketch.op("cpu", a)
    first, second = sketch.builder.graph.ops
    first.inputs = [second.outputs[0]]
    with pytest.raises(GraphError, match=first.name):
        sketch.cut(a)


def test_a_graph_without_ops_has_no_partitions() -> None:
    assert Sketch().cut() == []


def test_a_long_alternating_chain_is_cut_in_little_time() -> None:
    sketch = Sketch()
    t = sketch.x
    for index in range(8000):
        t = sketch.op("cpu" if index % 2 else "reference", t)
    start = time.process_time()
    assert len(sketch.cut(t)) == 8000
    assert time.process_time() - start < 5


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["cpu", "reference", "other"]),
            st.lists(st.integers(0, 30), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=30,
    )
)
@settings(max_examples=60)
def test_partitions_cover_the_graph_and_are_convex(rows: list[tuple[str, list[int]]]) -> None:
    sketch = Sketch()
    known = [sketch.x]
    for backend, sources in rows:
        known.append(sketch.op(backend, *(known[i % len(known)] for i in sources)))
    parts = sketch.cut(known[-1])
    graph = sketch.builder.graph
    assert sorted(map(id, (op for part in parts for op in part.ops))) == sorted(map(id, graph.ops))
    assert all(sketch.placement[op] == part.backend for part in parts for op in part.ops)
    assert is_convex(graph, parts)
    assert all(a != b for a, b in zip(backends(parts), backends(parts)[1:], strict=False))
