"""One script, two engines: what ONNX Runtime does, Circlet's interface does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError

pytest.importorskip("onnx", reason="networks are made with the package onnx")

from tests.frontends import onnx_models as models
from tests.frontends.onnx_models import ROWS, Y


def raised(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


@pytest.mark.smoke
def test_a_session_says_what_it_takes_and_gives(scaled: Any) -> None:
    (x,) = scaled.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(float)", ["batch", 2])
    y, z = scaled.get_outputs()
    assert (y.name, y.type, y.shape) == ("y", "tensor(float)", ["batch", 2])
    assert (z.name, z.shape) == ("z", ["batch", 2])
    (factor,) = scaled.get_overridable_initializers()
    assert (factor.name, factor.shape) == ("factor", [2])
    assert str(x) == "NodeArg(name='x', type='tensor(float)', shape=['batch', 2])"


def test_metadata_is_the_file_s(scaled: Any) -> None:
    meta = scaled.get_modelmeta()
    assert (meta.producer_name, meta.domain, meta.version) == ("tests", "circlet", 7)
    assert (meta.description, meta.graph_name) == ("a model", "tested")
    assert meta.graph_description == "a graph"
    assert dict(meta.custom_metadata_map) == {"kind": "small"}


@pytest.mark.parametrize("names", [None, [], ["y", "z"]])
def test_a_run_gives_the_outputs_in_order(scaled: Any, names: list[str] | None) -> None:
    y, z = scaled.run(names, {"x": ROWS})
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(z, np.maximum(Y, 0))


def test_outputs_are_given_as_they_are_named(scaled: Any) -> None:
    z, y, again = scaled.run(("z", "y", "z"), {"x": ROWS})
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(z, again)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_open_sizes_may_change_from_run_to_run(scaled: Any, count: int) -> None:
    x = np.ones((count, 2), np.float32)
    assert scaled.run(["y"], {"x": x})[0].shape == (count, 2)


def test_results_are_the_caller_s_own(ort: Any) -> None:
    session = ort.InferenceSession(models.passed_through())
    x = np.array([1, 2], np.float32)
    first = session.run(None, {"x": x})
    session.run(None, {"x": x + 1})
    np.testing.assert_array_equal(first[0], [2, 4])
    np.testing.assert_array_equal(first[1], [1, 2])
    assert not np.shares_memory(first[1], x)


def test_truth_values(ort: Any) -> None:
    session = ort.InferenceSession(models.logical())
    assert [entry.type for entry in session.get_inputs()] == ["tensor(bool)"] * 2
    a, b = np.array([[True, True], [False, False]]), np.array([[True, False], [True, False]])
    (both,) = session.run(["both"], {"a": a, "b": b})
    np.testing.assert_array_equal(both, a & b)
    assert both.dtype == np.bool_


def test_a_network_that_does_not_work_for_size_1(ort: Any) -> None:
    session = ort.InferenceSession(models.reshaped())
    for count in (6, 8):
        x = np.arange(count, dtype=np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.reshape(2, -1))


def test_an_input_without_a_stated_rank_takes_any(ort: Any) -> None:
    session = ort.InferenceSession(models.rankless())
    assert session.get_inputs()[0].shape == []
    for shape in ((), (3,), (2, 3), (5,)):
        x = np.full(shape, -1, np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.zeros(shape))


WRONG_RUNS: dict[str, tuple[list[str] | None, dict[str, object], str, str]] = {
    "missing": (None, {}, "ValueError", "Required inputs (['x']) are missing from input feed ([])"),
    "output": (["q"], {"x": ROWS}, "InvalidArgument", "Invalid output name:q"),
    "name": (None, {"x": ROWS, "q": ROWS}, "InvalidArgument", "Invalid input name: q"),
    "type": (
        None,
        {"x": ROWS.astype(np.float64)},
        "InvalidArgument",
        "Unexpected input data type. Actual: (tensor(double)) , expected: (tensor(float))",
    ),
    "rank": (
        None,
        {"x": ROWS[0]},
        "InvalidArgument",
        "Invalid rank for input: x Got: 1 Expected: 2 Please fix either the inputs/outputs",
    ),
    "size": (
        None,
        {"x": np.ones((3, 3), np.float32)},
        "InvalidArgument",
        "Got invalid dimensions for input: x for the following indices",
    ),
    "scalar": (None, {"x": 1.0}, "RuntimeError", "Unable to handle object of type <class 'float'>"),
    "text": (
        None,
        {"x": "abc"},
        "RuntimeError",
        "Input must be a list of dictionaries or a",
    ),
    "none": (None, {"x": None}, "Fail", "[ONNXRuntimeError] : 1 : FAIL : "),
}


@pytest.mark.parametrize("case", WRONG_RUNS)
def test_a_wrong_run_raises_what_onnx_runtime_raises(scaled: Any, errors: Any, case: str) -> None:
    names, feed, kind, text = WRONG_RUNS[case]
    error = raised(lambda: scaled.run(names, feed))
    wanted = getattr(errors, kind, None) or getattr(__import__("builtins"), kind)
    assert isinstance(error, wanted)
    assert text in str(error)


WRONG_FILES = {
    "garbage": ("InvalidProtobuf", "protobuf parsing failed."),
    "half": ("InvalidProtobuf", "7 : INVALID_PROTOBUF"),
    "nothing": ("InvalidArgument", "No graph was found in the protobuf."),
    "unknown operator": ("InvalidGraph", "No Op registered for Nothing with domain_version of 17"),
    "unknown domain": ("Fail", "Fatal error: mine:Nothing(-1) is not a registered function/op"),
    "types": ("Fail", "[ONNXRuntimeError] : 1 : FAIL"),
    "missing value": ("InvalidArgument", "Invalid model. Node input 'w' is not a graph input"),
    "operator set": ("Fail", "[ONNXRuntimeError] : 1 : FAIL"),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_raises_what_onnx_runtime_raises(ort: Any, errors: Any, case: str) -> None:
    kind, text = WRONG_FILES[case]
    error = raised(lambda: ort.InferenceSession(models.broken(case)))
    assert isinstance(error, getattr(errors, kind))
    assert text in str(error)


def test_a_file_that_is_not_there(ort: Any, errors: Any) -> None:
    error = raised(lambda: ort.InferenceSession("/nowhere/model.onnx"))
    assert isinstance(error, errors.NoSuchFile)
    assert "Load model /nowhere/model.onnx failed. File doesn't exist" in str(error)


@pytest.mark.parametrize("given", [None, 3, bytearray(b"")])
def test_what_is_neither_path_nor_bytes(ort: Any, given: object) -> None:
    error = raised(lambda: ort.InferenceSession(given))
    assert isinstance(error, TypeError)
    assert f"Unable to load from type '{type(given)}'" in str(error)


def test_paths_and_path_objects(ort: Any, tmp_path: Path) -> None:
    path = tmp_path / "scaled.onnx"
    path.write_bytes(models.scaled())
    for form in (path, str(path)):
        np.testing.assert_array_equal(ort.InferenceSession(form).run(["y"], {"x": ROWS})[0], Y)


def test_providers(ort: Any) -> None:
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert ort.get_all_providers()[-1] == "CPUExecutionProvider"
    assert ort.get_device() == "CPU"
    session = ort.InferenceSession(models.fixed(), providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert list(session.get_provider_options()) == ["CPUExecutionProvider"]


def test_a_provider_that_is_not_there_is_left_out(ort: Any) -> None:
    wanted = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="is not in available provider names"):
        session = ort.InferenceSession(models.fixed(), providers=wanted)
    assert session.get_providers() == ["CPUExecutionProvider"]
    with (
        pytest.warns(UserWarning, match="is not in available"),
        pytest.raises(RuntimeError, match="Unknown Provider Type: Nobody"),
    ):
        session.set_providers(["Nobody"])


def test_session_options_begin_as_onnx_runtime_s(ort: Any) -> None:
    options = ort.SessionOptions()
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert options.intra_op_num_threads == options.inter_op_num_threads == 0
    assert options.log_severity_level == -1
    assert not options.enable_profiling
    options.add_session_config_entry("key", "value")
    assert options.get_session_config_entry("key") == "value"
    missing = "SessionOptions does not have configuration with key: other"
    with pytest.raises(RuntimeError, match=missing):
        options.get_session_config_entry("other")
    with pytest.raises(TypeError):
        options.graph_optimization_level = 5
    with pytest.raises(AttributeError):
        options.no_such_option = 1


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED"])
def test_levels_and_threads_do_not_change_results(ort: Any, level: str) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(models.scaled(), options)
    assert session.get_session_options().intra_op_num_threads == 2
    np.testing.assert_array_equal(session.run(["y"], {"x": ROWS})[0], Y)


def test_sizes_may_be_fixed_by_name_and_by_meaning(ort: Any) -> None:
    named, meant = ort.SessionOptions(), ort.SessionOptions()
    named.add_free_dimension_override_by_name("rows", 4)
    named.add_free_dimension_override_by_name("columns", 6)
    meant.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    by_name = ort.InferenceSession(models.meaning(), named)
    assert by_name.get_inputs()[0].shape == [4, 6, 5]
    by_meaning = ort.InferenceSession(models.meaning(), meant)
    assert by_meaning.get_inputs()[0].shape == [3, "columns", 5]
    assert "Got: 4 Expected: 3" in str(
        raised(lambda: by_meaning.run(None, {"x": np.ones((4, 6, 5), np.float32)}))
    )
    assert by_meaning.run(None, {"x": np.ones((3, 2, 5), np.float32)})[0].shape == (3, 2, 5)


def test_a_constant_may_come_from_the_options(ort: Any) -> None:
    options = ort.SessionOptions()
    weight = ort.OrtValue.ortvalue_from_numpy(np.full((3, 2), 5, np.float32))
    options.add_initializer("weight", weight)
    session = ort.InferenceSession(models.fixed(), options)
    np.testing.assert_array_equal(session.run(None, {"x": ROWS})[0], ROWS * 5)


def test_threads_may_share_a_session(scaled: Any) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            x = np.full((number + 1, 2), number, np.float32)
            y = scaled.run(["y"], {"x": x})[0]
            if not np.array_equal(y, x * np.array([2, -1], np.float32)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_that_is_told_to_end_fails(ort: Any, scaled: Any, errors: Any) -> None:
    options = ort.RunOptions()
    np.testing.assert_array_equal(scaled.run(["y"], {"x": ROWS}, options)[0], Y)
    options.terminate = True
    error = raised(lambda: scaled.run(None, {"x": ROWS}, options))
    assert isinstance(error, errors.Fail)
    assert "Exiting due to terminate flag being set to true." in str(error)
    options.terminate = False
    np.testing.assert_array_equal(scaled.run(["y"], {"x": ROWS}, options)[0], Y)


def test_a_run_in_the_background_hands_over_its_results(ort: Any) -> None:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(models.scaled(), options)
    done, told = threading.Event(), []

    def callback(results: list[np.ndarray], data: object, error: str) -> None:
        told.append((results, data, error))
        done.set()

    session.run_async(["y"], {"x": ROWS}, callback, "mine")
    assert done.wait(30)
    ((results, data, error),) = told
    np.testing.assert_array_equal(results[0], Y)
    assert (data, error) == ("mine", "")


def test_profiles_name_operators(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    session = ort.InferenceSession(models.scaled(), options)
    assert session.get_profiling_start_time_ns() > 0
    session.run(None, {"x": ROWS})
    lines = Path(session.end_profiling()).read_text().splitlines()
    assert "[" in lines[0]
    assert "]" in lines[-1]
    for tag in ("pid", "dur", "ts", "ph", "name", "args"):
        assert all(tag in line for line in lines[1:-1])
    assert any("op_name" in line for line in lines)


def test_severities(ort: Any) -> None:
    ort.set_default_logger_severity(3)
    ort.set_default_logger_severity(2)
    with pytest.raises(RuntimeError, match="0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal"):
        ort.set_default_logger_severity(7)


def test_a_network_is_written_where_it_is_wanted(ort: Any, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "written.onnx")
    ort.InferenceSession(models.fixed(), options)
    again = ort.InferenceSession(tmp_path / "written.onnx")
    expected = ROWS * np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(again.run(None, {"x": ROWS})[0], expected)


def test_constants_beside_the_file_are_found(ort: Any, tmp_path: Path) -> None:
    path = models.with_data_beside(tmp_path)
    expected = ROWS * np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    session = ort.InferenceSession(path)
    np.testing.assert_array_equal(session.run(None, {"x": ROWS})[0], expected)


def test_constants_may_come_from_bytes_for_a_file_that_is_not_there(
    ort: Any, tmp_path: Path
) -> None:
    path = models.with_data_beside(tmp_path)
    data = path.with_name("weight.bin").read_bytes()
    path.with_name("weight.bin").unlink()
    options = ort.SessionOptions()
    names, held = ["weight.bin"], [data]
    options.add_external_initializers_from_files_in_memory(names, held, [len(data)])
    expected = ROWS * np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    session = ort.InferenceSession(str(path), options)
    np.testing.assert_array_equal(session.run(None, {"x": ROWS})[0], expected)


def test_our_errors_have_a_code_besides() -> None:
    from circlet import InferenceSession

    error = raised(lambda: InferenceSession(models.scaled()).run(None, {}))
    assert isinstance(error, CircletError)
    assert error.code == "E-INPUT"


def test_a_library_of_operators_is_refused_with_what_to_do() -> None:
    from circlet.onnxruntime import SessionOptions

    error = raised(lambda: SessionOptions().register_custom_ops_library("libops.so"))
    assert "circlet.register_op" in str(error)


def test_what_is_logged_may_go_to_a_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from circlet import onnxruntime

    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))

    told: list[tuple[object, ...]] = []
    onnxruntime.set_default_logger_callback(lambda *facts: told.append(facts), 0)
    try:
        onnxruntime.InferenceSession(models.meaning()).run(None, {"x": np.ones((1, 1, 5), "f4")})
    finally:
        onnxruntime.set_default_logger_callback(None)
        onnxruntime.set_default_logger_severity(2)
    assert [severity for severity, *_, text in told if "takes seconds" in str(text)] == [2]
    with pytest.raises(RuntimeError, match="callback must be callable"):
        onnxruntime.set_default_logger_callback("nothing")  # type: ignore[arg-type]
