"""Weights as TFLite Micro's places in tables, and without zeros: written, read, and run by it."""

from __future__ import annotations

import numpy as np
import pytest

from circlet import Session
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model, Quantization
from circlet.ops.build import builder
from circlet.ops.conv import DepthwiseConv2DAttrs
from circlet.passes import make
from tests.evaluate import evaluate, random_inputs
from tests.ops.custom_op import micro_outputs
from tests.passes.harness import rewritten
from tests.passes.networks import I8, image

RNG = np.random.default_rng(3)
SCALE = Quantization.per_tensor(0.5, 2)


def few(shape: tuple[int, ...], values: list[int]) -> np.ndarray:
    return RNG.choice(np.array(values, np.int8), shape)


def network(*, sparse: bool = False, second: bool = False, depthwise: bool = True) -> Graph:
    """A convolution, a depthwise one and a layer, in bytes, of weights of few values."""
    b = builder()
    x = image(b, I8, 8)
    chosen = [0] * 60 + [*range(-60, 60, 7)] if sparse else [-90, 0, 3, 100]
    w = b.constant("w", few((64, 3, 3, 2), chosen), Quantization.per_channel([0.1] * 64, 0))
    y = b.op("CONV_2D", [x, w, None], name="conv", quant=SCALE)
    if second:
        b.output(b.op("CONV_2D", [x, w, None], name="again", quant=SCALE))
    channels = Quantization.per_channel([0.1] * 64, 3)
    d = b.constant("d", few((1, 5, 5, 64), [-5, 9]), channels)
    if depthwise:
        attrs = DepthwiseConv2DAttrs()
        y = b.op("DEPTHWISE_CONV_2D", [y, d, None], attrs, name="depthwise", quant=SCALE)
    sizes = b.constant("sizes", np.array([1, -1], np.int32))
    flat = b.op("RESHAPE", [y, sizes], name="flat", quant=SCALE)
    f = b.constant("f", few((32, flat.static_shape[1]), [1, 2, 7]), Quantization.per_tensor(0.1))
    return b.output(b.op("FULLY_CONNECTED", [flat, f, None], name="y", quant=SCALE)).build()


def forms(graph: Graph) -> list[int]:
    """The forms of what is decoded, in the order of the layers."""
    heads = [op.inputs[1].data for op in graph.ops if op.kind == "CUSTOM"]  # type: ignore[union-attr]
    return [int(head[0]) for head in heads if head is not None]


@pytest.mark.parametrize(("sparse", "wanted"), [(False, [0, 0, 0]), (True, [2, 0, 0])])
def test_weights_of_few_values_or_many_zeros_are_encoded(sparse: bool, wanted: list[int]) -> None:
    graph = network(sparse=sparse)
    kinds = rewritten(graph, "encode-weights")
    assert forms(graph) == wanted
    assert kinds.count("CUSTOM") == 3 and kinds[-2:] == ["CUSTOM", "FULLY_CONNECTED"]
    assert "CUSTOM" not in rewritten(graph, "unpack-constants")


def test_files_are_smaller_and_mean_the_same() -> None:
    plain, graph = network(), network()
    for one, two in zip(plain.constants(), graph.constants(), strict=True):
        two.data = one.data
    assert make("encode-weights").run(graph)
    data, smaller = (dumps(Model([each]), "tflite") for each in (plain, graph))
    assert len(smaller) < 0.6 * len(data)
    assert [op.label for op in load(smaller).main.ops].count("CUSTOM:TFLM_DECODE") == 3
    inputs = random_inputs(plain)
    wanted, *found = (
        Session(file, backends=["reference"], level=level).run(inputs)["y"]
        for file, level in ((data, "O0"), (smaller, "O0"), (smaller, "O2"))
    )
    for answer in found:
        np.testing.assert_array_equal(answer, wanted)


@pytest.mark.parametrize("sparse", [False, True])
def test_tflite_micro_runs_it(sparse: bool) -> None:
    micro = pytest.importorskip(
        "tflite_micro.python.tflite_micro.runtime", reason="TFLite Micro is the judge"
    )
    graph = network(sparse=sparse, depthwise=False)
    make("add-biases").run(graph)  # it does not do without
    inputs = random_inputs(graph)
    (wanted,) = evaluate(graph, inputs)
    for _ in range(2):
        file = bytes(dumps(Model([graph]), "tflite"))  # which it reads while it runs
        opened = micro.Interpreter.from_bytes(file, arena_size=1 << 20)
        np.testing.assert_array_equal(micro_outputs(opened, 1, *inputs)[0], wanted)
        make("encode-weights").run(graph)
    assert forms(graph) == [2 * sparse, 0]


def test_each_layer_decodes_for_itself() -> None:
    graph = network(second=True)
    assert make("encode-weights", least_saved=0).run(graph)
    layers = [op for op in graph.ops if op.kind == "CONV_2D"]
    weights = [op.inputs[1] for op in layers]
    made = {op.outputs[0]: op for op in graph.ops if op.kind == "CUSTOM"}
    assert weights[0] is not weights[1] and set(weights) < set(made)
    first, second = (made[w] for w in weights if w is not None)
    assert first.inputs == second.inputs
    for layer, decode in zip(layers, (first, second), strict=True):
        assert graph.ops[graph.ops.index(layer) - 1] is decode


def layer(values: np.ndarray, quant: Quantization | None = None) -> Graph:
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, values.shape[1]))
    w = b.constant("w", values, quant)
    return b.output(b.op("FULLY_CONNECTED", [x, w, None], name="y")).build()


def test_floats_stay_bit_for_bit_what_they_are() -> None:
    graph = layer(RNG.choice(np.array([0.0, -0.0, np.nan, 0.1, np.inf], np.float32), (64, 64)))
    wanted = graph.ops[0].inputs[1].data.tobytes()  # type: ignore[union-attr]
    assert make("encode-weights").run(graph) and make("unpack-constants").run(graph)
    assert graph.ops[0].inputs[1].data.tobytes() == wanted  # type: ignore[union-attr]


def test_weights_that_would_not_get_smaller_and_those_that_others_read_stay() -> None:
    assert not make("encode-weights").run(layer(RNG.normal(size=(64, 64)).astype(np.float32)))
    assert not make("encode-weights").run(layer(np.ones((4, 4), np.float32)))
    graph = layer(np.ones((64, 64), np.float32))
    graph.outputs.append(graph.ops[0].inputs[1])  # type: ignore[arg-type]
    assert not make("encode-weights").run(graph)
