"""Loops, sequences and small element types of .onnx files, beyond what ONNX's own cases ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from circlet.errors import FormatError, UnsupportedOpsError
from circlet.formats import load
from circlet.ir import DType
from circlet.ir.builder import constant
from circlet.ir.packed import unpacked

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
helper = onnx.helper
FLOAT, INT64, BOOL, INT4 = 1, 7, 9, 22
X = np.arange(6, dtype=np.float32).reshape(3, 2)


def value(name: str, kind: int, sizes: list[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, kind, sizes)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, name=f"my {kind}", **attributes)


def file(nodes: list[Any], inputs: list[Any], outputs: list[Any], *stored: Any) -> bytes:
    graph = helper.make_graph(nodes, "main", inputs, outputs, initializer=list(stored))
    opsets = [helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


def number(name: str, array: Any, dtype: Any = np.int64) -> Any:
    return onnx.numpy_helper.from_array(np.array(array, dtype), name)


def run(data: bytes, *inputs: np.ndarray, backend: str = "reference") -> list[np.ndarray]:
    backends = ("cpu", "reference") if backend == "cpu" else ("reference",)
    session = circlet.Session(data, backends=backends, cache=False)
    return list(session.run(list(inputs)).values())


def counting(limit: str, inputs: list[Any], stored: list[Any]) -> bytes:
    """A loop that adds x until the sum passes 10, and gives each sum."""
    body = helper.make_graph(
        [
            node("Add", ["before", "x"], ["after"]),
            node("Less", ["after", "ten"], ["goes_on"]),
            node("Identity", ["after"], ["row"]),
        ],
        "body",
        [value("turn", INT64, []), value("on", BOOL, []), value("before", FLOAT, [])],
        [value("goes_on", BOOL, []), value("after", FLOAT, []), value("row", FLOAT, [])],
    )
    loop = node("Loop", [limit, "start", "zero"], ["last", "rows"], body=body)
    ends = [value("last", FLOAT, []), value("rows", FLOAT, ["n"])]
    constants = [number("ten", 10, np.float32), number("zero", 0, np.float32), *stored]
    return file([loop], [value("x", FLOAT, []), *inputs], ends, *constants)


@pytest.mark.parametrize("limit", ["", "known", "given"])
def test_a_loop_stops_where_its_condition_fails(limit: str) -> None:
    inputs = [value("given", INT64, [])] if limit == "given" else []
    stored = [number("start", True, np.bool_), number("known", 50)]
    given = [np.float32(4), np.array(50)] if limit == "given" else [np.float32(4)]
    last, rows = run(counting(limit, inputs, stored), *map(np.asarray, given))
    assert last == 12
    assert rows.tolist() == [4, 8, 12]


def test_a_loop_that_never_starts_gives_its_first_values() -> None:
    stored = [number("start", False, np.bool_), number("known", 50)]
    last, rows = run(counting("known", [], stored), np.asarray(np.float32(4)))
    assert last == 0
    assert rows.shape == (0,)


def growing() -> bytes:
    """A loop that joins x to what it has, three times."""
    body = helper.make_graph(
        [node("Concat", ["before", "x"], ["after"], axis=0), node("Identity", ["on"], ["still"])],
        "body",
        [value("turn", INT64, []), value("on", BOOL, []), value("before", FLOAT, None)],
        [value("still", BOOL, []), value("after", FLOAT, None)],
    )
    loop = node("Loop", ["three", "", "x"], ["y"], body=body)
    return file(
        [loop], [value("x", FLOAT, [3, 2])], [value("y", FLOAT, ["n", 2])], number("three", 3)
    )


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_value_may_grow_from_turn_to_turn(backend: str) -> None:
    (y,) = run(growing(), X, backend=backend)
    assert y.tolist() == np.concatenate([X] * 4).tolist()


def numpy_kinds(session: circlet.Session) -> list[object]:
    """The kinds that native code does not take."""
    return [row["kind"] for row in session.placement if row["backend"] != "cpu"]


def peer(data: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What ONNX Runtime answers."""
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def test_few_turns_in_which_sizes_change_are_native() -> None:
    session = circlet.Session(growing(), cache=False)
    assert numpy_kinds(session) == []
    assert session.run([X])["y"].tolist() == np.concatenate([X] * 4).tolist()


