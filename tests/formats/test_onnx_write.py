"""Writing .onnx: each family of operators against `reference`, in ONNX Runtime and read again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.errors import FormatError, LimitError
from circlet.formats import dumps
from circlet.formats.onnx.notes import ORIGIN
from circlet.ir import DType, Graph, Model, Quantization, Tensor
from circlet.ops.build import builder
from circlet.ops.conv import Conv2DAttrs
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.layout import ConcatenationAttrs
from tests import onnx_written
from tests.formats.onnx_nets import FLOATS, IMAGE, Net, chain, weights

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

NEEDS_ENGINE = pytest.mark.skipif(
    find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed"
)


def model_of(net: Net, shape: Sequence[int | None] = IMAGE) -> Model:
    b = builder()
    made = net(b, b.input("x", DType.FLOAT32, tuple(shape)))
    return b.output(*([made] if isinstance(made, Tensor) else made)).model()


def reference(model: Model | bytes, *given: np.ndarray) -> list[np.ndarray]:
    session = circlet.Session(model, backends=["reference"], level="O0", cache=False)
    return list(session.run(list(given)).values())


def written(model: Model, *, origins: bool = False) -> tuple[bytes, Any]:
    """The file, which the package onnx finds right, and its message."""
    data = dumps(model, "onnx", origins=origins)
    proto = onnx.load_from_string(data)
    onnx.checker.check_model(proto, full_check=True)
    return data, proto


def kinds(proto: Any) -> Counter[str]:
    return Counter(str(node.op_type) for node in proto.graph.node)


@pytest.mark.parametrize("name", FLOATS)
def test_what_is_written_computes_the_same(name: str) -> None:
    model, image = model_of(FLOATS[name]), weights(*IMAGE)
    wanted = reference(model, image)
    data, _ = written(model)
    answers = [reference(data, image)]
    if find_spec("onnxruntime") is not None:
        answers.append(onnx_written.session(data).run(None, {"x": image}))
    for got in answers:
        for one, other in zip(got, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_convolution_worked_out_by_hand() -> None:
    """One row of 1, 2, 3 of two channels, a kernel of ones over two pixels."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (1, 1, 3, 2))
    ones = b.constant("w", np.ones((1, 1, 2, 2), np.float32))
    b.output(b.op("CONV_2D", [x, ones, None], Conv2DAttrs(((0, 0), (0, 0))), name="y"))
    _, proto = written(b.model())
    assert kinds(proto) == {"Transpose": 1, "Conv": 1} or kinds(proto) == {
        "Transpose": 2,
        "Conv": 1,
    }
    (weight,) = proto.graph.initializer
    assert list(weight.dims) == [1, 2, 1, 2]
    row = np.array([[[[1, 10], [2, 20], [3, 30]]]], np.float32)
    (got,) = reference(dumps(b.model(), "onnx"), row)
    assert got.reshape(-1).tolist() == [33.0, 55.0]


def test_an_image_network_is_transposed_once() -> None:
    _, proto = written(model_of(chain))
    assert kinds(proto)["Transpose"] == 1
    assert kinds(proto)["Conv"] == 2


def test_transposes_of_the_network_that_undo_those_of_layers_are_not_written() -> None:
    def net(b: Any, x: Tensor) -> Tensor:
        last = b.op(
            "TRANSPOSE", [x, b.constant("last", np.array([0, 2, 3, 1], np.int32))], name="last"
        )
        filters = b.constant("w", weights(4, 3, 3, 8))
        made = b.op("CONV_2D", [last, filters, None], Conv2DAttrs(SAME_UPPER), name="conv")
        first = b.constant("first", np.array([0, 3, 1, 2], np.int32))
        return b.op("TRANSPOSE", [made, first], name="y")

    _, proto = written(model_of(net, (1, 8, 5, 5)))
    assert kinds(proto) == {"Conv": 1}


