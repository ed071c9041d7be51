from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ops.build import builder
from circlet.ops.verify import verify
from circlet.passes import make
from tests.evaluate import evaluate
from tests.passes.harness import kinds_of, rewritten

SHAPE = (2, 3)


def branch(*kinds: str) -> Graph:
    """Element-wise ops, one after the other; without any, the input is handed through."""
    b = builder("branch", 90)
    value = b.input("x", DType.FLOAT32, SHAPE)
    for kind in kinds:
        value = b.op(kind, [value], name=kind.lower())
    return b.output(value).build()


def choosing(condition: bool | None, first: Graph, second: Graph) -> Graph:
    """`NEG(IF(condition, RELU(x)))`; None for a condition that the caller gives."""
    b = builder()
    x = b.op("RELU", [b.input("x", DType.FLOAT32, SHAPE)], name="r")
    known = condition is not None
    flag: Tensor = (
        b.constant("flag", np.array(condition)) if known else b.input("flag", DType.BOOL, ())
    )
    made = b.op("IF", [flag, x], None, name="choice", dtype=DType.FLOAT32, shape=SHAPE)
    graph = b.output(b.op("NEG", [made], name="n")).build()
    graph.ops[1].regions = [first, second]
    return graph


@pytest.mark.parametrize(("condition", "kinds"), [(True, ["SQUARE", "EXP"]), (False, ["TANH"])])
def test_a_settled_choice_becomes_its_branch(condition: bool, kinds: list[str]) -> None:
    graph = choosing(condition, branch("SQUARE", "EXP"), branch("TANH"))
    values = [np.arange(6, dtype=np.float32).reshape(SHAPE)]
    before = evaluate(graph, values)
    assert make("inline-branch").run(graph)
    assert kinds_of(graph) == ["RELU", *kinds, "NEG"]
    verify(graph)
    assert all("choice" in op.origin.name for op in graph.ops[1:-1])
    np.testing.assert_array_equal(evaluate(graph, values)[0], before[0])


def test_a_branch_that_hands_its_input_through_is_a_copy() -> None:
    graph = choosing(False, branch("SQUARE"), branch())
    assert rewritten(graph, "inline-branch") == ["RELU", "RESHAPE", "NEG"]


def test_a_choice_inside_a_choice_is_inlined_by_the_next_run() -> None:
    graph = choosing(True, choosing(False, branch("EXP"), branch("TANH")), branch("SQUARE"))
    inline = make("inline-branch")
    assert inline.run(graph)
    assert inline.run(graph)
    assert kinds_of(graph) == ["RELU", "RELU", "TANH", "NEG", "NEG"]
    assert not inline.run(graph)


def test_branches_that_are_inlined_twice_share_no_tensors() -> None:
    shared = branch("EXP")
    graphs = [choosing(True, shared, branch()) for _ in range(2)]
    for graph in graphs:
        make("inline-branch").run(graph)
    assert not set(graphs[0].used_tensors()) & set(graphs[1].used_tensors())


def test_a_choice_that_a_run_makes_stays() -> None:
    graph = choosing(None, branch("EXP"), branch("TANH"))
    assert not make("inline-branch").run(graph)
    assert "IF" in kinds_of(graph)
