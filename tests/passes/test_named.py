"""Passes that no level has, as they change more than how a network computes."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ir.builder import Builder
from circlet.ops.build import builder
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.lstm_operands import SequenceLstmAttrs
from circlet.ops.math import FakeQuantAttrs
from circlet.ops.verify import verify
from circlet.passes import PassManager, make, pipeline
from circlet.passes.pipelines import FILE_PIPELINES, PIPELINES
from tests.evaluate import evaluate
from tests.passes.harness import kinds_of, rewritten, source_names
from tests.passes.networks import conv, image

F32 = DType.FLOAT32
RNG = np.random.default_rng(13)


def ints(b: Builder, *values: int) -> Tensor:
    return b.constant("ints", np.array(values, np.int32))


def test_no_level_has_them() -> None:
    named = {"set-batch", "channels-last", "remove-fake-quant", "unroll-lstm"}
    levels = (*PIPELINES.values(), *FILE_PIPELINES.values())
    assert all(named.isdisjoint(level.passes) for level in levels)


def test_an_open_batch_becomes_a_number_throughout() -> None:
    b = builder()
    x = b.input("x", F32, (None, 3, 2))
    x.default_shape, x.dim_names = (1, 3, 2), ("batch", "", "")
    flat = b.op("RESHAPE", [b.op("EXP", [x], name="t"), ints(b, -1, 6)], name="flat")
    w = b.constant("w", np.ones((4, 6), np.float32))
    graph = b.output(b.op("FULLY_CONNECTED", [flat, w, None], name="y")).build()
    assert make("set-batch", size=5).run(graph)
    verify(graph)
    assert [t.shape for op in graph.ops for t in op.outputs] == [(5, 3, 2), (5, 6), (5, 4)]
    assert (graph.inputs[0].shape, graph.inputs[0].dim_names) == ((5, 3, 2), ())
    assert not make("set-batch", size=5).run(graph)


def test_other_open_sizes_stay() -> None:
    b = builder()
    x = b.input("x", F32, (None, None, 2))
    x.default_shape = (1, 7, 2)
    graph = b.output(b.op("EXP", [x], name="y")).build()
    make("set-batch").run(graph)
    assert (graph.outputs[0].shape, graph.inputs[0].default_shape) == ((1, None, 2), (1, 7, 2))


def channels_first(*outputs: str) -> Graph:
    b = builder()
    x = b.input("x", F32, (1, 2, 6, 5))
    made = conv(b, b.op("TRANSPOSE", [x, ints(b, 0, 2, 3, 1)], name="to"))
    y = b.op("TRANSPOSE", [made, ints(b, 0, 3, 1, 2)], name="from")
    return b.output(*({"y": y, "conv": made}[name] for name in outputs)).build()


def test_images_with_channels_last_need_no_transposes() -> None:
    graph = channels_first("y")
    image = RNG.normal(size=(1, 2, 6, 5)).astype(np.float32)
    (wanted,), names = evaluate(graph, [image]), source_names(graph)
    assert make("channels-last").run(graph)
    verify(graph)
    assert (kinds_of(graph), source_names(graph)) == (["CONV_2D"], names)
    assert (graph.inputs[0].shape, graph.outputs[0].shape) == ((1, 6, 5, 2), (1, 4, 3, 4))
    (got,) = evaluate(graph, [image.transpose(0, 2, 3, 1)])
    np.testing.assert_array_equal(got.transpose(0, 3, 1, 2), wanted)


@pytest.mark.parametrize(
    ("inputs", "outputs", "left"), [(True, False, 2), (False, True, 2), (False, False, 3)]
)
def test_inputs_and_outputs_may_stay_as_they_are(inputs: bool, outputs: bool, left: int) -> None:
    graph = channels_first("y")
    make("channels-last", inputs=inputs, outputs=outputs).run(graph)
    verify(graph)
    assert len(graph.ops) == left


def test_an_output_that_is_given_out_both_ways_stays() -> None:
    graph = channels_first("y", "conv")
    make("channels-last").run(graph)
    assert kinds_of(graph) == ["CONV_2D", "TRANSPOSE"]


def test_graphs_that_an_operator_runs_keep_the_order_of_their_axes() -> None:
    branch = channels_first("y")
    sizes = [t.shape for t in (*branch.inputs, *branch.outputs)]
    b = builder()
    given = [b.input("flag", DType.BOOL, ()), b.input("x", F32, (1, 2, 6, 5))]
    graph = b.output(b.op("IF", given, None, name="choice", dtype=F32, shape=sizes[1])).build()
    graph.ops[0].regions = [branch, branch]
    image = RNG.normal(size=(1, 2, 6, 5)).astype(np.float32)
    arrays = [np.array(True), image]
    wanted = evaluate(graph, arrays)
    PassManager((make("channels-last"),), check=True).run(Model([graph, branch]))
    assert [t.shape for t in (*branch.inputs, *branch.outputs)] == sizes
    np.testing.assert_array_equal(evaluate(graph, arrays), wanted)


def test_graphs_that_an_operator_runs_keep_their_open_batch() -> None:
    inner = builder()
    branch = inner.output(inner.op("EXP", [inner.input("x", F32, (None, 2))], name="y")).build()
    b = builder()
    flag, x = b.input("flag", DType.BOOL, ()), b.input("x", F32, (None, 2))
    rows = b.op("CONCATENATION", [x, x], ConcatenationAttrs(axis=0), name="twice")
    made = b.op("IF", [flag, rows], None, name="choice", dtype=F32, shape=(None, 2))
    graph = b.output(made).build()
    graph.ops[-1].regions = [branch, branch]
    PassManager((make("set-batch", size=3),), check=True).run(Model([graph, branch]))
    assert graph.ops[0].outputs[0].shape == (6, 2)
    assert branch.inputs[0].shape == (None, 2)
    (got,) = evaluate(graph, [np.array(True), np.zeros((3, 2), np.float32)])
    np.testing.assert_array_equal(got, np.ones((6, 2), np.float32))


def test_fake_quantisation_goes() -> None:
    b = builder()
    x = b.op("EXP", [b.input("x", F32, (2, 3))], name="t")
    x = b.op("FAKE_QUANT", [x], FakeQuantAttrs(-6, 6, 8), name="fake")
    q = b.op("QUANTIZE", [x], name="q", dtype=DType.INT8, quant=Quantization.per_tensor(0.5))
    graph = b.output(b.op("NEG", [b.op("DEQUANTIZE", [q], name="d", dtype=F32)], name="y")).build()
    small = [np.full((2, 3), -1, np.float32)]
    left = rewritten(graph, "remove-fake-quant", tolerance=0.25, inputs=small)
    assert left == ["EXP", "NEG"]


def lstm(*, time_major: bool = False, clip: float = 0.0, steps: int = 3) -> Graph:
    b = builder()
    sizes = (steps, 2, 4) if time_major else (2, steps, 4)
    x = b.input("x", F32, sizes)

    def known(*shape: int) -> Tensor:
        return b.constant("w", RNG.normal(0, 0.5, shape).astype(np.float32))

    weights = [known(5, 4) for _ in range(4)] + [known(5, 5) for _ in range(4)]
    biases = [known(5) for _ in range(4)]
    states = [b.variable(name, F32, (2, 5)) for name in ("output", "cell")]
    operands = [x, *weights, None, None, None, *biases, None, None, *states]
    attrs = SequenceLstmAttrs("TANH", cell_clip=clip, time_major=time_major)
    return b.output(b.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, attrs, name="y")).build()


@pytest.mark.parametrize(("time_major", "clip"), [(True, 0.0), (False, 0.0), (False, 0.25)])
def test_an_lstm_becomes_its_steps(time_major: bool, clip: float) -> None:
    graph = lstm(time_major=time_major, clip=clip)
    kinds = rewritten(graph, "unroll-lstm", tolerance=1e-6)
    assert ("MINIMUM" in kinds) is (clip > 0)
    assert kinds[:2] == ["FULLY_CONNECTED", "UNPACK"] and kinds[-1] == "PACK"
    assert kinds.count("SPLIT") == 3 and kinds.count("FULLY_CONNECTED") == 3


def test_long_lstms_stay() -> None:
    assert not make("unroll-lstm", most_steps=2).run(lstm())


def test_reshapes_move_behind_what_computes() -> None:
    b = builder()
    made = conv(b, b.input("x", F32, (1, 6, 6, 2)))
    flat = b.op("RESHAPE", [made, ints(b, 1, -1)], name="flat")
    scaled = b.op("MUL", [b.op("RELU", [flat], name="clamp"), b.constant("two", np.float32(2))])
    graph = b.output(b.op("RESHAPE", [scaled, ints(b, -1)], name="y")).build()
    names = "move-reshapes", "merge-reshapes", "fuse-activation"
    assert rewritten(graph, *names) == ["CONV_2D", "MUL", "RESHAPE"]


def test_reshapes_move_behind_lists_for_channels_that_stay() -> None:
    b = builder()
    flat = b.op("RESHAPE", [b.input("x", F32, (2, 3, 4)), ints(b, 6, 4)], name="flat")
    offsets = b.constant("offsets", np.arange(4, dtype=np.float32))
    graph = b.output(b.op("ADD", [offsets, flat], name="y")).build()
    assert rewritten(graph, "move-reshapes") == ["ADD", "RESHAPE"]


@pytest.mark.parametrize("shape", [(3, 8), (24,), (3, 2, 4)])
def test_reshapes_stay_before_channels_that_they_make(shape: tuple[int, ...]) -> None:
    b = builder()
    flat = b.op("RESHAPE", [b.input("x", F32, (4, 6)), ints(b, *shape)], name="flat")
    offsets = b.constant("offsets", np.arange(shape[-1], dtype=np.float32))
    graph = b.output(b.op("ADD", [flat, offsets], name="y")).build()
    assert rewritten(graph, "move-reshapes") == ["RESHAPE", "ADD"]


def test_reshapes_stay_where_others_read_them() -> None:
    b = builder()
    flat = b.op("RESHAPE", [b.input("x", F32, (2, 3, 4)), ints(b, 6, 4)], name="flat")
    scales = b.constant("scales", np.arange(4, dtype=np.float32))
    graph = b.output(b.op("MUL", [flat, scales], name="y"), b.op("EXP", [flat], name="z")).build()
    assert rewritten(graph, "move-reshapes") == ["RESHAPE", "MUL", "EXP"]


def test_native_levels_hold_no_pass_that_only_files_gain_by() -> None:
    only = {"recognise-norms", "merge-scales", "join-layers", "simplify-pads"}
    assert only.isdisjoint(item.name for item in pipeline("O2").passes)


def test_filters_that_only_convolutions_read_are_marked_to_be_compressed() -> None:
    b = builder()
    graph = b.output(conv(b, image(b, DType.INT8))).build()
    assert rewritten(graph, "compress-weights") == ["CONV_2D"]
    weights = graph.ops[0].inputs[1]
    assert weights is not None and weights.extra == {"compression_type": "HUFFMAN"}
