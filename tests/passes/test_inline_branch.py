"""Branches whose condition is constant become what they run."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ir.regions import most_copies
from circlet.limits import DEFAULT_LIMITS
from circlet.ops.build import builder
from circlet.ops.facts import ShapeAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.passes.inline_branch import InlineBranch
from circlet.plan.shapes import fix_shapes
from tests.evaluate import evaluate
from tests.passes.harness import rewritten


def negated(kind: str = "NEG") -> Graph:
    b = builder(kind.lower(), 50)
    x = b.input("x", DType.FLOAT32, (2, 3))
    return b.output(b.op(kind, [x], name="inner")).build()


def branching(condition: bool | None, *regions: Graph) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    flag = b.input("flag", DType.BOOL, ())
    if condition is not None:
        b.graph.inputs.remove(flag)
        flag = b.constant("flag", np.array(condition))
    y = Tensor("y", DType.FLOAT32, (2, 3))
    b.op_many("IF", [flag, x], [y])
    b.graph.ops[0].regions = list(regions)
    return b.output(b.op("RELU", [y], name="r")).build()


@pytest.mark.parametrize(("condition", "kind"), [(True, "NEG"), (False, "ABS")])
def test_the_branch_that_is_taken_stands_in_the_place_of_the_operator(
    condition: bool, kind: str
) -> None:
    graph = branching(condition, negated(), negated("ABS"))
    before = evaluate(graph, x := [np.array([[1, -2, 3], [-4, 5, -6]], np.float32)])
    name = graph.ops[0].origin.name
    assert rewritten(graph, "inline-branch") == [kind, "RELU"]
    assert graph.ops[0].origin.name == name
    np.testing.assert_array_equal(evaluate(graph, x)[0], before[0])


def test_a_condition_that_a_run_decides_stays() -> None:
    assert rewritten(branching(None, negated(), negated("ABS")), "inline-branch")[0] == "IF"


def test_a_branch_that_hands_an_input_through_stays() -> None:
    region = negated()
    region.outputs = [region.inputs[0]]
    assert rewritten(branching(True, region, negated()), "inline-branch")[0] == "IF"


def test_branches_that_run_each_other_again_and_again_are_not_copied_without_end() -> None:
    graph = branching(True, negated(), negated())
    for _ in range(14):
        inner, outer = graph, builder("outer", 60)
        made = outer.input("x", DType.FLOAT32, (2, 3))
        for _ in range(2):
            flag, y = outer.constant("f", np.array(True)), Tensor("y", DType.FLOAT32, (2, 3))
            outer.op_many("IF", [flag, made], [y])
            outer.graph.ops[-1].regions = [inner, inner]
            made = y
        graph = outer.output(made).build()
    inlining = InlineBranch()
    while inlining.run(graph):
        pass
    assert len(graph.ops) <= most_copies(0)


def test_a_squeeze_of_a_size_that_was_open_is_settled_with_the_sizes() -> None:
    def reshaped(sizes: tuple[int, ...]) -> Graph:
        b = builder("squeezed" if len(sizes) == 2 else "kept", 70)
        x = b.input("x", DType.FLOAT32, (None, 1, 4))
        size = b.constant("sizes", np.array(sizes, np.int32))
        return b.output(b.op("RESHAPE", [x, size], ReshapeAttrs(sizes), name="z")).build()

    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 1, 4))
    shape = b.op("SHAPE", [x], ShapeAttrs(), name="shape", dtype=DType.INT32)
    begin, size = (b.constant(n, np.array([1], np.int32)) for n in ("begin", "size"))
    middle = b.op("SLICE", [shape, begin, size], name="middle")
    one = b.constant("one", np.array([1], np.int32))
    flag = b.op("EQUAL", [middle, one], name="flag")
    y = Tensor("y", DType.FLOAT32, (None, 4))
    b.op_many("IF", [flag, x], [y])
    b.graph.ops[-1].regions = [reshaped((-1, 4)), reshaped((-1, 1, 4))]
    graph = b.output(b.op("RELU", [y], name="r")).build()
    fix_shapes(graph, DEFAULT_LIMITS)
    assert [op.kind for op in graph.ops if op.kind in ("IF", "RESHAPE")] == ["RESHAPE"]
    assert graph.outputs[0].shape == (1, 4)
