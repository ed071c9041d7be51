"""ONNX networks whose sizes are open in the file: settled by a session, they run natively."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from circlet.compiler.planning import PlannedModel, plan
from circlet.compiler.template import Template
from circlet.options import Options

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from tests.formats.test_onnx import helper, model, node  # noqa: E402  (it needs onnx)

Constants = dict[str, np.ndarray]


def typed(data: bytes, name: str, number: int) -> bytes:
    """A model whose input or output of a name has elements of another type."""
    made = onnx.ModelProto.FromString(data)
    for value in (*made.graph.input, *made.graph.output):
        if value.name == name:
            value.type.tensor_type.elem_type = number
    return bytes(made.SerializeToString())


def planned(data: bytes, **shapes: tuple[int, ...]) -> PlannedModel:
    """The plan of a session for sizes; nothing is compiled."""
    options = Options(("cpu", "reference"), shapes=tuple(shapes.items()), cache=False)
    return plan(Template.read(data, options), options)


def left(data: bytes, **shapes: tuple[int, ...]) -> list[str]:
    """The operators that native code does not take, for sizes."""
    return [
        f"{r.op.label}: {r.refused}" for r in planned(data, **shapes).placed if r.backend != "cpu"
    ]


def peer(data: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    """What ONNX Runtime answers."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return list(session.run(None, dict(zip(names, inputs, strict=True))))


def resize(mode: str, where: str) -> bytes:
    """`y = Relu(Conv(Resize(x)))` of images of open sizes, twice as large."""
    weights = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    constants: Constants = {"none": np.zeros(0, np.float32), "w": weights}
    constants["scales"] = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        node("Resize", "x none scales", "a", mode=mode, coordinate_transformation_mode=where),
        node("Conv", "a w", "b", pads=[1, 1, 1, 1]),
        node("Relu", "b", "y"),
    ]
    sizes = ["batch", 3, "height", "width"]
    return model(nodes, {"x": sizes}, {"y": ["batch", 4, "tall", "wide"]}, constants)


def resized(**attributes: Any) -> bytes:
    """A Resize of open sizes, to some sizes."""
    constants: Constants = {
        "none": np.zeros(0, np.float32),
        "sizes": np.array([2, 3, 7, 9], np.int64),
    }
    made = node("Resize", "x none none sizes", "y", **attributes)
    return model([made], {"x": ["n", 3, "height", "width"]}, {"y": ["n", 3, 7, 9]}, constants)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("factors", [(2, 2), (1, 4), (32, 8)], ids=str)
@pytest.mark.parametrize(
    "attributes",
    [
        {
            "mode": "nearest",
            "nearest_mode": "floor",
            "coordinate_transformation_mode": "asymmetric",
        },
        {"mode": "nearest"},
        {"mode": "linear"},
        {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    ],
    ids=str,
)
def test_images_of_bytes_grow_natively_to_the_bit(
    attributes: dict[str, Any], factors: tuple[int, int], dtype: type[np.integer[Any]]
) -> None:
    constants: Constants = {"none": np.zeros(0, np.float32)}
    constants["scales"] = np.array([1, 1, *factors], np.float32)
    made = node("Resize", "x none scales", "y", **attributes)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    sizes = [2, 3, 5 * factors[0], 7 * factors[1]]
    data = model([made], {"x": [2, 3, 5, 7]}, {"y": sizes}, constants, dtype=kind)
    assert left(data) == []
    limits = np.iinfo(dtype)
    image = (
        np.random.default_rng(1).integers(limits.min, limits.max + 1, (2, 3, 5, 7)).astype(dtype)
    )
    session = circlet.Session(data, backends=["reference"], cache=False)
    (result,) = session.run([image]).values()
    np.testing.assert_array_equal(result, peer(data, image)[0])


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "cubic"},
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        {"mode": "nearest", "nearest_mode": "ceil"},
        {"mode": "nearest", "coordinate_transformation_mode": "align_corners"},
        {"mode": "linear", "antialias": 1},
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners", "exclude_outside": 1},
    ],
    ids=str,
)
def test_images_are_sampled_by_gathers_where_no_operator_of_circle_does(
    attributes: dict[str, Any],
) -> None:
    data = resized(**attributes)
    assert left(data, x=(2, 3, 5, 13)) == []
    image = np.random.default_rng(2).normal(size=(2, 3, 5, 13)).astype(np.float32)
    session = circlet.Session(data, backends=["reference"], cache=False, shapes={"x": image.shape})
    (result,) = session.run([image]).values()
    np.testing.assert_allclose(result, peer(data, image)[0], atol=1e-5)


