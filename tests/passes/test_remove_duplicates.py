from __future__ import annotations

import numpy as np

from circlet.ir import DType, Tensor
from circlet.ops.build import builder
from circlet.ops.split import SplitAttrs
from circlet.passes import make
from tests.passes.harness import kinds_of, rewritten, source_names


def test_equal_branches_join_with_their_constants_and_origins() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    ends = []
    for name in "ab":
        order = b.constant(f"order_{name}", np.array([1, 0], np.int32))
        moved = b.op("TRANSPOSE", [x, order], name=f"moved_{name}")
        ends.append(b.op("EXP", [moved], name=f"power_{name}"))
    graph = b.output(b.op("ADD", ends, name="y")).build()
    names = source_names(graph)
    assert rewritten(graph, "remove-duplicates") == ["TRANSPOSE", "EXP", "ADD"]
    assert [t.name for t in graph.constants()] == ["order_a"]
    assert graph.ops[0].origin.name == "moved_a+moved_b"
    assert source_names(graph) == names


def test_ops_with_several_results_join() -> None:
    b = builder()
    x, axis = b.input("x", DType.FLOAT32, (2, 4)), b.constant("axis", np.int32(1))
    parts = []
    for name in "ab":
        made = [Tensor(f"{name}{i}", DType.FLOAT32, (2, 2)) for i in range(2)]
        parts.append(b.op_many("SPLIT", [axis, x], made, SplitAttrs(2)))
    first = b.op("ADD", [parts[0][0], parts[1][1]], name="sum")
    graph = b.output(b.op("MUL", [first, parts[1][0]], name="y")).build()
    assert rewritten(graph, "remove-duplicates") == ["SPLIT", "ADD", "MUL"]


def test_other_attributes_types_effects_and_outputs_stay() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    graph = b.output(b.op("EXP", [x], name="y"), b.op("EXP", [x], name="z")).build()
    assert rewritten(graph, "remove-duplicates") == ["EXP", "EXP"]
    b = builder()
    shape = b.constant("shape", np.array([4], np.int32))
    drawn = [b.op("RANDOM_UNIFORM", [shape], name=n, dtype=DType.FLOAT32) for n in "ab"]
    graph = b.output(b.op("SUB", drawn, name="y")).build()
    assert not make("remove-duplicates").run(graph)
    assert kinds_of(graph) == ["RANDOM_UNIFORM", "RANDOM_UNIFORM", "SUB"]


def test_constants_that_differ_in_type_or_value_stay_apart() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2,))
    low, high = (b.constant(n, np.array(v, np.float32)) for n, v in (("l", 0.0), ("h", -0.0)))
    graph = b.output(b.op("ADD", [b.op("ADD", [x, low], name="s"), high], name="y")).build()
    assert rewritten(graph, "remove-duplicates") == ["ADD", "ADD"]
    assert len(list(graph.constants())) == 2


def test_constants_of_several_graphs_share_their_elements() -> None:
    graphs = []
    for name in "ab":
        b = builder(name)
        known = b.constant("w", np.arange(64, dtype=np.float32))
        x = b.input("x", DType.FLOAT32, (64,))
        graphs.append(b.output(b.op("ADD", [x, known], name="y")).build())
    remove = make("remove-duplicates")
    assert [remove.run(graph) for graph in graphs] == [False, True]
    assert not any(remove.run(graph) for graph in graphs)
    first, second = (next(graph.constants()).data for graph in graphs)
    assert first is not None and second is not None
    assert np.shares_memory(first, second) and second.tolist() == list(range(64))
    assert not second.flags.writeable
