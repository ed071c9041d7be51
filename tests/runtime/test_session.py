from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import CircletError, FileError, FormatError, InputError, LimitError
from circlet.ir import DType
from circlet.limits import Limits
from circlet.ops.build import builder
from circlet.options import Options
from tests.runtime import networks

LEFT = np.arange(6, dtype=np.float32).reshape(2, 3)
RIGHT = np.full((2, 3), 10, np.float32)


@pytest.fixture(scope="module")
def two() -> Session:
    return Session(networks.sum_and_difference())


@pytest.mark.smoke
@pytest.mark.parametrize(
    "given", [[LEFT, RIGHT], (LEFT, RIGHT), {"right": RIGHT, "left": LEFT}], ids=type
)
def test_inputs_are_given_in_order_or_by_name(two: Session, given: Any) -> None:
    results = two.run(given)
    assert list(results) == ["sum", "difference"]
    np.testing.assert_array_equal(results["sum"], LEFT + RIGHT)
    np.testing.assert_array_equal(results["difference"], LEFT - RIGHT)


def test_a_session_describes_its_edges(two: Session) -> None:
    assert [(v.name, v.dtype, v.shape) for v in two.inputs] == [
        ("left", "float32", (2, 3)),
        ("right", "float32", (2, 3)),
    ]
    assert [v.name for v in two.outputs] == ["sum", "difference"]


def test_quantisation_is_part_of_the_description() -> None:
    (value,) = Session(networks.quantised_relu()).inputs
    assert (value.dtype, value.scale, value.zero_point) == ("int8", (0.5,), (3,))


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ([LEFT], ["1 input given, 2 wanted", "left", "right"]),
        ([LEFT, RIGHT, RIGHT], ["3 inputs given"]),
        ({"left": LEFT}, ["missing: ['right']"]),
        ({"left": LEFT, "right": RIGHT, "up": RIGHT}, ["unknown: ['up']"]),
        ([LEFT.astype(np.float64), RIGHT], ["wrong dtype", "left", "float64", "float32"]),
        ([LEFT, RIGHT[:1]], ["wrong shape", "right", "[1, 3]", "[2, 3]"]),
        ([LEFT, [[1.0], [2.0, 3.0]]], ["not an array", "right"]),
        ([LEFT, None], ["right"]),
    ],
)
def test_an_input_that_does_not_fit_is_named(two: Session, given: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        two.run(given)
    assert caught.value.code == "E-INPUT"
    assert all(part in str(caught.value) for part in parts)


def test_the_wrong_dtype_of_a_quantised_input_comes_with_the_formula() -> None:
    session = Session(networks.quantised_relu())
    with pytest.raises(InputError, match=r"round\(x / 0.5\) \+ 3"):
        session.run([np.zeros(4, np.float32)])


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(LEFT),
        np.repeat(LEFT, 2, axis=1)[:, ::2],
        np.broadcast_to(np.float32(3), (2, 3)),
        np.frombuffer(b"\0" + LEFT.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    ],
    ids=["fortran", "strided", "broadcast", "unaligned"],
)
def test_any_memory_layout_is_taken(two: Session, array: np.ndarray) -> None:
    results = two.run([array, RIGHT])
    np.testing.assert_array_equal(results["sum"], array + RIGHT)


def test_inputs_are_left_as_they_are(two: Session) -> None:
    before = LEFT.copy()
    two.run([LEFT, RIGHT])
    np.testing.assert_array_equal(LEFT, before)


def test_results_of_different_runs_do_not_share_memory(two: Session) -> None:
    first = two.run([LEFT, RIGHT])["sum"]
    kept = first.copy()
    two.run([RIGHT, RIGHT])
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("size", [4, 50_000], ids=["copied", "in_place"])
def test_arrays_of_any_size_belong_to_their_run(size: int) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (size,))
    session = Session(networks.tflite(b.output(b.op("NEG", [x], name="y"), x)))
    wide = np.arange(2 * size, dtype=np.float32)
    first, every_second = wide[:size].copy(), wide[::2]
    first.flags.writeable = False
    given = (first, every_second, first)
    for array, found in zip(given, [session.run([array]) for array in given], strict=True):
        np.testing.assert_array_equal(found["y"], -array)
        np.testing.assert_array_equal(found["x"], array)
        found["x"][:] = 0
    np.testing.assert_array_equal(wide, np.arange(2 * size))


