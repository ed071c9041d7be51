"""Reading .onnx: small models made here, external data, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.errors import (
    CircletError,
    FileError,
    FormatError,
    GraphError,
    LimitError,
    UnsupportedOpsError,
)
from circlet.formats import load
from circlet.formats.convert import convert
from circlet.formats.onnx.skeleton import skeleton
from circlet.ir import DType, Op, Origin, Tensor
from circlet.limits import Limits
from circlet.ops import get
from circlet.ops.build import builder
from circlet.ops.onnx.record import OnnxAttrs

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper = onnx.helper
FLOAT = 1


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 21,
    dtype: int = FLOAT,
) -> bytes:
    """A model whose inputs and outputs, of one type, have some sizes."""
    stored = [onnx.numpy_helper.from_array(a, name) for name, a in (constants or {}).items()]
    ends = [
        [helper.make_tensor_value_info(name, dtype, sizes) for name, sizes in side.items()]
        for side in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "main", *ends, initializer=stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("other", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


def run(data: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    session = circlet.Session(data, backends=["reference"], cache=False)
    return list(session.run(list(inputs)).values())


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=f"my {kind}", **attributes)


def convolution(weights: np.ndarray) -> bytes:
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Conv", "b w", "y", pads=[1, 1, 1, 1]),
    ]
    return model(nodes, {"x": ["batch", 4, 6, 6]}, {"y": ["batch", 4, 6, 6]}, {"w": weights})


def test_names_of_sizes_and_of_operators_are_kept() -> None:
    read = circlet.load(convolution(np.zeros((4, 4, 3, 3), np.float32)))
    assert read.source_format == "onnx"
    assert read.main.inputs[0].shape == (None, 4, 6, 6)
    assert read.main.inputs[0].dim_names == ("batch", "", "", "")
    assert {op.name for op in read.main.ops} == {"my Conv", "my Relu"}


def test_a_convolutional_network_has_no_transpose_inside() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype(np.float32)
    session = circlet.Session(convolution(weights), backends=["reference"], cache=False)
    kinds = [row["kind"] for row in session.placement]
    assert kinds.count("TRANSPOSE") == 2  # NCHW at both borders
    assert kinds[0] == kinds[-1] == "TRANSPOSE"


def test_large_constants_are_views_into_the_file() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 4, 3, 3)).astype(np.float32)
    data = convolution(np.tile(weights, (4, 1, 1, 1))[:, :, :, :])
    view = memoryview(data)
    small, views = skeleton(view)
    assert len(small) < 1000
    assert [np.shares_memory(np.frombuffer(v, "u1"), np.frombuffer(view, "u1")) for v in views]


def test_large_constants_may_state_that_they_are_in_the_file() -> None:
    """As ONNX Runtime's quantiser writes them, behind the elements."""
    weights = np.arange(4 * 4 * 9, dtype=np.float32).reshape(4, 4, 3, 3).repeat(4, 0)
    proto = onnx.load_from_string(convolution(weights[:4]))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "large"))
    proto.graph.initializer[-1].data_location = onnx.TensorProto.DEFAULT
    proto.graph.node.append(node("Identity", "large", "z"))
    proto.graph.output.append(helper.make_tensor_value_info("z", FLOAT, weights.shape))
    made = run(proto.SerializeToString(), np.zeros((1, 4, 6, 6), np.float32))
    np.testing.assert_array_equal(made[-1], weights)


def test_a_constant_that_is_an_input_too_is_not_asked_for() -> None:
    data = model(
        [node("Add", "x c", "y")], {"x": [2], "c": [2]}, {"y": [2]}, {"c": np.ones(2, np.float32)}
    )
    (y,) = run(data, np.zeros(2, np.float32))
    np.testing.assert_array_equal(y, [1, 1])


@pytest.mark.parametrize(("opset", "axis_sums"), [(11, 1.0), (13, 3.0)])
def test_softmax_means_what_its_operator_set_says(opset: int, axis_sums: float) -> None:
    data = model(
        [node("Softmax", "x", "y", axis=1)], {"x": [1, 2, 3]}, {"y": [1, 2, 3]}, opset=opset
    )
    (y,) = run(data, np.zeros((1, 2, 3), np.float32))
    assert y.sum() == pytest.approx(axis_sums)


def test_computed_shapes_disappear() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n rest", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    constants = {"i": np.array([0]), "rest": np.array([-1])}
    data = model(nodes, {"x": [2, 3, 4]}, {"y": [2, 12]}, constants)
    assert [op.kind for op in circlet.load(data).main.ops] == ["RESHAPE"]


def test_a_kind_that_circle_lacks_is_stored_and_read_again(tmp_path: Path) -> None:
    data = model([node("LRN", "x", "y", size=2)], {"x": [1, 4, 2, 2]}, {"y": [1, 4, 2, 2]})
    source, stored = tmp_path / "a.onnx", tmp_path / "a.circle"
    source.write_bytes(data)
    convert(source, stored)
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2)
    np.testing.assert_array_equal(run(stored.read_bytes(), x)[0], run(data, x)[0])
    assert circlet.load(stored).main.ops[0].label == "CUSTOM:onnx.LRN"


