"""One file for both engines: what LiteRT's Python interpreter does, Circlet's does too."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpora import corpus
from tests.frontends.interpreters import ANSWER, ROWS, Make, by_name, chain, circlet, litert

DETAIL_KEYS = {"name", "index", "shape", "shape_signature", "dtype", "quantization"}
DETAIL_KEYS |= {"quantization_parameters", "sparsity_parameters"}
NETWORKS = [
    *("conv_fc_mnist_a8w8", "hello_world_int8", "hello_world_float", "kws_dscnn_int8"),
    *("resnet8_cifar10_float", "ad01_int8"),
]


@pytest.mark.smoke
def test_a_script_runs_from_bytes(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], ROWS[:1])
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_array_equal(result, ANSWER[:1])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_its_golden_answer(make: Make, name: str) -> None:
    path = corpus(f"models/{name}.tflite")
    interpreter = make(model_path=str(path), num_threads=2)
    interpreter.allocate_tensors()
    (given,), (golden,) = golden_case(path)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert result.dtype == golden.dtype
    if golden.dtype.kind == "f":
        scale = max(1.0, float(np.abs(golden).max()))
        assert np.abs(result - golden).max() <= 1e-4 * scale
    else:
        np.testing.assert_array_equal(result, golden)


def golden_case(path: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and reference outputs of a network's random case."""
    with np.load(corpus(f"golden/{path.name}.npz")) as arrays:
        inputs = [arrays[key] for key in arrays.files if key.startswith("rand/in/")]
        outputs = [arrays[key] for key in arrays.files if key.startswith("rand/out/")]
    return inputs, outputs


@pytest.mark.parametrize(
    "name", [*NETWORKS, "mobilenet_v1_0.25_128_quant", "qwen_fc_blockwise_int4"]
)
def test_details_are_those_of_litert(name: str) -> None:
    path = str(corpus(f"models/{name}.tflite"))
    ours, theirs = circlet(model_path=path), litert(model_path=path)
    pairs = zip(ours.get_tensor_details(), theirs.get_tensor_details(), strict=False)
    for mine, other in [
        *zip(ours.get_input_details(), theirs.get_input_details(), strict=True),
        *zip(ours.get_output_details(), theirs.get_output_details(), strict=True),
        *pairs,
    ]:
        same_details(mine, other)


def same_details(mine: dict[str, Any], other: dict[str, Any]) -> None:
    assert mine.keys() == other.keys()
    for key, value in mine.items():
        assert type(value) is type(other[key]), key
        if isinstance(value, dict):
            same_details(value, other[key])
        elif isinstance(value, np.ndarray):
            assert value.dtype == other[key].dtype, key
            np.testing.assert_array_equal(value, other[key])
        else:
            assert value == other[key], key


def test_details_have_their_keys_and_types(make: Make) -> None:
    (details,) = make(model_content=chain()).get_input_details()
    assert details.keys() == DETAIL_KEYS
    assert (details["name"], details["dtype"]) == ("x", np.float32)
    assert details["shape"].tolist() == [1, 4]
    assert details["shape_signature"].tolist() == [-1, 4]
    assert details["quantization"] == (0.0, 0)


def test_nothing_can_be_used_before_it_is_allocated(make: Make) -> None:
    interpreter = make(model_content=chain())
    with pytest.raises(ValueError):
        interpreter.set_tensor(by_name(interpreter, "x"), ROWS[:1])
    with pytest.raises(ValueError):
        interpreter.get_tensor(by_name(interpreter, "y"))
    with pytest.raises(RuntimeError):
        interpreter.invoke()


@pytest.mark.parametrize(
    "value", [ROWS[:1].astype(np.float64), ROWS, ROWS[0], [[1, 2, 3, 4]]], ids=type
)
def test_a_value_that_does_not_fit_is_a_value_error(make: Make, value: object) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    with pytest.raises(ValueError):
        interpreter.set_tensor(by_name(interpreter, "x"), value)


@pytest.mark.parametrize("index", [-1, 1000])
def test_an_index_that_does_not_exist_is_a_value_error(make: Make, index: int) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    with pytest.raises(ValueError):
        interpreter.set_tensor(index, ROWS[:1])
    with pytest.raises(ValueError):
        interpreter.get_tensor(index)
    with pytest.raises(ValueError):
        interpreter.tensor(index)()


def test_a_value_may_be_strided(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    interpreter.set_tensor(by_name(interpreter, "x"), np.repeat(ROWS[:1], 2, axis=1)[:, ::2])
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(by_name(interpreter, "y")), ANSWER[:1])


