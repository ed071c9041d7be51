from __future__ import annotations

from circlet.ir import DType
from circlet.ops.build import builder
from circlet.passes.remove_dead_ops import RemoveDeadOps
from tests.passes.harness import kinds_of, rewritten


def test_dead_branch_goes_in_one_run() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (4,))
    dead = b.op("RELU6", [b.op("RELU6", [x], name="dead1")], name="dead2")
    graph = b.output(b.op("RELU", [x], name="y")).build()
    kinds = rewritten(graph, "remove-dead-ops", lost=frozenset({"dead1", "dead2"}))
    assert kinds == ["RELU"]
    assert dead not in graph.tensors


def test_custom_ops_and_readers_of_variables_stay() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (4,))
    b.op("CUSTOM", [x], shape=(4,), custom_code="Print")
    b.op("RELU", [b.variable("state", DType.FLOAT32, (4,))])
    graph = b.output(x).build()
    assert RemoveDeadOps().run(graph) is False
    assert kinds_of(graph) == ["CUSTOM", "RELU"]