def test_a_branch_that_never_runs_is_left_out_and_others_are_graphs() -> None:
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(kind, "x", f"{name}_y")],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_y", FLOAT, [2])],
        )
        for name, kind in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0),
        node("Greater", "s zero", "c"),
        node("If", "c", "y", **branches),
    ]
    data = model(nodes, {"x": [2]}, {"y": [2]}, {"zero": np.zeros((), np.float32)})
    np.testing.assert_array_equal(run(data, np.array([1, 2], np.float32))[0], [-1, -2])
    np.testing.assert_array_equal(run(data, np.array([-1, -2], np.float32))[0], [1, 2])


def external(folder: Path, location: str, size: int = 16) -> Path:
    data = model([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]}, {"w": np.ones(4, np.float32)})
    proto = onnx.ModelProto.FromString(data)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in (("location", location), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_is_read_beside_the_model_and_not_cached(tmp_path: Path) -> None:
    path, beside = external(tmp_path, "w.bin"), tmp_path / "w.bin"
    for value in (1.0, 2.0):
        beside.write_bytes(np.full(4, value, np.float32).tobytes())
        session = circlet.Session(path, backends=["reference"])
        (y,) = session.run([np.zeros(4, np.float32)]).values()
        np.testing.assert_array_equal(y, np.full(4, value))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w.bin", "", "link/w.bin"])
def test_external_data_outside_of_the_folder_is_never_opened(tmp_path: Path, location: str) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "link").symlink_to(tmp_path)
    with pytest.raises(FormatError, match="outside of the model's folder"):
        circlet.load(external(inner, location))


def test_external_data_that_is_missing_or_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        circlet.load(external(tmp_path, "w.bin"))
    (tmp_path / "w.bin").write_bytes(bytes(7))
    with pytest.raises(FormatError, match="ends too early"):
        circlet.load(external(tmp_path, "w.bin"))


def test_all_operators_that_are_not_known_are_named() -> None:
    nodes = [
        helper.make_node("Strange", ["x"], ["a"], name="one", domain="other"),
        helper.make_node("Odd", ["a"], ["b"], name="skipped", domain="other"),
        helper.make_node("Stranger", ["x"], ["y"], name="two", domain="other"),
    ]
    with pytest.raises(UnsupportedOpsError) as caught:
        circlet.load(model(nodes, {"x": [1]}, {"y": [1]}))
    assert [entry.source for entry in caught.value.entries] == ["one", "two"]


@pytest.mark.parametrize("opset", [1, 9999])
def test_operator_sets_that_are_not_read_are_refused(opset: int) -> None:
    data = model([node("Relu", "x", "y")], {"x": [1]}, {"y": [1]}, opset=opset)
    with pytest.raises(FormatError, match=f"operator set {opset}"):
        circlet.load(data)


def test_a_node_of_more_outputs_than_its_operator_has_is_refused() -> None:
    nodes = [node("MaxPool", "x", "y indices more", kernel_shape=[1, 1])]
    with pytest.raises(GraphError, match=r"output 3 of at most 2|contradict"):
        load(model(nodes, {"x": [1, 2, 4, 4]}, {"y": [1, 2, 4, 4]}))


def test_an_operator_without_an_operand_that_it_needs_is_refused() -> None:
    match = helper.make_node("RegexFullMatch", [""], ["y"], name="match", pattern="a")
    with pytest.raises(GraphError, match=r"match \(RegexFullMatch\)") as caught:
        load(model([match], {"x": [1]}, {"y": [1]}))
    assert caught.value.why == "0, X"


@pytest.mark.parametrize("side", ["inputs", "outputs", "values"])
def test_negative_sizes_are_open(side: str) -> None:
    nodes = [node("Neg", "x", "z"), node("Neg", "z", "y")]
    proto = onnx.ModelProto.FromString(model(nodes, {"x": [1, 2]}, {"y": [1, 2]}))
    stated = helper.make_tensor_value_info("z", FLOAT, [1, -7])
    proto.graph.value_info.append(stated)
    tensor = {"inputs": proto.graph.input, "outputs": proto.graph.output}.get(side, [stated])[0]
    tensor.type.tensor_type.shape.dim[1].dim_value = -1
    read = load(proto.SerializeToString()).main
    assert read.inputs[0].shape == ((1, None) if side == "inputs" else (1, 2))


def test_negative_sizes_inside_of_branches_are_open() -> None:
    inner = helper.make_node("Neg", ["x"], ["z"])
    stated = helper.make_tensor_value_info("z", FLOAT, [-1, -1])
    branch = helper.make_graph([inner], "branch", [], [stated])
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    data = model([chosen], {"c": [1], "x": [1, 2]}, {"y": [1, 2]})
    proto = onnx.ModelProto.FromString(data)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    assert load(proto.SerializeToString()).main.ops[-1].regions[0].outputs[0].shape == (1, 2)