def deepening(turns: int, *, ends: bool) -> bytes:
    """A loop whose state is a row ahead of the first turn and a matrix behind it."""
    body = helper.make_graph(
        [
            node("Reshape", ["before", "matrix"], ["m"]),
            node("Mul", ["m", "half"], ["after"]),
            node("ReduceSum", ["after"], ["row"], keepdims=0),
            node("Greater", ["row", "one"], ["large"]),
            node("Identity", ["large" if ends else "on"], ["still"]),
        ],
        "body",
        [value("turn", INT64, []), value("on", BOOL, []), value("before", FLOAT, None)],
        [value("still", BOOL, []), value("after", FLOAT, None), value("row", FLOAT, [])],
    )
    loop = node("Loop", ["turns", "yes", "x"], ["y", "sums"], body=body)
    stored = [number("turns", turns), number("yes", True, np.bool_), number("matrix", [1, 2])]
    stored += [number("half", 0.5, np.float32), number("one", 1, np.float32)]
    outputs = [value("y", FLOAT, None), value("sums", FLOAT, ["n"])]
    return file([loop], [value("x", FLOAT, [2])], outputs, *stored)


@pytest.mark.parametrize("turns", [3, 2000])
@pytest.mark.parametrize("ends", [False, True])
def test_a_first_turn_may_change_the_number_of_dimensions(turns: int, ends: bool) -> None:
    data, x = deepening(turns, ends=ends), np.array([40, 24], np.float32)
    for mine, other in zip(run(data, x, backend="cpu"), peer(data, {"x": x}), strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-30)


def collecting(count: list[Any], joined: dict[str, int], nodes: int = 1) -> bytes:
    """A loop over the rows of x that adds twice each to a sequence, and what is made of that."""
    added = [
        helper.make_node("SequenceInsert", [f"s{i}", "twice"], [f"s{i + 1}"]) for i in range(nodes)
    ]
    sequence = helper.make_tensor_sequence_value_info
    body = helper.make_graph(
        [
            node("Unsqueeze", ["turn", "axis"], ["at"]),
            node("Gather", ["x", "at"], ["row"], axis=0),
            node("Add", ["row", "row"], ["twice"]),
            *added,
        ],
        "body",
        [value("turn", INT64, []), value("on", BOOL, []), sequence("s0", FLOAT, None)],
        [value("on", BOOL, []), sequence(f"s{nodes}", FLOAT, None)],
    )
    ends = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["count", "", "none"], ["all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], **joined),
        node("SequenceLength", ["all"], ["n"]),
        node("SequenceAt", ["all", "last"], ["z"]),
    ]
    stored = [number("axis", [0]), number("last", -1)]
    shape = [node("Shape", ["x"], ["sizes"], end=1), node("Squeeze", ["sizes"], ["count"])]
    if count:
        stored, shape = [*stored, number("count", count[0])], []
    outputs = [value("y", FLOAT, None), value("n", INT64, []), value("z", FLOAT, None)]
    return file([*shape, *ends], [value("x", FLOAT, ["rows", 2])], outputs, *stored)