def transposed() -> bytes:
    """A ConvTranspose of images of open sizes."""
    weights = np.random.default_rng(1).normal(size=(3, 4, 3, 3)).astype(np.float32)
    made = node("ConvTranspose", "x w", "y", strides=[2, 2], pads=[1, 1, 1, 1])
    sizes = ["batch", 3, "height", "width"]
    return model([made], {"x": sizes}, {"y": ["batch", 4, "tall", "wide"]}, {"w": weights})


def computed_sizes() -> bytes:
    """A batch that is flattened and spread again by sizes that are computed of its own."""
    constants: Constants = {
        "first": np.array([0], np.int64),
        "axes": np.array([0], np.int64),
        "tail": np.array([-1], np.int64),
        "weights": np.arange(4, dtype=np.float32),
    }
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes first", "batch", axis=0),
        node("ReduceProd", "sizes", "count", keepdims=0),
        node("Cast", "count", "real", to=1),
        node("Concat", "batch tail", "target", axis=0),
        node("Reshape", "x target", "flat"),
        node("Div", "flat real", "mean"),
        node("Expand", "weights sizes", "wide"),
        node("Reshape", "wide target", "wide_flat"),
        node("Add", "mean wide_flat", "y"),
    ]
    return model(nodes, {"x": ["n", 3, 4]}, {"y": ["n", "rest"]}, constants)


@pytest.mark.parametrize(
    "data",
    [resize("linear", "half_pixel"), resize("nearest", "asymmetric"), transposed()],
    ids=("linear", "nearest", "transposed"),
)
def test_images_of_open_sizes_are_lowered_once_a_session_settles_them(data: bytes) -> None:
    assert left(data, x=(2, 3, 5, 6)) == []
    image = np.random.default_rng(2).normal(size=(2, 3, 5, 6)).astype(np.float32)
    session = circlet.Session(data, backends=["reference"], cache=False, shapes={"x": image.shape})
    (result,) = session.run([image]).values()
    np.testing.assert_allclose(result, peer(data, image)[0], atol=1e-4)


def test_what_follows_from_sizes_alone_is_constant() -> None:
    data = computed_sizes()
    made = planned(data, x=(5, 3, 4))
    assert {row.op.kind for row in made.placed} <= {"RESHAPE", "DIV", "ADD", "MUL"}
    assert left(data, x=(5, 3, 4)) == []
    values = np.random.default_rng(3).normal(size=(5, 3, 4)).astype(np.float32)
    session = circlet.Session(data, backends=["reference"], cache=False)
    (result,) = session.run([values]).values()
    wide = np.tile(np.arange(4, dtype=np.float32), (5, 3)).reshape(5, 12)
    np.testing.assert_allclose(result, values.reshape(5, 12) / 60 + wide, rtol=1e-6)


def test_indices_become_rows_natively_those_from_the_end_too() -> None:
    constants: Constants = {
        "depth": np.array([4], np.int64),
        "values": np.array([-1, 2], np.float32),
    }
    nodes = [node("OneHot", "x depth values", "y", axis=1)]
    data = typed(model(nodes, {"x": ["n", "m"]}, {"y": ["n", 4, "m"]}, constants), "x", 7)
    assert left(data, x=(2, 3)) == []
    indices = np.array([[0, -1, 3], [4, -4, -5]], np.int64)
    session = circlet.Session(data, backends=["reference"], cache=False)
    (result,) = session.run([indices]).values()
    hot = np.array([[[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 1]], [[0, 1, 0], *[[0, 0, 0]] * 3]])
    np.testing.assert_array_equal(result, np.where(hot, 2, -1))


