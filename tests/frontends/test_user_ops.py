"""Operators that users define: in numpy, in C, beside native ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.artifact.cache import Cache
from circlet.compiler.compile import compile_model
from circlet.errors import (
    BackendError,
    CompileError,
    GraphError,
    InputError,
    UnsupportedOpsError,
)
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.ops.user import UserAttrs
from circlet.options import Options
from tests.corpora import corpus

Arrays = Sequence[Any]
X = np.array([[-2, -1, 0, 1], [2, 3, 4, 5]], np.float32)
CUBE_C = """
static void cube(const void *const *inputs, void *const *outputs, const int64_t *elements,
                 const void *options, int64_t options_bytes) {
    const float *x = inputs[0];
    float *y = outputs[0];
    float factor = options_bytes ? *(const float *)options : 1;
    for (int64_t i = 0; i < elements[1]; i++) y[i] = factor * x[i] * x[i] * x[i];
}
"""


def cubed(options: bytes = b"") -> bytes:
    """x [2, 4] -> relu -> Cube -> "y" = tanh."""
    b = builder()
    x = b.op("RELU", [b.input("x", DType.FLOAT32, (2, 4))], name="positive")
    attrs = UserAttrs(options)
    cube = b.op("CUSTOM", [x], attrs, name="cubed", shape=(2, 4), custom_code="Cube")
    cube_op = b.graph.ops[-1]
    cube_op.extra["custom_options"] = options
    return dumps(b.output(b.op("TANH", [cube], name="y")).model(), "tflite")


def same(inputs: Sequence[Any], options: object) -> list[tuple[Any, Any]]:
    return [(inputs[0].dtype, inputs[0].shape)]


def cube(arrays: Arrays, options: object) -> np.ndarray:
    factor = np.frombuffer(options, np.float32)[0] if options else np.float32(1)  # type: ignore[call-overload]
    return np.asarray(factor * arrays[0] ** 3)


def nothing(arrays: Arrays, options: object) -> np.ndarray:
    return np.zeros_like(arrays[0])


def fill_from(arrays: Arrays, options: Any) -> np.ndarray:
    result = np.array(arrays[0])
    result.reshape(-1)[options["idx"] :] = options["val"]
    return result


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """No test leaves an operator behind."""
    yield
    for name in ("Cube", "FillFrom"):
        circlet.register_op(name, same, cube).unregister()


def answer(session: circlet.Session) -> np.ndarray:
    return next(iter(session.run([X]).values()))


def backends(session: circlet.Session) -> dict[object, object]:
    return {row["kind"]: row["backend"] for row in session.placement}


EXPECTED = np.tanh(np.maximum(X, 0) ** 3)


def test_fill_from_runs_as_its_library_defines_it() -> None:
    circlet.register_op("FillFrom", same, fill_from, options=circlet.flexbuffer)
    session = circlet.Session(corpus("models/custom_op_FillFrom.tflite"))
    (result,) = session.run([np.arange(10, dtype=np.float32)]).values()
    np.testing.assert_array_equal(result, np.array([0, 1, 2] + [1.1] * 7, np.float32))


def test_an_unknown_custom_op_is_reported() -> None:
    with pytest.raises(UnsupportedOpsError, match="CUSTOM:Cube"):
        circlet.Session(cubed())


@pytest.mark.smoke
def test_a_numpy_op_stands_between_native_ones() -> None:
    circlet.register_op("Cube", same, cube)
    session = circlet.Session(cubed())
    np.testing.assert_allclose(answer(session), EXPECTED, rtol=1e-6)
    assert backends(session) == {"RELU": "cpu", "CUSTOM:Cube": "reference", "TANH": "cpu"}


def test_an_op_with_c_is_native() -> None:
    circlet.register_op("Cube", same, cube, c_source=CUBE_C, c_function="cube")
    session = circlet.Session(cubed(), strict=True)
    np.testing.assert_allclose(answer(session), EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("native", [False, True])
def test_options_reach_the_function(native: bool) -> None:
    source, function = (CUBE_C, "cube") if native else ("", "")
    circlet.register_op("Cube", same, cube, c_source=source, c_function=function)
    result = answer(circlet.Session(cubed(np.float32(0.5).tobytes())))
    np.testing.assert_allclose(result, np.tanh(0.5 * np.maximum(X, 0) ** 3), rtol=1e-6)


def test_registering_again_replaces() -> None:
    circlet.register_op("Cube", same, cube)
    first = answer(circlet.Session(cubed()))
    circlet.register_op("Cube", same, nothing)
    assert first.any()
    assert not answer(circlet.Session(cubed())).any()


def test_networks_with_user_ops_are_not_cached() -> None:
    with circlet.register_op("Cube", same, cube):
        assert "compile" in circlet.Session(cubed()).opened.seconds
        assert "compile" in circlet.Session(cubed()).opened.seconds
    with pytest.raises(UnsupportedOpsError):
        circlet.Session(cubed())


def test_other_networks_are_cached_while_an_op_is_registered() -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (5,))], name="only here"))
    data = dumps(b.model(), "tflite")
    with circlet.register_op("Cube", same, cube):
        circlet.Session(data)
        assert "cache" in circlet.Session(data).opened.seconds
    assert Cache() is not None


def test_an_artifact_needs_the_op_where_it_is_loaded() -> None:
    with circlet.register_op("Cube", same, cube):
        artifact = compile_model(cubed(), Options())
        assert answer(circlet.load_artifact(artifact)).any()
    with pytest.raises(UnsupportedOpsError, match="Cube"):
        circlet.load_artifact(artifact)


def test_the_interpreter_knows_them_too() -> None:
    circlet.register_op("Cube", same, cube)
    interpreter = circlet.Interpreter(model_content=cubed())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(result, EXPECTED, rtol=1e-6)


def test_a_failing_function_is_named() -> None:
    def broken(arrays: Arrays, options: object) -> np.ndarray:
        raise KeyError("idx")

    circlet.register_op("Cube", same, broken)
    session = circlet.Session(cubed())
    with pytest.raises(BackendError, match=r"(?s)CUSTOM:Cube failed.*cubed.*KeyError"):
        session.run([X])


def test_a_failing_shape_rule_is_named() -> None:
    circlet.register_op("Cube", lambda inputs, options: inputs[3], cube)  # type: ignore[arg-type, return-value]
    with pytest.raises(GraphError, match=r"IndexError"):
        circlet.Session(cubed())


@pytest.mark.parametrize(
    "result", [np.zeros((2, 3), np.float32), np.zeros((2, 4)), [], np.zeros(8, np.float32)]
)
def test_results_other_than_announced_are_refused(result: Any) -> None:
    circlet.register_op("Cube", same, lambda arrays, options: result)
    with pytest.raises(BackendError, match="shape rule says"):
        circlet.Session(cubed()).run([X])


def test_a_function_cannot_change_its_inputs() -> None:
    def careless(arrays: Arrays, options: object) -> np.ndarray:
        arrays[0][...] = 0
        return np.asarray(arrays[0])

    circlet.register_op("Cube", same, careless)
    session = circlet.Session(cubed(), backends=["reference"])
    given = X.copy()
    session.run([given])
    np.testing.assert_array_equal(given, X)


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": "TFLite_Detection_PostProcess"},
        {"name": 5},
        {"run": None},
        {"options": 5},
        {"c_source": 5, "c_function": "cube"},
        {"c_source": CUBE_C},
        {"c_function": "cube"},
        {"c_source": CUBE_C, "c_function": "cube; x"},
    ],
)
def test_registrations_that_cannot_work_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        circlet.register_op(**{"name": "Cube", "infer": same, "run": cube, **arguments})


def test_c_that_does_not_compile_is_the_users_to_correct() -> None:
    arguments: dict[str, Any] = {"c_source": "static void cube( {", "c_function": "cube"}
    with (
        circlet.register_op("Cube", same, cube, **arguments),
        pytest.raises(CompileError, match="expected") as caught,
    ):
        circlet.Session(cubed())
    assert "register_op" in caught.value.fix