def quantised(dtype: DType = DType.INT8) -> Model:
    """Two layers and a dense one, of whole numbers, with scales of channels."""
    generator = np.random.default_rng(5)
    zero = {DType.INT8: 3, DType.UINT8: 131, DType.INT16: 0}[dtype]
    wide = DType.INT64 if dtype is DType.INT16 else DType.INT32

    def q(scale: float) -> Quantization:
        return Quantization.per_tensor(scale if dtype is not DType.INT16 else scale / 256, zero)

    b = builder()
    x = b.input("x", dtype, IMAGE, q(0.05))
    made = x
    for index in range(2):
        scales = np.linspace(0.01, 0.02, 4) if dtype is not DType.UINT8 else [0.01]
        stored = generator.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
        if dtype is DType.UINT8:
            weight = b.constant(
                f"w{index}", (stored.view(np.uint8) ^ 128), Quantization.per_tensor(0.01, 128)
            )
        else:
            weight = b.constant(f"w{index}", stored, Quantization.per_channel(scales, 0))
        bias = b.constant(f"b{index}", generator.integers(-900, 900, 4).astype(wide.numpy))
        attrs = Conv2DAttrs(SAME_UPPER, activation="RELU6")
        made = b.op("CONV_2D", [made, weight, bias], attrs, name=f"conv{index}", quant=q(0.05))
    both = b.op("CONCATENATION", [made, made], ConcatenationAttrs(3), name="both", quant=q(0.05))
    return b.output(both).model()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
def test_whole_numbers_stay_within_a_step(dtype: DType) -> None:
    model = quantised(dtype)
    limits = np.iinfo(dtype.name.lower())
    image = np.random.default_rng(1).integers(limits.min, limits.max, IMAGE).astype(dtype.numpy)
    (wanted,) = reference(model, image)
    data, proto = written(model)
    assert kinds(proto)["QuantizeLinear"] == 2
    assert kinds(proto)["Transpose"] == 2
    answers = [reference(data, image)]
    if find_spec("onnxruntime") is not None:
        answers.append(onnx_written.session(data).run(None, {"x": image}))
    for (got,) in answers:
        assert got.dtype == wanted.dtype
        assert np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max() <= (
            4 if dtype is DType.INT16 else 2
        )


@NEEDS_ENGINE
def test_an_engine_fuses_them_into_integer_layers(tmp_path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    onnxruntime.InferenceSession(dumps(quantised(), "onnx"), options, ["CPUExecutionProvider"])
    assert kinds(onnx.load(tmp_path / "fused.onnx"))["QLinearConv"] == 2


@pytest.mark.smoke
def test_names_and_origins_survive_there_and_back() -> None:
    model = model_of(chain)
    _, proto = written(model, origins=True)
    names = [node.name for node in proto.graph.node]
    assert len(set(names)) == len(names)
    assert {"left", "right", "sum", "made"} <= set(names)
    stated = {e.key: e.value for n in proto.graph.node if n.name == "sum" for e in n.metadata_props}
    (op,) = [op for op in model.main.ops if op.name == "sum"]
    assert json.loads(stated[ORIGIN]) == [[op.origin.sources[0].id, "sum"]]
    again = circlet.load(dumps(model, "onnx"))
    sources = {s for op in model.main.ops for s in op.origin.sources}
    assert {s for op in again.main.ops for s in op.origin.sources} == sources


def test_a_damaged_origin_is_an_error() -> None:
    _, proto = written(model_of(chain), origins=True)
    proto.graph.node[0].metadata_props[0].value = "[[1]]"
    with pytest.raises(FormatError, match="origin is damaged"):
        circlet.load(proto.SerializeToString())


def test_open_sizes_signatures_and_metadata_come_along() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (None, 4))
    x.dim_names = ("batch", "")
    y = b.input("y", DType.FLOAT32, (None, None))
    made = b.op("ADD", [x, y], name="sum", shape=(None, 4))
    model = b.output(made).model("serve", {"text": b"words", "bytes": b"\xff\x00"})
    model.description = "what it is for"
    data, proto = written(model)
    sizes = [
        [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim]
        for i in proto.graph.input
    ]
    assert sizes == [["batch", 4], ["y_0", "y_1"]]
    again = circlet.load(data)
    assert again.description == "what it is for"
    assert {k: v.tobytes() for k, v in again.metadata.items()} == {
        "text": b"words",
        "bytes": b"\xff\x00",
    }
    (signature,) = again.signatures
    assert (signature.key, list(signature.inputs)) == ("serve", ["x", "y"])
    assert signature.outputs["sum"] is again.main.outputs[0]