def scans() -> bytes:
    """Two running sums, one of the other, along sequences of an open length."""
    kinds = {"total": 1, "part": 1, "sum": 1, "row": 1}
    values = [helper.make_tensor_value_info(name, 1, [2]) for name in kinds]
    body = [node("Add", "total part", "sum"), node("Identity", "sum", "row")]
    inner = helper.make_graph(body, "turn", values[:2], values[2:])
    nodes = [
        node("Scan", "zero x", "last first", body=inner, num_scan_inputs=1),
        node("Scan", "zero first", "end y", body=inner, num_scan_inputs=1),
    ]
    constants = {"zero": np.zeros(2, np.float32)}
    return model(nodes, {"x": ["time", 2]}, {"y": ["time", 2], "end": [2]}, constants)


def test_scans_of_open_lengths_run_natively_one_after_the_other() -> None:
    data = scans()
    assert left(data, x=(5, 2)) == []
    values = np.arange(10, dtype=np.float32).reshape(5, 2)
    session = circlet.Session(data, backends=["reference"], cache=False)
    result, end = session.run([values]).values()
    np.testing.assert_array_equal(result, values.cumsum(0).cumsum(0))
    np.testing.assert_array_equal(end, result[-1])


def branching() -> bytes:
    """A choice by the rank of the batch: `y = x + 1` of one row, else `y = x`."""
    rows = helper.make_graph(
        [node("Add", "x one", "more")],
        "one row",
        [],
        [helper.make_tensor_value_info("more", 1, None)],
    )
    many = helper.make_graph(
        [node("Identity", "x", "same")],
        "many rows",
        [],
        [helper.make_tensor_value_info("same", 1, None)],
    )
    constants: Constants = {
        "first": np.array(0, np.int64),
        "one": np.array(1, np.float32),
    }
    nodes = [
        node("Shape", "x", "sizes"),
        node("Gather", "sizes first", "batch", axis=0),
        node("Cast", "one", "whole", to=7),
        node("Equal", "batch whole", "is_one"),
        node("If", "is_one", "y", then_branch=rows, else_branch=many),
    ]
    return model(nodes, {"x": ["n", 3]}, {"y": ["n", 3]}, constants)


@pytest.mark.parametrize(("batch", "more"), [(1, 1), (4, 0)])
def test_a_branch_that_sizes_choose_is_the_only_one(batch: int, more: int) -> None:
    data = branching()
    kinds = [row.op.kind for row in planned(data, x=(batch, 3)).placed]
    assert "IF" not in kinds
    assert left(data, x=(batch, 3)) == []
    values = np.arange(3 * batch, dtype=np.float32).reshape(batch, 3)
    session = circlet.Session(data, backends=["reference"], cache=False)
    (result,) = session.run([values]).values()
    np.testing.assert_array_equal(result, values + more)


def test_half_precision_at_the_edges_is_cast_natively() -> None:
    data = model([node("Relu", "x", "y")], {"x": ["n", 3]}, {"y": ["n", 3]})
    data = typed(typed(data, "x", 10), "y", 10)
    assert left(data, x=(2, 3)) == []


@pytest.mark.slow
def test_other_sizes_of_a_late_lowered_network_are_a_resize() -> None:
    data = resize("linear", "half_pixel")
    session = circlet.Session(data, cache=False, shapes={"x": (1, 3, 8, 8)})
    assert {row["backend"] for row in session.placement} == {"cpu"}
    for size in (10, 16):
        image = np.random.default_rng(size).normal(size=(1, 3, size, 8)).astype(np.float32)
        (result,) = session.run([image]).values()
        np.testing.assert_allclose(result, peer(data, image)[0], atol=1e-4)


