"""Transposes move down, meet others and cancel; results stay what they were."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.passes import pipeline
from circlet.passes.manager import PassManager
from circlet.passes.move_transposes import MoveTransposes
from circlet.passes.remove_dead_ops import RemoveDeadOps
from tests.evaluate import evaluate
from tests.passes.harness import source_names

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)
KINDS = ("ABS", "ADD", "CONCATENATION", "PAD", "MEAN", "SLICE")


def turned(b: Builder, x: Tensor, order: tuple[int, ...]) -> Tensor:
    return b.op("TRANSPOSE", [x, b.constant("order", np.array(order, np.int32))])


def middle(kind: str, b: Builder, x: Tensor) -> Tensor:
    """One operator over an NCHW image of 1x4x3x5."""
    if kind == "ADD":
        return b.op("ADD", [x, b.constant("c", np.arange(4, dtype=np.float32).reshape(4, 1, 1))])
    if kind == "CONCATENATION":
        return b.op("CONCATENATION", [x, x], ConcatenationAttrs(axis=1))
    if kind == "PAD":
        amounts = np.array([[0, 0], [1, 0], [2, 3], [0, 4]], np.int32)
        return b.op("PAD", [x, b.constant("amounts", amounts)])
    if kind == "MEAN":
        return b.op("MEAN", [x, b.constant("axes", np.array([2, 3], np.int32))], ReducerAttrs(True))
    if kind == "SLICE":
        lists = (np.array([0, 1, 0, 2], np.int32), np.array([1, 2, 3, 3], np.int32))
        return b.op("SLICE", [x, *(b.constant("list", values) for values in lists)])
    return b.op(kind, [x])


def network(kind: str) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 3, 5, 4))
    image = middle(kind, b, turned(b, x, FIRST))
    return b.output(b.op("RELU", [turned(b, image, LAST)], name="y")).build()


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_between_two_transposes_needs_none(kind: str) -> None:
    x = np.random.default_rng(0).normal(size=(1, 3, 5, 4)).astype(np.float32)
    (wanted,) = evaluate(network(kind), [x])
    graph = network(kind)
    PassManager((MoveTransposes(), RemoveDeadOps()), check=True).run(graph)
    assert "TRANSPOSE" not in [op.kind for op in graph.ops]
    np.testing.assert_array_equal(evaluate(graph, [x])[0], wanted)


def test_a_transpose_that_a_barrier_reads_stays_where_it_is() -> None:
    b = builder()
    x = turned(b, b.input("x", DType.FLOAT32, (1, 3, 5, 4)), FIRST)
    flat = b.op("RESHAPE", [x, b.constant("sizes", np.array([60], np.int32))])
    graph = b.output(flat, b.op("ABS", [x])).build()
    assert not MoveTransposes().run(graph)


@pytest.mark.parametrize(("back", "left"), [(True, 0), (False, 1)])
def test_several_readers_are_passed_where_that_leaves_no_more_operators(
    back: bool, left: int
) -> None:
    b = builder()
    x = turned(b, b.input("x", DType.FLOAT32, (1, 3, 5, 4)), FIRST)
    parts = [b.op(kind, [x]) for kind in ("ABS", "NEG", "EXP")]
    last = b.op("ABS", [turned(b, b.op("SIN", [b.op("COS", [x])]), FIRST)])
    graph = b.output(*(turned(b, part, LAST) if back else part for part in parts), last).build()
    ops = len(graph.ops)
    PassManager((MoveTransposes(), RemoveDeadOps()), check=True, rounds=4).run(graph)
    assert len(graph.ops) <= ops
    turns = [op for op in graph.ops if op.kind == "TRANSPOSE" and op.outputs[0] is not last]
    assert sum(op.inputs[0] is graph.inputs[0] for op in turns) == left


@pytest.mark.parametrize(("level", "moves"), [("O1", False), ("O2", True)])
def test_sums_of_floats_add_in_another_order_at_o2_alone(level: str, moves: bool) -> None:
    graph = network("MEAN")
    pipeline(level).run(graph)
    (mean,) = (op for op in graph.ops if op.kind == "MEAN")
    assert (mean.inputs[0] is graph.inputs[0]) is moves


@pytest.mark.parametrize("kind", KINDS)
def test_origins_are_kept_of_what_moves_and_of_what_cancels(kind: str) -> None:
    graph = network(kind)
    names = source_names(graph)
    PassManager((MoveTransposes(), RemoveDeadOps()), check=True).run(graph)
    assert source_names(graph) == names
    assert all(kind.lower() in op.name for op in graph.ops if op.kind == kind)


def test_a_sum_that_would_add_in_another_order_stays_behind_its_transpose() -> None:
    b = builder()
    x = turned(b, b.input("x", DType.FLOAT32, (1, 31, 37, 4)), (0, 2, 1, 3))
    axes = b.constant("axes", np.array([-3, 2], np.int32))
    graph = b.output(b.op("SUM", [x, axes], ReducerAttrs(False), name="y")).build()
    assert not MoveTransposes().run(graph)


@pytest.mark.parametrize(
    ("sizes", "order"), [((1, 4, 15), (0, 2, 1)), ((1, 2, 2, 3, 5), (0, 3, 4, 1, 2))]
)
def test_pixels_are_joined_and_channels_split_before_a_transpose(
    sizes: tuple[int, ...], order: tuple[int, ...]
) -> None:
    def tokens() -> Graph:
        b = builder()
        image = turned(b, b.input("x", DType.FLOAT32, (1, 3, 5, 4)), FIRST)
        target = b.constant("sizes", np.array(sizes, np.int32))
        flat = b.op("RESHAPE", [image, target], ReshapeAttrs(sizes))
        return b.output(b.op("RELU", [turned(b, flat, order)], name="y")).build()

    x = np.random.default_rng(0).normal(size=(1, 3, 5, 4)).astype(np.float32)
    (wanted,) = evaluate(tokens(), [x])
    graph = tokens()
    PassManager((MoveTransposes(), RemoveDeadOps()), check=True).run(graph)
    assert [op.kind for op in graph.ops] == ["RESHAPE", "RELU"]
    np.testing.assert_array_equal(evaluate(graph, [x])[0], wanted)


def test_a_reshape_that_joins_axes_that_were_apart_stays_behind() -> None:
    b = builder()
    x = turned(b, b.input("x", DType.FLOAT32, (2, 3, 5, 4)), FIRST)
    sizes = (2, 12, 5)
    flat = b.op("RESHAPE", [x, b.constant("sizes", np.array(sizes, np.int32))], ReshapeAttrs(sizes))
    graph = b.output(flat).build()
    assert not MoveTransposes().run(graph)
