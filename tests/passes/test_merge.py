"""Ops that others take over, with constants in float."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Tensor
from circlet.ir.builder import Builder
from circlet.ops.arithmetic import AddAttrs, SubAttrs
from circlet.ops.batch_matmul import BatchMatMulAttrs
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.reduce import ReducerAttrs
from circlet.passes import make
from tests.passes.harness import kinds_of, rewritten

F32 = DType.FLOAT32
RNG = np.random.default_rng(11)


def constant(b: Builder, *shape: int) -> Tensor:
    return b.constant(f"c{shape}", RNG.uniform(0.5, 2, shape).astype(np.float32))


def reduced(b: Builder, x: Tensor, kind: str, *axes: int, keep: bool) -> Tensor:
    axis = b.constant("axis", np.array(axes, np.int32))
    return b.op(kind, [x, axis], ReducerAttrs(keep))


@pytest.mark.parametrize("kind", ["MEAN", "SUM", "REDUCE_MAX"])
@pytest.mark.parametrize(("keep", "axis"), [(True, 2), (False, 1)])
def test_reductions_of_reductions_are_one(kind: str, keep: bool, axis: int) -> None:
    b = builder()
    first = reduced(b, b.input("x", F32, (2, 3, 4, 5)), kind, 1, keep=keep)
    graph = b.output(reduced(b, first, kind, axis, -1, keep=keep)).build()
    assert rewritten(graph, "merge-reductions", tolerance=1e-6) == [kind]
    axes = graph.ops[0].inputs[1]
    assert axes is not None and np.asarray(axes.data).tolist() == [1, 2, 3]


def test_reductions_that_others_read_or_of_another_kind_stay() -> None:
    b = builder()
    first = reduced(b, b.input("x", F32, (2, 3, 4)), "MEAN", 1, keep=True)
    second = reduced(b, first, "REDUCE_MAX", 2, keep=True)
    graph = b.output(reduced(b, second, "REDUCE_MAX", 0, keep=False)).build()
    kinds = rewritten(graph, "merge-reductions", tolerance=1e-6)
    assert kinds == ["MEAN", "REDUCE_MAX", "REDUCE_MAX"]


def test_constants_of_a_chain_are_one() -> None:
    b = builder()
    x = b.op("MUL", [b.input("x", F32, (2, 3)), constant(b, 3)])
    x = b.op("DIV", [x, constant(b, 1)])
    x = b.op("SUB", [b.op("ADD", [constant(b, 3), x]), constant(b, 1, 3)], SubAttrs("RELU"))
    graph = b.output(x).build()
    assert rewritten(graph, "merge-scales", tolerance=1e-6) == ["MUL", "ADD"]
    assert graph.ops[1].attrs == AddAttrs("RELU")


def test_constants_that_would_grow_or_that_are_divided_stay() -> None:
    b = builder()
    x = b.op("MUL", [b.input("x", F32, (2, 3)), constant(b, 3)])
    graph = b.output(b.op("MUL", [x, constant(b, 2, 1)])).build()
    assert rewritten(graph, "merge-scales", tolerance=1e-6) == ["MUL", "MUL"]
    b = builder()
    x = b.op("DIV", [constant(b, 3), b.input("x", F32, (2, 3))])
    graph = b.output(b.op("MUL", [x, constant(b, 3)])).build()
    assert rewritten(graph, "merge-scales", tolerance=1e-6) == ["DIV", "MUL"]


@pytest.mark.parametrize(
    ("kind", "value", "first", "left"),
    [
        ("ADD", 0.0, False, 1),
        ("ADD", 0.0, True, 1),
        ("MUL", 1.0, True, 1),
        ("DIV", 1.0, False, 1),
        ("SUB", 0.0, True, 2),
        ("DIV", 1.0, True, 2),
        ("MUL", 0.0, False, 2),
    ],
)
def test_what_changes_nothing_goes(kind: str, value: float, first: bool, left: int) -> None:
    b = builder()
    x = b.op("EXP", [b.input("x", F32, (2, 3))], name="t")
    known = b.constant("known", np.full(3, value, np.float32))
    graph = b.output(b.op(kind, [known, x] if first else [x, known], name="y")).build()
    assert len(rewritten(graph, "remove-neutral")) == left


def test_a_sum_with_zero_that_spreads_stays() -> None:
    b = builder()
    x = b.op("EXP", [b.input("x", F32, (1, 3))], name="t")
    zeros = b.constant("zeros", np.zeros((2, 3), np.float32))
    graph = b.output(b.op("ADD", [x, zeros], name="y")).build()
    assert rewritten(graph, "remove-neutral") == ["EXP", "ADD"]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lead", [(), (1,)])
def test_a_product_with_a_constant_matrix_is_a_layer(adjoint: bool, lead: tuple[int, ...]) -> None:
    b = builder()
    matrix = constant(b, *lead, *((4, 3) if adjoint else (3, 4)))
    attrs = BatchMatMulAttrs(adj_y=adjoint)
    product = b.op("BATCH_MATMUL", [b.input("x", F32, (2, 5, 3)), matrix], attrs)
    graph = b.output(b.op("ADD", [product, constant(b, 4)], name="y")).build()
    assert rewritten(graph, "matmul-to-fully-connected", "fold-scales", tolerance=1e-5) == [
        "FULLY_CONNECTED"
    ]


def test_products_with_stacks_or_computed_matrices_stay() -> None:
    b = builder()
    x = b.input("x", F32, (2, 5, 3))
    product = b.op("BATCH_MATMUL", [x, constant(b, 2, 3, 3)])
    graph = b.output(b.op("BATCH_MATMUL", [product, x], BatchMatMulAttrs(adj_y=True))).build()
    kinds = rewritten(graph, "matmul-to-fully-connected", tolerance=1e-5)
    assert kinds == ["BATCH_MATMUL", "BATCH_MATMUL"]


@pytest.mark.parametrize(
    ("has_bias", "activation", "left"),
    [
        (True, "RELU", ["BATCH_MATMUL", "ADD"]),
        (False, "RELU6", ["BATCH_MATMUL", "RELU6"]),
        (False, "NONE", ["BATCH_MATMUL"]),
    ],
)
def test_a_layer_of_computed_weights_is_a_product(
    has_bias: bool, activation: str, left: list[str]
) -> None:
    b = builder()
    x, w = b.input("x", F32, (2, 3)), b.input("w", F32, (4, 3))
    inputs = [x, w, constant(b, 4) if has_bias else None]
    y = b.op("FULLY_CONNECTED", inputs, FullyConnectedAttrs(activation), name="y")
    graph = b.output(y).build()
    assert rewritten(graph, "fully-connected-to-matmul", tolerance=1e-5) == left


def layer(b: Builder, x: Tensor, units: int, kind: str = "FULLY_CONNECTED") -> Tensor:
    if kind == "FULLY_CONNECTED":
        return b.op(kind, [x, constant(b, units, x.static_shape[-1]), constant(b, units)])
    weights = constant(b, units, 3, 3, x.static_shape[-1])
    return b.op(kind, [x, weights, None], Conv2DAttrs(SAME_UPPER, activation="RELU"))


@pytest.mark.parametrize("kind", ["FULLY_CONNECTED", "CONV_2D"])
def test_layers_whose_results_are_joined_are_one(kind: str) -> None:
    b = builder()
    x = b.input("x", F32, (2, 6) if kind == "FULLY_CONNECTED" else (1, 5, 5, 2))
    parts = [layer(b, x, units, kind) for units in (3, 5, 4)]
    graph = b.output(b.op("CONCATENATION", parts, ConcatenationAttrs(-1), name="y")).build()
    assert rewritten(graph, "join-layers", tolerance=1e-5) == [kind]


def test_neighbours_join_and_others_stay() -> None:
    b = builder()
    x = b.input("x", F32, (2, 6))
    other = b.op("EXP", [x], name="other")
    parts = [layer(b, x, 3), layer(b, x, 5), other, layer(b, x, 2), layer(b, other, 2)]
    graph = b.output(b.op("CONCATENATION", parts, ConcatenationAttrs(1), name="y")).build()
    kinds = rewritten(graph, "join-layers", tolerance=1e-5)
    assert kinds == ["EXP", *["FULLY_CONNECTED"] * 3, "CONCATENATION"]


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
def test_layers_whose_results_are_added_are_one(kind: str) -> None:
    b = builder()
    x = b.input("x", F32, (2, 6))
    attrs = AddAttrs("RELU") if kind == "ADD" else SubAttrs("RELU")
    y = b.op(kind, [layer(b, x, 3), layer(b, x, 3)], attrs, name="y")
    graph = b.output(y).build()
    assert rewritten(graph, "join-layers", tolerance=1e-5) == ["FULLY_CONNECTED"]
    assert graph.ops[0].attributes(FullyConnectedAttrs).activation == "RELU"


def test_layers_of_other_inputs_and_shared_weights_stay() -> None:
    b = builder()
    x, w = b.input("x", F32, (2, 6)), constant(b, 3, 6)
    first, second = (b.op("FULLY_CONNECTED", [x, w, None], name=n) for n in "ab")
    joined = b.op("CONCATENATION", [first, second], ConcatenationAttrs(1), name="y")
    graph = b.output(joined).build()
    assert not make("join-layers").run(graph)
    assert kinds_of(graph) == ["FULLY_CONNECTED", "FULLY_CONNECTED", "CONCATENATION"]
