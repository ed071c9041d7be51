"""One file for both engines: what LiteRT's compiled model does, Circlet's does too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import circlet as circlet_package
from circlet.errors import CircletError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.corpora import corpus
from tests.frontends.interpreters import ANSWER, ROWS, chain

UNNAMED = "<placeholder signature>"


def litert_module() -> ModuleType:
    return pytest.importorskip("ai_edge_litert.compiled_model", reason="LiteRT is not installed")


@pytest.fixture(params=[litert_module, lambda: circlet_package], ids=["litert", "circlet"])
def module(request: pytest.FixtureRequest) -> Any:
    """The module that has the names of one engine; each test runs with both."""
    return request.param()


def refuses(
    kind: type[Exception], sentence: str, call: Callable[..., object], *given: object
) -> None:
    """Whether a call raises this kind, with this in its message; with a code on Circlet."""
    with pytest.raises(kind) as caught:
        call(*given)
    assert sentence in str(caught.value)
    if isinstance(caught.value, CircletError):
        assert f"[{caught.value.code}]" in str(caught.value)


def pair() -> bytes:
    """Two inputs, two outputs, in an order that is not the alphabet's, and no signature."""
    b = builder()
    inputs = [b.input(name, DType.FLOAT32, (1, 4)) for name in ("z", "a")]
    b.output(b.op("SUB", inputs, name="s"), b.op("MUL", inputs, name="p"))
    return dumps(b.model(), "tflite")


def test_a_script_runs_by_index(module: Any, tmp_path: Path) -> None:
    path = tmp_path / "chain.tflite"
    path.write_bytes(chain())
    model = module.CompiledModel.from_file(str(path), module.HardwareAccelerator.CPU)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for row in range(2):
        inputs[0].write(ROWS[row : row + 1])
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].read(4, np.float32), ANSWER[row])