def test_views_are_the_memory_that_is_run_on(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    source = interpreter.tensor(by_name(interpreter, "x"))
    result = interpreter.tensor(by_name(interpreter, "y"))
    source()[...] = ROWS[:1]
    interpreter.invoke()
    np.testing.assert_array_equal(result(), ANSWER[:1])
    source()[...] = ROWS[1:]
    interpreter.invoke()
    np.testing.assert_array_equal(result(), ANSWER[1:])


def test_get_tensor_copies(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    interpreter.set_tensor(by_name(interpreter, "x"), ROWS[:1])
    interpreter.invoke()
    kept = interpreter.get_tensor(by_name(interpreter, "y"))
    interpreter.set_tensor(by_name(interpreter, "x"), ROWS[1:])
    interpreter.invoke()
    np.testing.assert_array_equal(kept, ANSWER[:1])


def test_constants_can_be_read(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    bias = interpreter.get_tensor(by_name(interpreter, "bias"))
    np.testing.assert_array_equal(bias, np.arange(4, dtype=np.float32))


def test_intermediate_tensors_can_be_preserved(make: Make) -> None:
    interpreter = make(model_content=chain(), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(by_name(interpreter, "x"), ROWS[:1])
    interpreter.invoke()
    hidden = interpreter.get_tensor(by_name(interpreter, "hidden"))
    np.testing.assert_array_equal(hidden, np.maximum(ROWS[:1], 0))


@pytest.mark.parametrize("name", ["conv_fc_mnist_a8w8", "kws_dscnn_int8"])
def test_preserved_tensors_are_those_of_litert(name: str) -> None:
    path = corpus(f"models/{name}.tflite")
    (given, *_), _ = golden_case(path)
    both = [
        make(model_path=str(path), experimental_preserve_all_tensors=True)
        for make in (circlet, litert)
    ]
    for interpreter in both:
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
        interpreter.invoke()
    ours, theirs = both
    for entry in ours.get_tensor_details():
        mine, other = (i.get_tensor(entry["index"]) for i in (ours, theirs))
        np.testing.assert_array_equal(mine, other, err_msg=entry["name"])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"model_path": "/nowhere.tflite"},
        {"model_content": b"neither .tflite nor .circle"},
        {"model_path": "/nowhere.tflite", "model_content": b"x"},
        {"model_content": chain(), "num_threads": 0},
        {"model_content": chain(), "num_threads": "two"},
        {"model_content": chain(), "experimental_op_resolver_type": "fast"},
    ],
)
def test_arguments_that_cannot_be_used_are_a_value_error(
    make: Make, arguments: dict[str, object]
) -> None:
    with pytest.raises(ValueError):
        make(**arguments)


@pytest.mark.parametrize("name", ["lstm", "unidirectional_sequence_lstm"])
def test_variables_live_on_until_they_are_reset(make: Make, name: str) -> None:
    path = corpus(f"singleop/models/LiteRT__tflite_testdata_{name}.tflite")
    interpreter = make(model_path=str(path))
    interpreter.allocate_tensors()
    results = []
    for turn in range(4):
        if turn == 2:
            interpreter.reset_all_variables()
        for details in interpreter.get_input_details():
            value = np.random.default_rng(0).uniform(-1, 1, details["shape"])
            interpreter.set_tensor(details["index"], value.astype(np.float32))
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    first, second, third, fourth = results
    assert np.abs(first - second).max() > 1e-3
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(second, fourth)


def test_ops_are_described_as_litert_describes_them() -> None:
    ours, theirs = (make(model_content=chain())._get_ops_details() for make in (circlet, litert))
    assert len(ours) == len(theirs) == 2
    for mine, other in zip(ours, theirs, strict=True):
        same_details(mine, other)


def test_errors_have_codes_and_cross_processes() -> None:
    import pickle

    from circlet.errors import CircletError, InputError

    with pytest.raises(ValueError) as caught:
        circlet()
    assert isinstance(caught.value, CircletError)
    assert caught.value.code == "E-INPUT"
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, InputError | ValueError)
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_an_unknown_custom_op_gives_the_report() -> None:
    from circlet.errors import UnsupportedOpsError

    interpreter = circlet(model_path=corpus("models/custom_op_FillFrom.tflite"))
    with pytest.raises(RuntimeError) as caught:
        interpreter.allocate_tensors()
    assert isinstance(caught.value, UnsupportedOpsError)
    assert [entry.kind for entry in caught.value.entries] == ["CUSTOM:FillFrom"]


def test_a_run_makes_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interpreter = circlet(model_content=chain(), experimental_preserve_all_tensors=True)
        interpreter.allocate_tensors()
        interpreter.invoke()
    assert interpreter.get_tensor(by_name(interpreter, "y")).shape == (1, 4)
