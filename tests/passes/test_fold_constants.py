from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Quantization
from circlet.limits import Limits, MemoryBudget
from circlet.ops.build import builder
from circlet.ops.facts import ShapeAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.passes.fold_constants import FoldConstants, FoldLedger
from circlet.passes.rewriter import Rewriter
from tests.passes.harness import rewritten

pytestmark = pytest.mark.smoke


def test_dequantized_float16_weights_become_constants() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 2))
    half = b.constant("half", np.array([[1.5, 2.5]], np.float16))
    w = b.op("DEQUANTIZE", [half], name="w", dtype=DType.FLOAT32, shape=(1, 2))
    graph = b.output(b.op("ADD", [x, w], name="y")).build()
    assert rewritten(graph, "fold-constants") == ["ADD"]
    assert graph.ops[0].origin.name == "w+y"
    assert w.data is not None and w.data.tolist() == [[1.5, 2.5]]


def test_chains_fold_in_one_run() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 2))
    c = b.constant("c", np.array([1, 2], np.int8), Quantization.per_tensor(0.5, 1))
    real = b.op("DEQUANTIZE", [c], name="real", dtype=DType.FLOAT32, shape=(2,))
    twice = b.op("ADD", [real, real], name="twice")
    graph = b.output(b.op("ADD", [x, twice], name="y")).build()
    assert rewritten(graph, "fold-constants") == ["ADD"]
    assert graph.ops[0].origin.name == "real+twice+y"
    assert c not in graph.tensors and real not in graph.tensors


def test_graph_outputs_are_not_folded() -> None:
    b = builder()
    c = b.constant("c", np.ones(2, np.float32))
    graph = b.output(b.op("ADD", [c, c], name="y")).build()
    assert rewritten(graph, "fold-constants") == ["ADD"]


def test_results_beyond_the_limit_stay_computed() -> None:
    b = builder()
    c = b.constant("c", np.ones(2, np.float32))
    y = b.op("ADD", [c, c], name="y")
    graph = b.output(b.op("RELU", [y], name="z")).build()
    assert FoldConstants(most_bytes=7).run(graph) is False


def test_known_sizes_fold_without_the_elements() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    y = b.op("NEG", [x], name="y")
    sizes = b.op("SHAPE", [y], ShapeAttrs("INT32"), name="sizes", dtype=DType.INT32)
    one = b.constant("one", np.array([1, 1], np.int32))
    more = b.op("ADD", [sizes, one], name="more")
    graph = b.output(b.op("RESHAPE", [y, b.op("SUB", [more, one], name="same")], name="z")).build()
    assert rewritten(graph, "fold-constants") == ["NEG", "RESHAPE"]


def test_unknown_sizes_are_asked_for_at_run_time() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 3))
    sizes = b.op("SHAPE", [x], ShapeAttrs("INT32"), name="sizes", dtype=DType.INT32)
    graph = b.output(b.op("NEG", [sizes], name="y")).build()
    assert rewritten(graph, "fold-constants") == ["SHAPE", "NEG"]


def chain_of_constants(count: int, size: int) -> Graph:
    """`count` ABS one after the other over a constant, added to the input."""
    b = builder()
    x, c = b.input("x", DType.FLOAT32, (size,)), b.constant("c", np.ones(size, np.float32))
    for _ in range(count):
        c = b.op("ABS", [c])
    return b.output(b.op("ADD", [x, c], name="y")).build()


def test_results_that_nothing_reads_any_more_take_no_memory() -> None:
    budget = Limits().memory_budget(0)
    graph = chain_of_constants(10, 1 << 10)
    assert FoldConstants(ledger=FoldLedger(budget)).run(graph)
    assert (len(graph.ops), budget.taken) == (1, 4 << 10)


def test_folding_stops_where_the_budget_ends() -> None:
    budget = MemoryBudget((24 << 10) - 1)  # a result, and another with what numpy needs
    graph = chain_of_constants(10, 1 << 10)
    FoldConstants(ledger=FoldLedger(budget)).run(graph)
    assert len(graph.ops) == 10
    assert budget.taken == 4 << 10


def test_folding_stores_little_for_a_small_file() -> None:
    b = builder()
    x, c = b.input("x", DType.FLOAT32, (1,)), b.constant("c", np.ones(1 << 10, np.float32))
    for _ in range(7):
        c = b.op("CONCATENATION", [c] * 4, ConcatenationAttrs(0))
    begin, one = (b.constant(n, np.full(1, v, np.int32)) for n, v in (("begin", 0), ("one", 1)))
    graph = b.output(b.op("ADD", [x, b.op("SLICE", [c, begin, one])], name="y")).build()
    budget = Limits().memory_budget(4 << 10)
    FoldConstants(ledger=FoldLedger(budget)).run(graph)
    assert [op.kind for op in graph.ops] == ["CONCATENATION", "SLICE", "ADD"]
    assert budget.taken == 16 << 20


def test_folding_computes_little_for_a_small_file() -> None:
    b = builder()
    x, c = b.input("x", DType.FLOAT32, (1, 64)), b.constant("c", np.ones((2048, 2048), np.float32))
    w = b.op("BATCH_MATMUL", [c, c], name="product")
    begin, size = (b.constant(n, np.array(v, np.int32)) for n, v in (("b", [0, 0]), ("s", [1, 64])))
    graph = b.output(b.op("ADD", [x, b.op("SLICE", [w, begin, size])], name="y")).build()
    assert not FoldConstants(ledger=FoldLedger(Limits().memory_budget(1000))).run(graph)


def test_results_that_a_copy_of_the_graph_reads_are_kept() -> None:
    graphs: list[Graph] = []
    for _ in range(2):
        b = builder()
        x, two = b.input("x", DType.FLOAT32, (2,)), b.constant("2", np.full(2, 2, np.float32))
        four = b.op("ADD", [two, two], name="4")
        b.output(b.op("ADD", [x, b.op("NEG", [four], name="-4")], name="y"))
        graphs.append(b.build())
    first, second = graphs
    folding = FoldConstants(ledger=FoldLedger())
    rewriter = Rewriter(first)
    folding.fold(first.ops[0], rewriter)
    rewriter.finish()
    (four,) = (tensor for tensor in first.constants() if tensor.name == "4")
    second.ops[1].inputs = [four]
    folding.ledger.share(first.constants())
    assert folding.run(second)
    assert four.data is not None