@pytest.mark.parametrize("count", [[], [3], [2000]])
@pytest.mark.parametrize(
    "joined", [{"axis": 0}, {"axis": 1}, {"axis": -1, "new_axis": 1}, {"axis": 1, "new_axis": 1}]
)
def test_a_loop_collects_what_its_turns_make(count: list[Any], joined: dict[str, int]) -> None:
    data = collecting(count, joined)
    x = np.arange(4000 if count == [2000] else 6, dtype=np.float32).reshape(-1, 2)
    session = circlet.Session(data, cache=False, shapes={"x": x.shape})
    assert numpy_kinds(session) == []
    for mine, other in zip(session.run([x]).values(), peer(data, {"x": x}), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_few_turns_may_each_collect_several() -> None:
    data = collecting([3], {"axis": 0}, nodes=2)
    session = circlet.Session(data, cache=False, shapes={"x": X.shape})
    for mine, other in zip(session.run([X]).values(), peer(data, {"x": X}), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_many_turns_that_each_collect_several_are_refused() -> None:
    with pytest.raises(UnsupportedOpsError, match=r"each of many|one item"):
        circlet.load(collecting([20000], {"axis": 0}, nodes=2))


def test_a_place_in_a_sequence_may_be_computed() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["rows"], axis=0),
        node("SequenceAt", ["rows", "at"], ["y"]),
    ]
    inputs = [value("x", FLOAT, [3, 2]), value("at", INT64, [])]
    data = file(nodes, inputs, [value("y", FLOAT, [1, 2])])
    for at in (0, 2, -1):
        assert run(data, X, np.array(at), backend="cpu")[0].tolist() == X[[at]].tolist()


def scanning(**attributes: Any) -> bytes:
    """The sums of the rows so far, times a loop within the loop that doubles twice."""
    inner = helper.make_graph(
        [node("Add", ["b", "b"], ["c"]), node("Identity", ["on"], ["still"])],
        "inner",
        [value("i", INT64, []), value("on", BOOL, []), value("b", FLOAT, [2])],
        [value("still", BOOL, []), value("c", FLOAT, [2])],
    )
    body = helper.make_graph(
        [
            node("Add", ["sum", "row"], ["more"]),
            node("Loop", ["two", "", "more"], ["fold"], body=inner),
        ],
        "body",
        [value("sum", FLOAT, [2]), value("row", FLOAT, [2])],
        [value("more", FLOAT, [2]), value("fold", FLOAT, [2])],
    )
    scan = node("Scan", ["zero", "x"], ["s", "y"], body=body, num_scan_inputs=1, **attributes)
    ends = [value("s", FLOAT, [2]), value("y", FLOAT, ["n", "m"])]
    constants = [number("two", 2), number("zero", [0, 0], np.float32)]
    return file([scan], [value("x", FLOAT, ["n", 2])], ends, *constants)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_loops_within_loops_and_other_lengths(backend: str) -> None:
    backends = ("cpu", "reference") if backend == "cpu" else ("reference",)
    session = circlet.Session(scanning(), backends=backends, cache=False)
    for rows in (3, 5):
        x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        got = session.run([x])
        assert got["s"].tolist() == x.sum(0).tolist()
        assert got["y"].tolist() == (4 * np.cumsum(x, 0)).tolist()


def test_a_scan_from_behind_along_other_axes() -> None:
    data = scanning(scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1])
    session = circlet.Session(data, backends=["reference"], cache=False, shapes={"x": (3, 2)})
    want = 4 * np.cumsum(X[::-1], 0)[::-1].T
    assert session.run([X])["y"].tolist() == want.tolist()


