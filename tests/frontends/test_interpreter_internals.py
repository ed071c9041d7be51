"""What LiteRT's own tests and some tools reach for: held views, nodes, custom ops, delegates."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import circlet as circlet_package
from circlet.backends.cpu.toolchain import compile_unit
from circlet.errors import CircletError
from circlet.formats import dumps
from circlet.ir import DType, Quantization
from circlet.ops.build import builder
from circlet.target.targets import native_target
from tests.corpora import corpus
from tests.frontends.interpreters import ROWS, Make, chain, circlet

X, Y = 0, 3
HELD = "There is at least 1 reference to internal data"
REVERSED = np.eye(4, dtype=np.float32)[::-1].copy()


def litert_module() -> ModuleType:
    return pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is not installed")


@pytest.fixture(params=[litert_module, lambda: circlet_package], ids=["litert", "circlet"])
def module(request: pytest.FixtureRequest) -> Any:
    """The module that has the names of one engine; each test runs with both."""
    return request.param()


def permutation() -> bytes:
    """Four floats in reverse order, by a matrix product without bias."""
    b = builder()
    inputs = [b.input("input", DType.FLOAT32, (1, 4)), b.constant("Const", REVERSED), None]
    return dumps(b.output(b.op("FULLY_CONNECTED", inputs, name="output")).model(), "tflite")


def test_a_held_view_is_known_of(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    assert interpreter._safe_to_run()
    view = interpreter.tensor(X)
    assert interpreter._safe_to_run()
    first, second = view(), view()
    assert not interpreter._safe_to_run()
    del first
    assert not interpreter._safe_to_run()
    del second
    assert interpreter._safe_to_run()


SLICES: list[Callable[[np.ndarray], object]] = [
    lambda view: view,
    lambda view: view[0, 1:],
    lambda view: view.reshape(-1),
    lambda view: view.view(np.uint8),
    lambda view: np.asarray(view).T,
]


@pytest.mark.parametrize("part", SLICES)
@pytest.mark.parametrize("index", [X, Y])
def test_nothing_runs_under_a_held_view(
    make: Make, part: Callable[[np.ndarray], object], index: int
) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    held = part(interpreter.tensor(index)())
    with pytest.raises(RuntimeError, match=HELD):
        interpreter.allocate_tensors()
    with pytest.raises(RuntimeError, match=HELD):
        interpreter.invoke()
    with pytest.raises(RuntimeError, match=HELD):
        interpreter.resize_tensor_input(X, [2, 4])
    with pytest.raises(RuntimeError, match=HELD):
        interpreter._ensure_safe()
    del held
    kept = interpreter.tensor(index)
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert kept().shape == (1, 4)


def test_a_copy_holds_nothing(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    copies = [interpreter.tensor(X)().copy(), interpreter.get_tensor(X)]
    interpreter.invoke()
    assert all(copy.shape == (1, 4) for copy in copies)


def test_views_write_through(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    view = interpreter.tensor(X)
    np.copyto(view(), ROWS[:1])
    np.testing.assert_array_equal(view(), ROWS[:1])
    np.testing.assert_array_equal(interpreter.get_tensor(X), ROWS[:1])


def test_many_views_are_no_burden() -> None:
    interpreter = circlet(model_content=chain())
    interpreter.allocate_tensors()
    views = [interpreter.tensor(X)() for _ in range(200)]
    assert not interpreter._safe_to_run()
    views.clear()
    for _ in range(1000):
        interpreter.tensor(X)()
    assert len(interpreter._views._given) <= 64
    assert interpreter._safe_to_run()


def test_a_node_is_described(make: Make) -> None:
    interpreter = make(model_content=permutation())
    interpreter.allocate_tensors()
    (listed, *_), single = interpreter._get_ops_details(), interpreter._get_op_details(0)
    for details in (listed, single):
        assert (details["index"], details["op_name"]) == (0, "FULLY_CONNECTED")
        assert details["inputs"].tolist() == [0, 1, -1]
        assert details["outputs"].tolist() == [2]
        assert details["operand_types"] == [np.float32, np.float32]
        assert details["result_types"] == [np.float32]


@pytest.mark.parametrize("name", ["AUTO", "BUILTIN", "BUILTIN_REF"])
def test_any_resolver_runs_a_network(module: Any, name: str) -> None:
    interpreter = module.Interpreter(
        model_content=permutation(),
        num_threads=2,
        experimental_op_resolver_type=module.OpResolverType[name],
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([[1, 2, 3, 4]], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(2).tolist() == [[4, 3, 2, 1]]


def test_bytes_are_permuted(make: Make) -> None:
    b, quant = builder(), Quantization.per_tensor(1.0)
    weights = b.constant("w", np.uint8(255) * REVERSED.astype(np.uint8), quant_of(1 / 255))
    bias = b.constant("b", np.zeros(4, np.int32), quant_of(1 / 255))
    inputs = [b.input("input", DType.UINT8, (1, 4), quant), weights, bias]
    b.output(b.op("FULLY_CONNECTED", inputs, name="output", quant=quant))
    interpreter = make(model_content=dumps(b.model(), "tflite"))
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert given["quantization"] == result["quantization"] == (1.0, 0)
    assert given["quantization_parameters"]["scales"].tolist() == [1.0]
    interpreter.resize_tensor_input(given["index"], (1, 4))
    interpreter.allocate_tensors()
    interpreter.set_tensor(given["index"], np.array([[1, 2, 3, 4]], np.uint8))
    interpreter.invoke()
    assert interpreter.get_tensor(result["index"]).tolist() == [[4, 3, 2, 1]]


def quant_of(scale: float) -> Quantization:
    return Quantization.per_tensor(scale)


def gather(shape: tuple[int, ...]) -> bytes:
    """Strings of ten, by three indices; and a string input that nothing reads."""
    b = builder()
    b.input("aside", DType.STRING, shape)
    inputs = [b.input("input", DType.STRING, (10,)), b.input("indices", DType.INT64, (3,))]
    return dumps(b.output(b.op("GATHER", inputs, name="output")).model(), "tflite")


def test_strings_are_gathered(make: Make) -> None:
    interpreter = make(model_content=gather((2,)))
    interpreter.allocate_tensors()
    _, given, indices = interpreter.get_input_details()
    assert (given["dtype"], indices["dtype"]) == (np.bytes_, np.int64)
    interpreter.set_tensor(indices["index"], np.array([1, 2, 3], np.int64))
    interpreter.set_tensor(given["index"], np.array(list("abcdefghij")))
    interpreter.invoke()
    (result,) = interpreter.get_output_details()
    assert interpreter.get_tensor(result["index"]).tolist() == [b"b", b"c", b"d"]


def test_a_single_string_keeps_its_zero_bytes(make: Make) -> None:
    interpreter = make(model_content=gather(()))
    interpreter.allocate_tensors()
    aside = interpreter.get_input_details()[0]["index"]
    interpreter.set_tensor(aside, np.array(b"abcd" + bytes(16)))
    assert len(interpreter.get_tensor(aside).item(0)) == 20


def test_an_empty_array_runs_through_a_signature(make: Make) -> None:
    b = builder()
    axis = b.constant("axis", np.array([0], np.int32))
    total = b.op("SUM", [b.input("x", DType.FLOAT32, (None,)), axis], name="y")
    runner = make(model_content=dumps(b.output(total).model("sum"), "tflite"))
    assert runner.get_signature_runner()(x=np.zeros(0, np.float32))["y"] == 0


def test_channels_of_weights_are_described(make: Make) -> None:
    path = corpus("singleop/models/LiteRT__tflite_python_testdata_pc_conv.tflite")
    interpreter = make(model_path=path)
    interpreter.allocate_tensors()
    weights = interpreter.get_tensor_details()[1]
    assert len(weights["quantization_parameters"]["scales"]) == 128
    assert weights["sparsity_parameters"] == {}


def test_each_subgraph_has_its_tensors(make: Make) -> None:
    path = corpus("singleop/models/ai-edge-quantizer__tests_models_two_signatures.tflite")
    interpreter = make(model_path=str(path))
    assert interpreter.num_subgraphs() == 2
    names = [interpreter.get_tensor_details(index)[0]["name"] for index in range(2)]
    assert names == ["add_x:0", "multiply_x:0"]
    assert [len(interpreter.get_tensor_details(index)) for index in range(2)] == [3, 3]
    assert make(model_content=chain()).num_subgraphs() == 1


def test_an_interpreter_with_custom_ops_may_have_none(module: Any) -> None:
    interpreter = module.InterpreterWithCustomOps(model_content=permutation())
    interpreter.allocate_tensors()
    assert interpreter._safe_to_run()
    with pytest.raises(ValueError, match=r"^Looking up symbol 'NoSuchRegisterer' failed"):
        module.InterpreterWithCustomOps(
            model_content=permutation(), custom_op_registerers=["NoSuchRegisterer"]
        )


def test_a_runner_is_made_of_an_interpreter(module: Any) -> None:
    interpreter = module.Interpreter(model_content=chain())
    runner = module.SignatureRunner(interpreter, "serve")
    assert runner(x=ROWS)["y"].shape == (2, 4)
    with pytest.raises(ValueError, match=r"^None interpreter provided."):
        module.SignatureRunner()
    with pytest.raises(ValueError, match=r"^None signature_key provided."):
        module.SignatureRunner(interpreter)
    with pytest.raises(ValueError, match=r'^Invalid signature_key provided: "none".'):
        module.SignatureRunner(interpreter=interpreter, signature_key="none")


# LiteRT's delegates fail once more where they are collected.
COLLECTED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@COLLECTED
@pytest.mark.parametrize("name", ["load_delegate", "Delegate"])
def test_a_delegate_that_is_not_there_is_an_os_error(module: Any, name: str) -> None:
    with pytest.raises(OSError, match=r"^libnowhere.so.1: cannot open shared object file"):
        getattr(module, name)("libnowhere.so.1")


@COLLECTED
def test_a_library_without_delegates_is_an_attribute_error(module: Any) -> None:
    from _ctypes import __file__ as library

    with pytest.raises(AttributeError, match="undefined symbol: tflite_plugin_create_delegate"):
        module.load_delegate(library)


@pytest.fixture(scope="module")
def failing_delegate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A delegate's library that makes none, as one whose device is not there."""
    source = (
        '#define EXPORT __attribute__((visibility("default")))\n'
        "EXPORT void *tflite_plugin_create_delegate("
        "void *keys, void *values, int count, void (*tell)(const char *))"
        '{ tell("there is no device"); return 0; }\n'
        "EXPORT void tflite_plugin_destroy_delegate(void *delegate) {}\n"
    )
    library = tmp_path_factory.mktemp("delegate") / "libdelegate.so"
    library.write_bytes(compile_unit(source, native_target()))
    return library


def test_a_delegate_is_refused_so_that_scripts_go_on(module: Any, failing_delegate: Path) -> None:
    path = str(failing_delegate)
    with pytest.raises(ValueError, match=f"^Failed to load delegate from {path}"):
        module.load_delegate(path, {"fail": "fail"})
    with pytest.raises(ValueError):
        module.Delegate(path)


def test_an_interpreter_takes_no_delegates() -> None:
    with pytest.raises(ValueError, match="delegates") as caught:
        circlet(model_content=chain(), experimental_delegates=[object()])
    assert isinstance(caught.value, CircletError)
    circlet(model_content=chain(), experimental_delegates=[]).allocate_tensors()


def test_names_stand_where_litert_has_them() -> None:
    ours = import_module("circlet")
    for name in ("Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType"):
        assert name in ours.__all__
    assert {"SignatureRunner", "load_delegate"} <= set(ours.__all__)