def test_names_that_are_missing_or_the_same_become_names_of_their_own() -> None:
    b = builder()
    x = b.input("same", DType.FLOAT32, (3,))
    made = b.op("NEG", [b.op("ABS", [x], name="same")], name="same")
    made.name = ""
    data, proto = written(b.output(made, x).model())
    ends = [*proto.graph.input, *proto.graph.output]
    assert len({end.name for end in ends}) == len(ends)
    first, second = reference(data, np.array([1, -2, 3], np.float32))
    assert first.tolist() == [-1, -2, -3]
    assert second.tolist() == [1, -2, 3]


def test_all_that_cannot_be_said_is_named_at_once() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    state = b.variable("state", DType.FLOAT32, (2, 3))
    first = b.op("ADD", [x, state], name="with state")
    second = b.op("CUSTOM", [first], name="own", shape=(2, 3), custom_code="mine")
    with pytest.raises(FormatError, match="cannot be put into operators of ONNX") as caught:
        dumps(b.output(second).model(), "onnx")
    assert [why.partition(":")[0] for why in caught.value.reasons] == [
        "with state (ADD)",
        "own (CUSTOM",
    ]
    assert "state" in caught.value.why


def branches(kind: str) -> Model:
    """x doubled or negated by a flag; or doubled until it is 100 or more."""
    b = builder()
    x = b.input("x", DType.FLOAT32, ())
    inside = []
    for index, name in enumerate(("first", "second")):
        inner = builder(name, 10 + 10 * index)
        given = inner.input("given", DType.FLOAT32, ())
        if kind == "WHILE" and index == 0:
            limit = inner.constant("limit", np.float32(100))
            made = inner.op("LESS", [given, limit], name="going", dtype=DType.BOOL)
        elif index == 0:
            made = inner.op("NEG", [given], name="negated")
        else:
            made = inner.op("ADD", [given, given], name="doubled")
        inside.append(inner.output(made).build())
    given_all = [x]
    if kind == "IF":
        zero = b.constant("zero", np.float32(0))
        given_all.insert(0, b.op("LESS", [x, zero], name="flag", dtype=DType.BOOL))
    made = b.op(kind, given_all, name="made", dtype=DType.FLOAT32, shape=())
    b.graph.ops[-1].regions = inside
    model = b.output(made).model()
    return Model([*model.graphs, *inside])


@pytest.mark.parametrize(
    ("kind", "given", "wanted"),
    [("IF", -3.0, 3.0), ("IF", 4.0, 8.0), ("WHILE", 3.0, 192.0), ("WHILE", 300.0, 300.0)],
)
def test_branches_and_loops(kind: str, given: float, wanted: float) -> None:
    data, _ = written(branches(kind))
    x = np.array(given, np.float32)
    assert reference(data, x)[0] == wanted
    if find_spec("onnxruntime") is not None:
        assert onnx_written.session(data).run(None, {"x": x})[0] == wanted


def test_weights_of_half_precision_stay_so_and_are_laid_out() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, IMAGE)
    half = b.constant("w", weights(5, 3, 3, 4).astype(np.float16))
    wide = b.op("DEQUANTIZE", [half], name="wide", dtype=DType.FLOAT32)
    made = b.op("CONV_2D", [x, wide, None], Conv2DAttrs(SAME_UPPER), name="y")
    data, proto = written(b.output(made).model())
    (weight,) = proto.graph.initializer
    assert (weight.data_type, list(weight.dims)) == (onnx.TensorProto.FLOAT16, [5, 4, 3, 3])
    assert kinds(proto)["Transpose"] == 2
    image = weights(*IMAGE)
    np.testing.assert_allclose(reference(data, image)[0], reference(b.model(), image)[0], atol=1e-4)