def test_an_operator_that_is_missing_in_a_loop_is_named_once() -> None:
    body = helper.make_graph(
        [helper.make_node("Nowhere", ["a"], ["b"], name="lost", domain="other")],
        "body",
        [value("i", INT64, []), value("on", BOOL, []), value("a", FLOAT, [2])],
        [value("on", BOOL, []), value("b", FLOAT, [2])],
    )
    loop = node("Loop", ["two", "", "x"], ["y"], body=body)
    graph = helper.make_graph(
        [loop], "main", [value("x", FLOAT, [2])], [value("y", FLOAT, [2])], [number("two", 2)]
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("other", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(UnsupportedOpsError) as caught:
        circlet.load(made.SerializeToString())
    assert "lost" in str(caught.value)
    assert "my Loop" not in str(caught.value)


def test_a_sequence_is_gone_once_the_file_is_read() -> None:
    nodes = [
        node("SplitToSequence", ["x"], ["rows"], axis=0),
        node("SequenceAt", ["rows", "last"], ["row"]),
        node("SequenceErase", ["rows", "last"], ["others"]),
        node("ConcatFromSequence", ["others"], ["rest"], axis=0),
        node("Concat", ["row", "rest"], ["y"], axis=0),
    ]
    data = file(nodes, [value("x", FLOAT, [3, 2])], [value("y", FLOAT, [3, 2])], number("last", -1))
    assert run(data, X)[0].tolist() == X[[2, 0, 1]].tolist()


def test_an_output_that_is_a_sequence_is_refused() -> None:
    ends = helper.make_tensor_sequence_value_info("rows", FLOAT, None)
    data = file([node("SplitToSequence", ["x"], ["rows"])], [value("x", FLOAT, [3, 2])], [ends])
    with pytest.raises(FormatError, match="sequences"):
        circlet.load(data)


def test_four_bit_values_cross_the_edge_as_they_are() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package ml_dtypes is not installed")
    weights = onnx.helper.make_tensor("w", INT4, [5], np.array([-8, 7, 3, -1, 0]))
    nodes = [
        node("Cast", ["w"], ["wide"], to=FLOAT),
        node("Add", ["wide", "x"], ["sum"]),
        node("Cast", ["sum"], ["y"], to=INT4),
    ]
    data = file(nodes, [value("x", FLOAT, [5])], [value("y", INT4, [5])], weights)
    (y,) = run(data, np.array([1, 0, 0, 1, 2], np.float32))
    assert y.dtype == ml_dtypes.int4
    assert y.astype(np.int8).tolist() == [-7, 7, 3, 0, 2]


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "bfloat16"])
def test_packed_constants_hold_all_of_their_values(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the package ml_dtypes is not installed")
    array = np.arange(5).astype(np.float32).astype(getattr(ml_dtypes, name))
    stored = constant("c", array)
    assert stored.dtype is DType(name.upper())
    assert stored.data is not None
    assert stored.data.nbytes == stored.size_bytes
    assert unpacked(stored).astype(np.float32).tolist() == array.astype(np.float32).tolist()


def _doubling(depth: int, turns: int) -> bytes:
    """Loops within each other, the innermost of which doubles what lives on."""
    body: Any = None
    for level in range(depth, -1, -1):
        before, after = f"before {level}", f"after {level}"
        inner = node("Concat", [before, before], [after], axis=0)
        if body is not None:
            inner = node("Loop", ["count", "start", before], [after], body=body)
        on, goes_on = f"on {level}", f"goes on {level}"
        body = helper.make_graph(
            [inner, node("Identity", [on], [goes_on])],
            f"body {level}",
            [value(f"turn {level}", INT64, []), value(on, BOOL, []), value(before, FLOAT, None)],
            [value(goes_on, BOOL, []), value(after, FLOAT, None)],
        )
    stored = [number("count", turns), number("start", True, np.bool_)]
    outer = node("Loop", ["count", "start", "x"], ["y"], body=body)
    return file([outer], [value("x", FLOAT, [1])], [value("y", FLOAT, None)], *stored)


def test_loops_in_loops_that_change_sizes_run() -> None:
    (made,) = run(_doubling(2, 2), np.ones(1, np.float32))
    assert made.shape == (2**8,)


@pytest.mark.parametrize(("depth", "turns"), [(10, 2), (3, 60), (10, 1000)])
def test_loops_in_loops_are_not_unfolded_without_end(depth: int, turns: int) -> None:
    assert len(load(_doubling(depth, turns)).main.ops) < 1 << 13