def test_every_kind_keeps_what_is_known_of_its_sizes() -> None:
    """No record of the domain leaves all sizes open where constants and operands say them."""
    from circlet.ir import DType, Op, Origin, Tensor
    from circlet.ir.builder import constant
    from circlet.ops import get
    from circlet.ops.onnx.record import OnnxAttrs

    x = Tensor("x", DType.FLOAT32, (2, 3, 8, 6))

    def sizes(kind: str, *values: Any, outputs: int = 1, opset: int = 21, **attrs: Any) -> Any:
        operands = [
            x,
            *(
                v if isinstance(v, Tensor) or v is None else constant("c", np.array(v))
                for v in values
            ),
        ]
        results = [Tensor(f"y{i}", DType.FLOAT32, (), has_rank=False) for i in range(outputs)]
        known = OnnxAttrs(tuple(sorted(attrs.items())), opset)
        op = Op("CUSTOM", operands, results, known, Origin.of(0, kind), custom_code=f"onnx.{kind}")
        shapes = [inferred.shape for inferred in get(op).infer(op)]
        return shapes[0] if outputs == 1 else shapes

    assert sizes("Resize", None, np.array([1, 1, 2, 0.5], np.float32)) == (2, 3, 16, 3)
    assert sizes("Resize", None, None, [2, 3, 5, 7], mode="cubic") == (2, 3, 5, 7)
    assert sizes(
        "Resize", None, None, [4, 4], axes=(2, 3), keep_aspect_ratio_policy="not_larger"
    ) == (2, 3, 4, 3)
    assert sizes("Upsample", np.array([1, 1, 3, 3], np.float32), opset=9) == (2, 3, 24, 18)
    assert sizes("Slice", [1, -1], [8, -100], [2, 3], [2, -2]) == (2, 3, 4, 3)
    assert sizes("Pad", [1, 0, 0, -1, 2, 0, 0, 0]) == (5, 3, 8, 5)
    assert sizes("Split", None, outputs=2, axis=2) == [(2, 3, 4, 6)] * 2
    assert sizes("Split", [1, 5], outputs=2, axis=-1) == [(2, 3, 8, 1), (2, 3, 8, 5)]
    assert sizes("Reshape", [0, -1, 6]) == (2, 24, 6)
    assert sizes("Reshape", [0, 5], allowzero=1) == (0, 5)
    assert sizes("Expand", [4, 1, 3, 1, 6]) == (4, 2, 3, 8, 6)
    assert sizes("Tile", [1, 2, 1, 3]) == (2, 6, 8, 18)
    assert sizes("TopK", [4], outputs=2, axis=2) == [(2, 3, 4, 6)] * 2
    assert sizes("GatherND", np.zeros((5, 2), np.int64)) == (5, 8, 6)
    assert sizes("Unsqueeze", [0, -1]) == (1, 2, 3, 8, 6, 1)
    assert sizes("ArgMax", axis=1, keepdims=0) == (2, 8, 6)
    assert sizes("NonZero") == (4, None)
    assert sizes("MatMul", Tensor("y", DType.FLOAT32, (6, 9))) == (2, 3, 8, 9)
    assert sizes("Einsum", Tensor("y", DType.FLOAT32, (6, 5)), equation="bchw,wk->bkc") == (2, 5, 3)
    assert sizes("DepthToSpace", blocksize=1) == (2, 3, 8, 6)
    assert sizes("GridSample", Tensor("g", DType.FLOAT32, (2, 4, 5, 2))) == (2, 3, 4, 5)
    assert sizes("CenterCropPad", [4, 9], axes=(2, 3)) == (2, 3, 4, 9)
    assert sizes("Transpose", perm=(0, 2, 3, 1)) == (2, 8, 6, 3)


def test_a_mask_over_a_past_and_new_words_is_as_long_as_both() -> None:
    """A decoder whose mask has a size of its own, which no single size for all inputs fits."""
    nodes = [
        node("Concat", "past new", "all", axis=1),
        node("Shape", "all", "length", start=1),
        node("Squeeze", "length", "count"),
        node("Range", "zero count one", "places"),
        node("Gather", "mask places", "seen", axis=1),
        node("Mul", "all seen", "y"),
    ]
    inputs = {"past": ["n", "past"], "new": ["n", "words"], "mask": ["n", "all words"]}
    data = model(nodes, inputs, {"y": ["n", "m"]}, {"zero": np.array(0), "one": np.array(1)})
    session = circlet.Session(data, cache=False)
    assert [value.shape for value in session.inputs] == [(1, 1), (1, 1), (1, 2)]
    past, new, mask = (np.arange(2 * n, dtype=np.float32).reshape(2, n) for n in (3, 2, 5))
    got = session.run([past, new, mask])
    for mine, other in zip(got.values(), peer(data, past, new, mask), strict=True):
        np.testing.assert_array_equal(mine, other)