def test_layers_of_float_inputs_and_whole_weights_are_written_as_products_of_floats() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 4))
    stored = b.constant(
        "w", np.array([[1, 2, 3, 4], [0, 0, 0, -4]], np.int8), Quantization.per_tensor(0.5)
    )
    made = b.op("FULLY_CONNECTED", [x, stored, None], FullyConnectedAttrs(), name="y")
    data, _ = written(b.output(made).model())
    got = reference(data, np.array([[1, 0, 0, 1], [0, 2, 0, 0]], np.float32))[0]
    assert got.tolist() == [[2.5, -2.0], [2.0, 0.0]]


def test_an_operator_of_an_onnx_file_goes_back_as_it_came() -> None:
    nodes = [
        onnx.helper.make_node("Erf", ["x"], ["a"], name="my Erf"),
        onnx.helper.make_node("Selu", ["a"], ["y"], name="my Selu", alpha=2.0),
    ]
    ends = [[onnx.helper.make_tensor_value_info(n, 1, [2, 3])] for n in "xy"]
    proto = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", *ends), ir_version=10)
    model = circlet.load(proto.SerializeToString())
    data, again = written(model)
    image = weights(2, 3)
    np.testing.assert_array_equal(reference(data, image)[0], reference(model, image)[0])
    assert again.graph.node[0].name == "my Erf"


def test_integer_convolutions_go_back_with_channels_first() -> None:
    """Their images are read as NHWC."""
    filters = np.random.default_rng(3).integers(-128, 128, (5, 4, 3, 3)).astype(np.int8)
    zero = np.array(7, np.uint8)
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "z"], ["y"], pads=[1, 1, 0, 2])
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [2, 4, 6, 5])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [2, 5, 5, 6])],
        [onnx.numpy_helper.from_array(filters, "w"), onnx.numpy_helper.from_array(zero, "z")],
    )
    proto = onnx.helper.make_model(graph, ir_version=10)
    model = circlet.load(proto.SerializeToString())
    assert [op.label for op in model.graphs[0].ops].count("CUSTOM:onnx.NhwcConvInteger") == 1
    data, again = written(model)
    assert kinds(again) == Counter({"ConvInteger": 1})
    image = np.random.default_rng(4).integers(0, 256, (2, 4, 6, 5)).astype(np.uint8)
    from onnx.reference import ReferenceEvaluator

    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": image})
    for own in (model, data):
        np.testing.assert_array_equal(reference(own, image)[0], wanted)


def test_graphs_that_run_each_other_again_and_again_are_bounded() -> None:
    b = builder("innermost", 1000)
    graphs = [b.output(b.op("NEG", [b.input("x", DType.FLOAT32, ())], name="n")).build()]
    for depth in range(40):
        b = builder(f"depth {depth}", 10 * depth)
        x = b.input("x", DType.FLOAT32, ())
        zero = b.constant("zero", np.array(0, np.float32))
        flag = b.op("LESS", [x, zero], name="flag", dtype=DType.BOOL)
        made = b.op("IF", [flag, x], name="made", dtype=DType.FLOAT32, shape=())
        b.graph.ops[-1].regions = [graphs[0], graphs[0]]
        graphs.insert(0, b.output(made).build())
    with pytest.raises(LimitError, match="too many operators"):
        dumps(Model(graphs), "onnx")


def test_scales_that_mean_nothing_are_refused() -> None:
    b = builder()
    x = b.input("x", DType.INT8, (4,), Quantization.per_tensor(0.0))
    made = b.op("DEQUANTIZE", [x], name="real", dtype=DType.FLOAT32)
    with pytest.raises(FormatError) as caught:
        dumps(b.output(made).model(), "onnx")
    assert "scales that are no positive numbers" in caught.value.why


def test_an_empty_network_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        dumps(Model([Graph("nothing")]), "onnx")
    assert "no outputs" in caught.value.why
