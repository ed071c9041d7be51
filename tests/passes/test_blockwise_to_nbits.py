"""Layers of INT4 weights with scales per block become products by blocks."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.errors import LimitError
from circlet.formats import load
from circlet.ir import BlockwiseQuant, DType, Graph, Quantization, Tensor
from circlet.limits import MemoryBudget
from circlet.ops.build import builder
from circlet.ops.dense import blockwise_real
from circlet.ops.evaluate import evaluate_graph
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.passes import make
from circlet.passes.blockwise_to_nbits import BlockwiseToNbits
from tests.corpora import corpus

LABEL = "CUSTOM:onnx.com.microsoft.MatMulNBits"


def layer(
    rows: tuple[int, ...] = (3, 64),
    block: int = 32,
    attrs: FullyConnectedAttrs | None = None,
    *,
    bias: bool = False,
    short: int = 0,
) -> tuple[Graph, np.ndarray]:
    """A layer of 6 outputs, and the real values of its weights."""
    random, depth = np.random.default_rng(3), 64
    b = builder()
    x = b.input("x", DType.FLOAT32, rows)
    scales = b.constant("s", random.uniform(0.1, 1, (6, depth // block)).astype(np.float16))
    none = np.zeros(0, np.float32)
    quant = Quantization(none, np.zeros(0, np.int64), details=BlockwiseQuant(scales, None, block))
    stored = random.integers(0, 256, 6 * depth // 2 - short, np.uint8)
    weights = Tensor("w", DType.INT4, (6, depth), quant, data=stored)
    b.graph.tensors.append(weights)
    real = np.zeros((6, depth), np.float32) if short else blockwise_real(weights)
    assert real is not None
    operands = [x, weights]
    if bias:
        operands.append(b.constant("b", np.arange(6, dtype=np.float32)))
    made = b.op("FULLY_CONNECTED", operands, attrs or FullyConnectedAttrs(), name="y")
    return b.output(made).build(), real


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize(
    ("rows", "keeps", "clamp", "bias", "kinds"),
    [
        ((3, 64), False, "NONE", False, [LABEL]),
        ((2, 3, 64), True, "NONE", True, [LABEL]),
        ((2, 3, 64), False, "RELU", True, [LABEL, "RESHAPE", "RELU"]),
        ((1, 64), True, "RELU6", False, [LABEL, "RELU6"]),
    ],
)
def test_layers_become_products_with_the_same_results(
    block: int, rows: tuple[int, ...], keeps: bool, clamp: str, bias: bool, kinds: list[str]
) -> None:
    graph, real = layer(rows, block, FullyConnectedAttrs(clamp, keep_num_dims=keeps), bias=bias)
    shape, origin = graph.outputs[0].shape, graph.ops[0].origin
    assert make("blockwise-to-nbits").run(graph)
    assert [op.label for op in graph.ops] == kinds
    assert all(op.origin == origin for op in graph.ops)
    x = np.random.default_rng(5).standard_normal(rows).astype(np.float32)
    (result,) = evaluate_graph(graph, [x])
    wanted = (x @ real.T + (np.arange(6) if bias else 0)).reshape(result.shape)
    low, high = {"NONE": (-np.inf, np.inf), "RELU": (0, np.inf), "RELU6": (0, 6)}[clamp]
    assert result.shape == shape
    np.testing.assert_allclose(result, np.clip(wanted, low, high), atol=1e-4)


def test_small_blocks_and_broken_storage_stay() -> None:
    for graph in (layer(block=16)[0], layer(short=1)[0]):
        assert not make("blockwise-to-nbits").run(graph)
        assert graph.ops[0].kind == "FULLY_CONNECTED"


def test_layers_of_the_same_weights_share_them() -> None:
    graph, _ = layer()
    op = graph.ops[0]
    twin = Tensor("z", DType.FLOAT32, op.outputs[0].shape)
    graph.ops.append(type(op)(op.kind, [*op.inputs], [twin], op.attrs, op.origin))
    graph.tensors.append(twin)
    graph.outputs.append(twin)
    assert make("blockwise-to-nbits").run(graph)
    assert graph.ops[0].inputs[1] is graph.ops[1].inputs[1]
    assert all(tensor.dtype is not DType.INT4 for tensor in graph.tensors)


@pytest.mark.parametrize(("short", "is_enough"), [(1, False), (0, True)])
def test_the_other_form_is_charged(short: int, is_enough: bool) -> None:
    taken = 6 * 32 + 6 * 2 * 4
    graph, budget = layer()[0], MemoryBudget(taken - short)
    if is_enough:
        assert BlockwiseToNbits(budget).run(graph) and budget.taken == taken
        return
    with pytest.raises(LimitError, match="where: w"):
        BlockwiseToNbits(budget).run(graph)


def test_a_network_of_the_corpus_errs_no_more_than_litert() -> None:
    path = corpus("models/qwen_fc_blockwise_int4.tflite")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(path))
    interpreter.allocate_tensors()
    given, made = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    weights = load(path).main.ops[0].inputs[1]
    assert weights is not None
    real = blockwise_real(weights)
    assert real is not None
    session, errors = circlet.Session(path), []
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal(given["shape"]).astype(np.float32)
        interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        exact = x.astype(np.float64) @ real.T.astype(np.float64)
        own, peers = next(iter(session.run([x]).values())), interpreter.get_tensor(made["index"])
        errors.append([np.square(result - exact).mean() for result in (own, peers)])
    ours, theirs = np.mean(errors, axis=0)
    assert 0 < ours < 1.1 * theirs