def masked(axes: int) -> list[Any]:
    """`x[flags]` as PyTorch's exporter writes it for flags of so many axes."""
    places = [f"p{axis}" for axis in range(axes)]
    spread = " ".join(places)
    parts = [
        node("NonZero", "flags", "found"),
        node("Transpose", "found", "points", perm=[1, 0]),
        node("Split", "points", spread.replace("p", "c"), axis=1, num_outputs=axes),
        *(node("Squeeze", f"{p.replace('p', 'c')} one", p) for p in places),
        node("Max", spread, "most"),
        node("Shape", "most", "sizes"),
        *(node("Expand", f"{p} sizes", f"{p}e") for p in places),
        *(node("Unsqueeze", f"{p}e last", f"{p}u") for p in places),
    ]
    joined = node("Concat", " ".join(f"{p}u" for p in places), "at", axis=-1)
    return [*parts, joined, node("GatherND", "x at", "kept")]


@pytest.mark.parametrize("axes", [1, 2])
def test_what_a_mask_keeps_is_native_and_may_be_indexed_again(axes: int) -> None:
    nodes = [
        node("Greater", "scores half", "flags"),
        *masked(axes),
        node("GatherND", "kept behind", "y"),
    ]
    sizes = [3, 4, 5][3 - axes - 1 :]
    constants: Constants = {"half": np.array(0.5, np.float32), "one": np.array([1])}
    constants |= {"last": np.array([-1]), "behind": np.array([[-1], [0]])}
    inputs: dict[str, list[Any]] = {"x": sizes, "scores": sizes[:-1]}
    for number, each in enumerate(nodes):
        each.name = f"{number}"
    data = model(nodes, inputs, {"y": [2, 5], "kept": ["n", 5]}, constants)
    assert left(data) == []
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    scores = np.linspace(0, 1, x[..., 0].size, dtype=np.float32).reshape(sizes[:-1])
    session = circlet.Session(data, cache=False)
    for mine, other in zip(session.run([x, scores]).values(), peer(data, x, scores), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_boxes_of_each_class_of_what_a_run_finds_are_native(kept: int) -> None:
    """As detectors of two stages decode them: steps along columns, classes counted by a shape."""
    nodes = [
        node("Greater", "scores half", "flags"),
        node("Compress", "x flags", "found", axis=0),
        node("Shape", "found", "sizes"),
        node("Gather", "sizes zero", "count"),
        node("Gather", "sizes one", "width"),
        node("Slice", "found zeros large ones step", "left"),
        node("Concat", "count rest", "target", axis=0),
        node("Unsqueeze", "left two", "pairs"),
        node("Flatten", "pairs", "flat"),
        node("Reshape", "flat target", "y"),
        node("Squeeze", "width", "columns"),
        node("Range", "first columns next", "places"),
        node("Expand", "places sizes", "z"),
    ]
    for number, each in enumerate(nodes):
        each.name = f"{number}"
    one = {name: np.array([n]) for name, n in {"zero": 0, "one": 1, "large": 1 << 40}.items()}
    more = {name: np.array([n]) for name, n in {"zeros": 0, "ones": 1, "step": 2}.items()}
    constants: Constants = {**one, **more, "half": np.array(0.5, np.float32)}
    constants |= {"rest": np.array([-1, 2]), "two": np.array([2])}
    constants |= {"first": np.array(0), "next": np.array(1)}
    outputs = {"y": ["n", 2, 2], "z": ["n", 8]}
    data = typed(model(nodes, {"x": [4, 8], "scores": [4]}, outputs, constants), "z", 7)
    assert left(data) == []
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    scores = (np.arange(4) < kept).astype(np.float32)
    got = circlet.Session(data).run([x, scores])
    for mine, other in zip(got.values(), peer(data, x, scores), strict=True):
        np.testing.assert_array_equal(mine, other)
