from __future__ import annotations

import numpy as np

from circlet.formats import load
from circlet.ir import DType, Graph
from circlet.ops.build import builder
from circlet.ops.composite import CompositeAttrs
from circlet.passes import make, pipeline
from tests.attacks.growth import nested
from tests.corpora import corpus
from tests.evaluate import evaluate, random_inputs
from tests.passes.harness import kinds_of, rewritten


def squared_plus_one() -> Graph:
    b = builder("inner", 90)
    x = b.input("x", DType.FLOAT32, (2, 3))
    one = b.constant("one", np.float32(1))
    return b.output(b.op("ADD", [b.op("SQUARE", [x], name="s"), one], name="t")).build()


def calling(region: Graph) -> Graph:
    b = builder()
    x = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 3))], name="r")
    attrs = CompositeAttrs("my.square")
    made = b.op("STABLEHLO_COMPOSITE", [x], attrs, name="c", dtype=DType.FLOAT32, shape=(2, 3))
    graph = b.output(b.op("NEG", [made], name="n")).build()
    graph.ops[1].regions = [region]
    return graph


def test_a_composite_becomes_its_decomposition() -> None:
    graph = calling(squared_plus_one())
    assert rewritten(graph, "inline-composite") == ["RELU", "SQUARE", "ADD", "NEG"]
    assert [op.origin.name for op in graph.ops] == ["r", "c", "c", "n"]


def test_composites_inside_composites_are_inlined() -> None:
    graph = calling(calling(squared_plus_one()))
    kinds = rewritten(graph, "inline-composite")
    assert kinds == ["RELU", "RELU", "SQUARE", "ADD", "NEG", "NEG"]


def test_one_decomposition_serves_two_composites() -> None:
    graph = calling(squared_plus_one())
    second = calling(graph.ops[1].regions[0])
    for part in (graph, second):
        rewritten(part, "inline-composite")
    assert not set(graph.ops[1].outputs) & set(second.ops[1].outputs)


def test_a_decomposition_that_hands_an_input_through_stays() -> None:
    region = squared_plus_one()
    region.outputs = [region.inputs[0]]
    graph = calling(region)
    assert "STABLEHLO_COMPOSITE" in rewritten(graph, "inline-composite")


def test_attention_of_the_corpus_loses_its_composite() -> None:
    graph = load(corpus("models/sdpa_composite.tflite")).main
    inputs = random_inputs(graph)
    before = evaluate(graph, inputs)
    assert make("inline-composite").run(graph)
    assert "STABLEHLO_COMPOSITE" not in kinds_of(graph)
    for got, want in zip(evaluate(graph, inputs), before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_composites_that_come_to_far_too_many_ops_stay() -> None:
    model = load(nested(["STABLEHLO_COMPOSITE"], 14))
    pipeline("O2").run(model)
    assert kinds_of(model.main) == ["STABLEHLO_COMPOSITE"] * 2
    assert sum(len(graph.ops) for graph in model.graphs) < 1 << 14