def test_a_script_runs_by_name(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    given = {"x": model.create_input_buffer_by_name("serve", "x")}
    result = {"y": model.create_output_buffer_by_name("serve", "y")}
    given["x"].write(ROWS[:1])
    model.run_by_name("serve", given, result)
    np.testing.assert_array_equal(result["y"].read(4, np.float32), ANSWER[0])


def test_signatures_are_described(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    assert model.get_signature_list() == {"serve": {"inputs": ["x"], "outputs": ["y"]}}
    assert model.get_signature_by_index(0) == {"key": "serve", "inputs": ["x"], "outputs": ["y"]}
    assert (model.get_num_signatures(), model.get_signature_index("serve")) == (1, 0)
    assert model.get_signature_index("nobody") == -1
    assert model.is_fully_accelerated() is True
    given = {"name": "x", "index": 0, "dtype": "float32", "shape": [1, 4]}
    assert model.get_input_tensor_details("serve") == {"x": given}
    result = {"name": "y", "index": 3, "dtype": "float32", "shape": [1, 4]}
    assert model.get_output_tensor_details("serve") == {"y": result}
    needs = {"buffer_size": 16, "supported_types": [1]}
    assert model.get_input_buffer_requirements(0) == needs
    assert model.get_output_buffer_requirements(0, 0) == needs


def test_a_network_without_signatures_has_one(module: Any) -> None:
    model = module.CompiledModel.from_buffer(pair())
    names = {"inputs": ["z", "a"], "outputs": ["s", "p"]}
    assert model.get_signature_list() == {UNNAMED: names}
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    for buffer, row in zip(inputs, ROWS, strict=True):
        buffer.write(row)
    model.run_by_index(0, inputs, outputs)
    np.testing.assert_array_equal(outputs[0].read(4, np.float32), ROWS[0] - ROWS[1])
    np.testing.assert_array_equal(outputs[1].read(4, np.float32), ROWS[0] * ROWS[1])
    model.run_by_name(UNNAMED, {"a": inputs[0], "z": inputs[1]}, {"p": outputs[1], "s": outputs[0]})
    np.testing.assert_array_equal(outputs[0].read(4, np.float32), ROWS[1] - ROWS[0])


SIGNATURES = [
    "LiteRT__core_testdata_multi_signature_model",
    "ai-edge-quantizer__tests_models_two_signatures",
    "mediapipe__tensor_testdata_test_two_signature_keys_model",
]


@pytest.mark.parametrize("name", SIGNATURES)
def test_each_signature_is_described_and_run_as_by_litert(name: str) -> None:
    path = str(corpus(f"singleop/models/{name}.tflite"))
    ours = circlet_package.CompiledModel.from_file(path)
    theirs = litert_module().CompiledModel.from_file(path)
    assert list(ours.get_signature_list().items()) == list(theirs.get_signature_list().items())
    for index, (key, names) in enumerate(ours.get_signature_list().items()):
        assert ours.get_input_tensor_details(key) == theirs.get_input_tensor_details(key)
        assert ours.get_output_tensor_details(key) == theirs.get_output_tensor_details(key)
        for place in range(len(names["inputs"])):
            needs = ours.get_input_buffer_requirements(place, index)
            assert needs == theirs.get_input_buffer_requirements(place, index)
        for mine, other in zip(results_of(ours, index), results_of(theirs, index), strict=True):
            np.testing.assert_array_equal(mine, other)


def results_of(model: Any, index: int, given: list[np.ndarray] | None = None) -> list[np.ndarray]:
    """The outputs of a signature for seeded inputs, or for those given."""
    inputs, outputs = model.create_input_buffers(index), model.create_output_buffers(index)
    random = np.random.default_rng(0)
    for place, buffer in enumerate(inputs):
        details = buffer.get_tensor_details()
        value = random.uniform(-1, 1, details["shape"]).astype(details["dtype"])
        buffer.write(value if given is None else given[place])
    model.run_by_index(index, inputs, outputs)
    details = [buffer.get_tensor_details() for buffer in outputs]
    return [
        buffer.read(int(np.prod(entry["shape"])), np.dtype(entry["dtype"])).reshape(entry["shape"])
        for buffer, entry in zip(outputs, details, strict=True)
    ]


@pytest.mark.parametrize("name", ["conv_fc_mnist_a8w8", "kws_dscnn_int8", "resnet8_cifar10_float"])
def test_a_network_gives_its_golden_answer(module: Any, name: str) -> None:
    path = corpus(f"models/{name}.tflite")
    options = module.Options(
        hardware_accelerators=module.HardwareAccelerator.CPU,
        cpu_options=module.CpuOptions(num_threads=2, kernel_mode=module.CpuKernelMode.REFERENCE),
    )
    with np.load(corpus(f"golden/{name}.tflite.npz")) as arrays:
        given, golden = arrays["rand/in/0"], arrays["rand/out/0"]
    with module.CompiledModel.from_file(str(path), options=options) as model:
        (result,) = results_of(model, 0, [given])
    assert result.dtype == golden.dtype
    np.testing.assert_allclose(result, golden, atol=1e-4 if golden.dtype.kind == "f" else 0)


def test_an_input_can_be_resized(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    model.resize_input_tensor(0, [2, 4])
    assert model.get_input_tensor_details("serve")["x"]["shape"] == [2, 4]
    assert model.get_output_tensor_details("serve")["y"]["shape"] == [2, 4]
    (result,) = results_of(model, 0, [ROWS])
    np.testing.assert_array_equal(result, ANSWER)
    model.resize_input_tensor_by_name("serve", "x", (1, 4))
    (result,) = results_of(model, 0, [ROWS[1:]])
    np.testing.assert_array_equal(result, ANSWER[1:])


def test_buffers_of_another_size_resize_the_network(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    small = model.create_input_buffers(0), model.create_output_buffers(0)
    model.resize_input_tensor(0, [2, 4])
    model.create_output_buffers(0)
    small[0][0].write(ROWS[:1])
    model.run_by_index(0, *small)
    np.testing.assert_array_equal(small[1][0].read(4, np.float32), ANSWER[0])
    assert model.get_input_tensor_details("serve")["x"]["shape"] == [1, 4]


RESIZES = [
    ([1, 5], True, "New shape is not compatible with current shape."),
    ([1], True, "New shape rank does not match current shape rank."),
    ([-1, 4], True, "Dimensions must be positive."),
    ([0, 4], True, "Dimensions must be positive."),
    ([-1, 4], False, "Dimensions must be positive."),
]


@pytest.mark.parametrize(("size", "strict", "sentence"), RESIZES)
def test_a_size_that_cannot_be_is_refused(
    module: Any, size: list[int], strict: bool, sentence: str
) -> None:
    model = module.CompiledModel.from_buffer(chain())
    refuses(RuntimeError, sentence, model.resize_input_tensor, 0, size, 0, strict)
    assert model.get_input_tensor_details("serve")["x"]["shape"] == [1, 4]
    (result,) = results_of(model, 0, [ROWS[:1]])
    np.testing.assert_array_equal(result, ANSWER[:1])


def test_a_size_that_does_not_work_can_be_taken_back(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    model.resize_input_tensor(0, [1, 5], strict=False)
    assert model.get_input_tensor_details("serve")["x"]["shape"] == [1, 5]
    sentence = "Failed to allocate tensors"
    refuses(RuntimeError, sentence, model.get_output_tensor_details, "serve")
    model.resize_input_tensor(0, [2, 4], strict=False)
    (result,) = results_of(model, 0, [ROWS])
    np.testing.assert_array_equal(result, ANSWER)


def test_a_fixed_input_can_be_resized_where_that_is_asked_for(module: Any) -> None:
    model = module.CompiledModel.from_buffer(pair())
    sentence = "New shape is not compatible with current shape."
    refuses(RuntimeError, sentence, model.resize_input_tensor, 0, [2, 4])
    model.resize_input_tensor(0, [2, 4], strict=False)
    model.resize_input_tensor(1, [2, 4], strict=False)
    assert results_of(model, 0, [ROWS, ROWS])[0].tolist() == np.zeros((2, 4)).tolist()


def test_what_there_is_not_is_refused(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    missing = "Signature not found: nobody"
    refuses(RuntimeError, missing, model.get_input_tensor_details, "nobody")
    refuses(RuntimeError, missing, model.create_output_buffer_by_name, "nobody", "y")
    sentence = "Input tensor not found: z"
    refuses(RuntimeError, sentence, model.create_input_buffer_by_name, "serve", "z")
    refuses(RuntimeError, "Input index out of range", model.get_input_buffer_requirements, 9)
    refuses(RuntimeError, "", model.create_input_buffers, 9)
    refuses(RuntimeError, "Input index out of range", model.resize_input_tensor, 9, [1, 4])
    by_name = model.resize_input_tensor_by_name
    refuses(ValueError, "Unknown signature: nobody", by_name, "nobody", "x", [1, 4])
    refuses(ValueError, "Unknown input 'z' for signature 'serve'", by_name, "serve", "z", [1, 4])


def test_buffers_that_are_too_few_or_too_many_are_refused(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    run = model.run_by_index
    sentence = "Input buffer size mismatch: number of inputs:1 vs buffers:"
    refuses(RuntimeError, f"{sentence}0", run, 0, [], outputs)
    refuses(RuntimeError, f"{sentence}2", run, 0, inputs * 2, outputs)
    refuses(RuntimeError, "Output buffer size mismatch", run, 0, inputs, [])
    refuses(RuntimeError, "Signature index is out of range", run, 9, inputs, outputs)
    refuses(AttributeError, "capsule", run, 0, [ROWS], outputs)
    sentence = "The given map is missing some output TensorBuffers"
    refuses(RuntimeError, sentence, model.run_by_name, "serve", {"x": inputs[0]}, {})
    sentence = "Failed to get signature_index"
    refuses(RuntimeError, sentence, model.run_by_name, "nobody", {"x": inputs[0]}, {})


def test_a_name_that_is_missing_is_no_silent_answer() -> None:
    model = circlet_package.CompiledModel.from_buffer(chain())
    (given,), (result,) = model.create_input_buffers(0), model.create_output_buffers(0)
    for names in ({}, {"z": given}, {"x": given, "z": given}):
        with pytest.raises(RuntimeError, match="missing some input TensorBuffers"):
            model.run_by_name("serve", names, {"y": result})


def test_a_model_that_cannot_be_read_is_refused(module: Any) -> None:
    model = module.CompiledModel
    refuses(RuntimeError, "Failed to load model from file", model.from_file, "/nowhere")
    refuses(RuntimeError, "Failed to load model from buffer", model.from_buffer, b"no network")
    refuses(RuntimeError, "Failed to load model from buffer", model.from_buffer, b"")
    refuses(TypeError, "", model.from_buffer, 5)
    refuses(TypeError, "", model.from_file, 5)


def test_processors_are_chosen(module: Any) -> None:
    make, accelerators = module.CompiledModel.from_buffer, module.HardwareAccelerator
    assert [int(entry) for entry in accelerators] == [1, 2, 4]
    refuses(RuntimeError, "Some ops are not accelerated", make, chain(), accelerators.NPU)
    refuses(RuntimeError, "No acceleration provided.", make, chain(), accelerators(0))
    both = {"hardware_accel": accelerators.CPU, "options": module.Options()}
    sentence = "Pass either options or hardware_accel, not both."
    refuses(ValueError, sentence, lambda: make(chain(), **both))
    assert make(chain(), accelerators.NPU | accelerators.CPU).get_num_signatures() == 1
    options = module.Options.create()
    options.cpu_options.num_threads = 0
    assert make(chain(), options=options).get_num_signatures() == 1


def test_circlet_runs_on_the_cpu_where_a_gpu_may_help() -> None:
    accelerators = circlet_package.HardwareAccelerator
    model = circlet_package.CompiledModel.from_buffer(chain(), accelerators.GPU | accelerators.CPU)
    np.testing.assert_array_equal(results_of(model, 0, [ROWS[:1]])[0], ANSWER[:1])
    make = circlet_package.CompiledModel.from_buffer
    refuses(RuntimeError, "Some ops are not accelerated", make, chain(), accelerators.GPU)


def test_a_model_and_an_environment_are_closed(module: Any) -> None:
    environment = module.Environment.create()
    with module.CompiledModel.from_buffer(chain(), environment=environment) as model:
        assert model.environment is environment
    refuses(AttributeError, "", model.get_num_signatures)
    environment.close()
    sentence = "Environment is no longer valid"
    refuses(ValueError, sentence, lambda: environment.capsule)
    make = module.CompiledModel.from_buffer
    refuses(ValueError, sentence, lambda: make(chain(), environment=environment))
    twice = module.Environment.create
    refuses(ValueError, "twice", lambda: twice(options="a", runtime_path="b"))
    options = module.EnvironmentOptions()
    refuses(ValueError, "Pass either", lambda: twice(options=options, runtime_path="b"))


def test_an_output_whose_size_the_data_decide_fills_its_buffer() -> None:
    b = builder()
    found = b.op("WHERE", [b.input("x", DType.BOOL, (4,))], name="y")
    found.default_shape = (4, 1)
    model = circlet_package.CompiledModel.from_buffer(dumps(b.output(found).model(), "tflite"))
    (result,) = results_of(model, 0, [np.array([True, False, True, True])])
    assert result.reshape(-1)[:3].tolist() == [0, 2, 3]


@pytest.mark.parametrize("name", ["lstm", "unidirectional_sequence_lstm"])
def test_variables_live_on_from_run_to_run(name: str) -> None:
    path = corpus(f"singleop/models/LiteRT__tflite_testdata_{name}.tflite")
    model = circlet_package.CompiledModel.from_file(str(path))
    first, second = results_of(model, 0)[0], results_of(model, 0)[0]
    again = circlet_package.CompiledModel.from_file(str(path))
    np.testing.assert_array_equal(results_of(again, 0)[0], first)
    assert np.abs(first - second).max() > 1e-3


def test_an_input_that_a_signature_does_not_name_is_no_silent_answer() -> None:
    b = builder()
    inputs = [b.input(name, DType.FLOAT32, (1, 4)) for name in ("x", "w")]
    named = b.output(b.op("ADD", inputs, name="y")).model("serve")
    del named.signatures[0].inputs["w"]
    model = circlet_package.CompiledModel.from_buffer(dumps(named, "tflite"))
    assert model.get_signature_by_index(0)["inputs"] == ["x"]
    with pytest.raises(RuntimeError, match="without a name"):
        results_of(model, 0)


def test_strings_are_refused_where_buffers_are_made() -> None:
    b = builder()
    inputs = [b.input("x", DType.STRING, (2,)), b.constant("i", np.array([1], np.int32))]
    named = b.output(b.op("GATHER", inputs, name="y")).model("serve")
    model = circlet_package.CompiledModel.from_buffer(dumps(named, "tflite"))
    assert model.get_input_tensor_details("serve")["x"]["dtype"] == "string"
    with pytest.raises(RuntimeError, match="strings do not fit into a buffer"):
        model.create_input_buffers(0)


def test_an_unknown_custom_op_gives_the_report() -> None:
    from circlet.errors import UnsupportedOpsError

    path = str(corpus("models/custom_op_FillFrom.tflite"))
    with pytest.raises(RuntimeError) as caught:
        circlet_package.CompiledModel.from_file(path)
    assert isinstance(caught.value, UnsupportedOpsError)