@pytest.mark.parametrize("backends", [("cpu", "reference"), ("reference",)])
def test_an_input_that_is_an_output_is_copied(backends: tuple[str, ...]) -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    data = networks.tflite(b.output(x, b.op("RELU", [x], name="y")))
    results = Session(data, backends=backends).run([LEFT])
    np.testing.assert_array_equal(results["x"], LEFT)
    np.testing.assert_array_equal(results["y"], LEFT)


def test_a_constant_can_be_an_output() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, (2, 3))
    data = networks.tflite(b.output(b.constant("c", RIGHT), b.op("RELU", [x], name="y")))
    np.testing.assert_array_equal(Session(data).run([LEFT])["c"], RIGHT)


@pytest.mark.parametrize("backends", [("cpu", "reference"), ("reference",)])
def test_an_output_that_is_named_twice_is_filled_twice(backends: tuple[str, ...]) -> None:
    b = builder()
    y = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 3))], name="y")
    session = Session(networks.tflite(b.output(y, y)), backends=backends)
    results = session.run([LEFT])
    assert list(results) == ["y", "y:1"]
    for result in results.values():
        np.testing.assert_array_equal(result, LEFT)


def test_tensors_of_one_name_are_told_apart() -> None:
    b = builder()
    left, right = (b.input("x", DType.FLOAT32, (2, 3)) for _ in range(2))
    session = Session(networks.tflite(b.output(b.op("SUB", [left, right], name="y"))))
    results = session.run({"x": LEFT, "x:1": RIGHT})
    np.testing.assert_array_equal(results["y"], LEFT - RIGHT)


def test_a_scalar_network_runs() -> None:
    b = builder()
    x = b.input("x", DType.FLOAT32, ())
    session = Session(networks.tflite(b.output(b.op("RELU", [x], name="y"))))
    assert session.run([np.float32(3)])["y"] == 3


def test_models_and_artifacts_open_from_paths_and_bytes(tmp_path: Path) -> None:
    model = networks.relu()
    artifact = compile_model(model, Options())
    x = np.linspace(-1, 1, 6, dtype=np.float32)
    for name, data, call in (("m.tflite", model, Session), ("m", artifact, load_artifact)):
        path = tmp_path / name
        path.write_bytes(data)
        for source in (data, bytearray(data), memoryview(data), path, str(path)):
            np.testing.assert_array_equal(call(source).run([x])["y"], np.maximum(x, 0))


@pytest.mark.smoke
def test_an_artifact_of_numpy_only_runs() -> None:
    artifact = compile_model(networks.relu(), Options(backends=("reference",)))
    session = load_artifact(artifact)
    assert {row["backend"] for row in session.placement} == {"reference"}
    assert session.run([np.full(6, -1, np.float32)])["y"].max() == 0


def test_opening_says_where_its_time_went() -> None:
    data = networks.relu(77)
    first, again = Session(data), Session(data)
    assert set(first.opened.seconds) == {"compile", "load"}
    assert set(again.opened.seconds) == {"cache", "load"}


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("/nowhere/model.tflite", FileError),
        ("/", FileError),
        (b"", FormatError),
        (b"no model at all, just some text", FormatError),
        (b"CIRCLETA and then nothing", CircletError),
    ],
)
def test_a_source_that_is_no_network_is_refused(source: Any, error: type[CircletError]) -> None:
    with pytest.raises(error):
        Session(source)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"backends": ("gpu",)}, "gpu"),
        ({"backends": ()}, "no backend"),
        ({"threads": 0}, "threads"),
        ({"threads": -1}, "threads"),
        ({"target": "pdp11"}, "pdp11"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(CircletError, match=text):
        Session(networks.relu(), **options)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_session_is_not_pickled(two: Session, copied: Callable[[Session], object]) -> None:
    with pytest.raises(InputError, match="in each process"):
        copied(two)


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_timeout_must_be_positive(two: Session, timeout: float) -> None:
    with pytest.raises(InputError, match="timeout"):
        two.run([LEFT, RIGHT], timeout=timeout)


def test_too_large_an_arena_is_refused() -> None:
    with pytest.raises(LimitError, match="memory_bytes"):
        compile_model(
            networks.convolutions(),
            Options(limits=Limits(memory_bytes=1000, memory_per_file_byte=0)),
        )