@pytest.mark.parametrize("mode", ["edge", "reflect", "constant"])
def test_padding_by_less_than_nothing_cuts(mode: str) -> None:
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    pads = np.array([1, -1, -2, 2], np.int64)
    data = model([node("Pad", "x p", "y", mode=mode)], {"x": [4, 5]}, {"y": None}, {"p": pads})
    (got,) = run(data, x)
    np.testing.assert_array_equal(got, np.pad(x[:-2, 1:], ((1, 0), (0, 2)), mode))  # type: ignore[call-overload]
    assert all(part.backend == "cpu" for part in circlet.Session(data).opened.partitions)


def test_an_operator_that_names_more_outputs_than_it_gives_is_refused() -> None:
    b, x = builder(), np.ones((1, 2, 4, 4), np.float32)
    given = b.input("x", DType.FLOAT32, x.shape)
    names = [Tensor(name, DType.FLOAT32, x.shape) for name in "abc"]
    attrs = OnnxAttrs((("kernel_shape", (1, 1)),), 12)
    pool = Op("CUSTOM", [given], names, attrs, Origin.of(0, "pool"), custom_code="onnx.MaxPool")
    with pytest.raises(GraphError, match="gives fewer outputs"):
        get(pool).evaluate(pool, [x])


def test_a_window_over_a_constant_of_another_rank_ends_in_a_code() -> None:
    nodes = [node("MaxPool", "c", "y", kernel_shape=[2, 2])]
    data = model(nodes, {}, {"y": None}, {"c": np.ones((4, 4), np.float32)})
    with pytest.raises(GraphError):
        run(data)


def test_types_that_take_more_memory_than_there_is_end_in_a_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hungry(*_: object, **__: object) -> None:
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("onnx.shape_inference.infer_shapes", hungry)
    with pytest.raises(LimitError, match="not enough memory"):
        load(model([node("Relu", "x", "y")], {"x": [2]}, {"y": [2]}))


def test_limits_hold() -> None:
    data = convolution(np.zeros((4, 4, 3, 3), np.float32))
    with pytest.raises(LimitError, match="too many operators"):
        circlet.load(data, Limits(ops=2))
    with pytest.raises(LimitError, match="larger than allowed"):
        circlet.load(data, Limits(tensor_bytes=100))


@pytest.mark.parametrize("seed", range(3))
def test_damage_ends_in_a_coded_error(seed: int) -> None:
    original = convolution(np.zeros((4, 4, 3, 3), np.float32))
    rng = np.random.default_rng(seed)
    for _ in range(60):
        damaged = np.frombuffer(original, np.uint8).copy()
        places = rng.integers(0, len(damaged), rng.integers(1, 12))
        damaged[places] = rng.integers(0, 256, len(places))
        try:
            circlet.load(b"\x08" + damaged.tobytes()[1:])
        except CircletError as error:
            assert error.code.startswith("E-")


def test_operators_that_the_standard_writes_as_functions_take_constants() -> None:
    x = np.random.default_rng(3).standard_normal((2, 4, 3, 5)).astype(np.float32)
    factor, offset = np.arange(1, 5, dtype=np.float32), np.arange(4, dtype=np.float32)
    layer = node("GroupNormalization", "x factor offset", "y", num_groups=2)
    constants = {"factor": factor, "offset": offset}
    (got,) = run(model([layer], {"x": x.shape}, {"y": x.shape}, constants), x)
    groups = x.reshape(2, 2, -1)
    spread = np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    normal = ((groups - groups.mean(-1, keepdims=True)) / spread).reshape(x.shape)
    wanted = normal * factor[:, None, None] + offset[:, None, None]
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_nodes_may_stand_ahead_of_what_they_read() -> None:
    """Those in a branch count too."""
    branch = helper.make_graph(
        [node("Add", "c c", "d")], "branch", [], [helper.make_tensor_value_info("d", FLOAT, [2])]
    )
    chosen = node("If", "yes", "y", then_branch=branch, else_branch=branch)
    nodes = [chosen, node("Mul", "b x", "c"), node("Add", "x x", "b")]
    data = model(nodes, {"x": [2]}, {"y": [2]}, {"yes": np.array(True)})
    assert run(data, np.array([1, 2], np.float32))[0].tolist() == [4, 16]


def test_nodes_that_read_each_other_are_refused() -> None:
    nodes = [node("Add", "b x", "y"), node("Add", "y x", "b")]
    with pytest.raises(GraphError, match="reads a value that nothing before it gives"):
        circlet.load(model(nodes, {"x": [2]}, {"y": [2]}))


def test_operators_of_their_own_record_are_native_in_half_precision() -> None:
    data = model([node("Erf", "x", "a"), node("Neg", "a", "y")], {"x": [5]}, {"y": [5]}, dtype=10)
    session = circlet.Session(data, cache=False, strict=True)
    x = np.linspace(-2, 2, 5, dtype=np.float16)
    got = session.run([x])["y"]
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, run(data, x)[0], atol=1e-3)
    assert got[3] == np.float16(-0.8427)
