"""What LiteRT's interpreter refuses, Circlet's refuses: same exception, same first words.

LiteRT's own `interpreter_test.py` and scripts that match messages rely on them.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.errors import CircletError, InputError
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.corpora import corpus
from tests.frontends.interpreters import ROWS, Make, by_name, chain, circlet

X = 0


def refuses(
    kind: type[Exception], sentence: str, call: Callable[..., object], *given: object
) -> None:
    """Whether a call raises exactly this kind, with this at the start of its message."""
    with pytest.raises(kind) as caught:
        call(*given)
    text = str(caught.value)
    if isinstance(caught.value, CircletError):
        assert text.startswith(sentence), text
        assert f"[{caught.value.code}]" in text
    else:
        assert sentence in text


CONSTRUCTION = [
    ({}, ValueError, "`model_path` or `model_content` must be specified."),
    (
        {"model_path": "x.tflite", "model_content": b"y"},
        ValueError,
        "Can't both provide `model_path` and `model_content`",
    ),
    ({"model_path": "nowhere.tflite"}, ValueError, "Could not open 'nowhere.tflite'."),
    ({"model_path": Path("nowhere")}, ValueError, "Could not open 'nowhere'."),
    ({"model_content": b"short"}, ValueError, "The model is not a valid Flatbuffer buffer"),
    ({"model_content": b"wrong_identifier"}, ValueError, "The model is not a valid Flatbuffer"),
    ({"model_content": chain()[:200]}, ValueError, "The model is not a valid Flatbuffer buffer"),
    ({"model_content": chain(), "num_threads": -1}, ValueError, "num_threads should >= 1"),
    ({"model_content": chain(), "num_threads": 0}, ValueError, "num_threads should >= 1"),
    ({"model_content": chain(), "num_threads": 4.2}, ValueError, "type of num_threads should be"),
    ({"model_content": chain(), "num_threads": "2"}, ValueError, "type of num_threads should be"),
    (
        {"model_content": chain(), "experimental_op_resolver_type": "test"},
        ValueError,
        "Unrecognized passed in op resolver type: test",
    ),
    ({"model_path": 5}, TypeError, ""),
    ({"model_content": "text"}, TypeError, ""),
    ({"model_content": 5}, TypeError, ""),
]


@pytest.mark.parametrize(("arguments", "kind", "sentence"), CONSTRUCTION)
def test_an_interpreter_is_refused_in_litert_s_words(
    make: Make, arguments: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    refuses(kind, sentence, lambda: make(**arguments))


def test_a_file_that_is_no_model_is_refused(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "text.tflite"
    path.write_bytes(b"a text, and no model")
    sentence = "The model is not a valid Flatbuffer buffer"
    refuses(ValueError, sentence, lambda: make(model_path=path))


def test_what_is_not_allocated_is_refused(make: Make) -> None:
    interpreter = make(model_content=chain())
    refuses(RuntimeError, "Invoke called on model that is not ready", interpreter.invoke)
    unset = "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first"
    refuses(ValueError, unset, interpreter.set_tensor, X, ROWS[:1])
    null = "Tensor data is null. Run allocate_tensors() first"
    refuses(ValueError, null, interpreter.get_tensor, by_name(interpreter, "y"))
    refuses(ValueError, null, interpreter.get_tensor, X)
    refuses(ValueError, null, interpreter.tensor(X))


def test_a_tensor_that_is_not_kept_is_refused() -> None:
    interpreter = circlet(model_content=chain())
    interpreter.allocate_tensors()
    hidden = by_name(interpreter, "hidden")
    unset = "Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first"
    null = "Tensor data is null. Run allocate_tensors() first"
    refuses(ValueError, null, interpreter.get_tensor, hidden)
    refuses(ValueError, null, interpreter.tensor(hidden))
    refuses(ValueError, unset, interpreter.set_tensor, hidden, ROWS[:1])


def test_a_name_in_a_message_is_escaped() -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x\x1b[2J", DType.FLOAT32, (1,))], name="y"))
    interpreter = circlet(model_content=dumps(b.model(), "tflite"))
    with pytest.raises(ValueError, match="Got value of type INT64") as caught:
        interpreter.set_tensor(0, [1])
    assert "\x1b" not in str(caught.value)


VALUES = [
    (
        ROWS[:1].astype(np.float64),
        "Got value of type FLOAT64 but expected type FLOAT32 for input 0, name: x",
    ),
    ([[1, 2, 3, 4]], "Got value of type INT64 but expected type FLOAT32 for input 0, name: x"),
    ("text", "Got value of type STRING but expected type FLOAT32 for input 0, name: x"),
    (None, "Got value of type STRING but expected type FLOAT32 for input 0, name: x"),
    (ROWS[0], "Dimension mismatch. Got 1 but expected 2 for input 0."),
    (ROWS, "Dimension mismatch. Got 2 but expected 1 for dimension 0 of input 0."),
    (ROWS[:1, :3], "Dimension mismatch. Got 3 but expected 4 for dimension 1 of input 0."),
]


@pytest.mark.parametrize(("value", "sentence"), VALUES)
def test_a_value_that_does_not_fit_is_refused(make: Make, value: object, sentence: str) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    refuses(ValueError, f"Cannot set tensor: {sentence}", interpreter.set_tensor, X, value)


def test_a_value_that_is_no_array_is_refused(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    ragged = [[1.0], [2.0, 3.0]]
    sentence = "Failed to convert value into readable tensor."
    refuses(ValueError, sentence, interpreter.set_tensor, X, ragged)


@pytest.mark.parametrize("index", [-1, 4, 1000])
def test_an_index_out_of_range_is_refused(make: Make, index: int) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    sentence = f"Invalid tensor index {index} exceeds max tensor index 4"
    refuses(ValueError, sentence, interpreter.set_tensor, index, ROWS[:1])
    refuses(ValueError, sentence, interpreter.get_tensor, index)
    refuses(ValueError, sentence, interpreter.tensor(index))
    refuses(ValueError, sentence, interpreter._get_tensor_details, index, 0)
    refuses(ValueError, "Invalid node index", interpreter._get_op_details, index)
    refuses(RuntimeError, "", interpreter.resize_tensor_input, index, [1, 4])


@pytest.mark.parametrize("index", ["0", None, 1.5])
def test_an_index_that_is_no_number_is_a_type_error(make: Make, index: Any) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    sentence = "incompatible function arguments."
    refuses(TypeError, sentence, interpreter.set_tensor, index, ROWS[:1])
    refuses(TypeError, sentence, interpreter.get_tensor, index)
    refuses(TypeError, sentence, interpreter.tensor(index))
    refuses(TypeError, sentence, interpreter.resize_tensor_input, index, [1, 4])


@pytest.mark.parametrize("index", [True, np.int64(0)])
def test_an_index_may_be_any_whole_number(make: Make, index: Any) -> None:
    interpreter = make(model_content=chain(), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert interpreter.get_tensor(index).shape == (1, 4)


@pytest.mark.parametrize("index", [1, -1, 3])
def test_a_subgraph_out_of_range_is_refused(make: Make, index: int) -> None:
    interpreter = make(model_content=chain())
    sentence = f"subgraph_index is out of range: {index} for the model, which has 1 subgraphs."
    refuses(ValueError, sentence, interpreter.get_tensor_details, index)
    sentence = f"Invalid subgraph index {index} exceeds max subgraph index 1"
    refuses(ValueError, sentence, interpreter.get_tensor, X, index)


SIZES: list[tuple[object, bool, type[Exception], str]] = [
    ([1, 5], True, RuntimeError, "Attempting to resize dimension 1 of tensor 0 with value 4 to 5."),
    ([1], True, RuntimeError, ""),
    ([1, 4, 1], True, RuntimeError, ""),
    ([], True, RuntimeError, ""),
    ([-1, 4], False, RuntimeError, ""),
    ([-1, 4], True, RuntimeError, ""),
    ([1, -4], False, RuntimeError, ""),
    ([2**31, 4], False, OverflowError, ""),
    (5, False, ValueError, "Shape should be 1D instead of 0."),
    ([[1, 2]], True, ValueError, "Shape should be 1D instead of 2."),
    (None, False, TypeError, ""),
    ("abc", False, ValueError, ""),
]


@pytest.mark.parametrize(("size", "strict", "kind", "sentence"), SIZES)
def test_a_size_that_can_never_work_is_refused_at_once(
    make: Make, size: Any, strict: bool, kind: type[Exception], sentence: str
) -> None:
    interpreter = make(model_content=chain())
    refuses(kind, sentence, interpreter.resize_tensor_input, X, size, strict)
    assert interpreter.get_input_details()[0]["shape"].tolist() == [1, 4]
    interpreter.allocate_tensors()
    interpreter.invoke()


def test_a_constant_cannot_be_resized(make: Make) -> None:
    interpreter = make(model_content=chain())
    sentence = "Attempting to resize a fixed-size tensor."
    bias = by_name(interpreter, "bias")
    refuses(RuntimeError, sentence, interpreter.resize_tensor_input, bias, [5])


@pytest.mark.parametrize("size", [[1], [1, 4, 1], [], [2**31 - 1] * 2])
def test_circlet_refuses_at_once_what_it_can_never_run(size: list[int]) -> None:
    interpreter = circlet(model_content=chain())
    if len(size) == 2:
        size = [*size, 4]
    with pytest.raises(RuntimeError, match="number of dimensions"):
        interpreter.resize_tensor_input(X, size)
    interpreter.allocate_tensors()


def test_sizes_whose_bytes_cannot_be_counted_are_refused(make: Make) -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (None,) * 4)], name="y"))
    interpreter = make(model_content=dumps(b.model(), "tflite"))
    size = [2**31 - 1] * 4
    refuses(RuntimeError, "", interpreter.resize_tensor_input, X, size)


def plain() -> bytes:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (1,))], name="y"))
    return dumps(b.model(), "tflite")


def test_a_signature_that_there_is_not_is_refused(make: Make) -> None:
    interpreter = make(model_content=chain())
    sentence = 'Invalid signature_key provided: "nobody".'
    refuses(ValueError, sentence, interpreter.get_signature_runner, "nobody")
    without = make(model_content=plain())
    sentence = "SignatureDef signature_key is None and model has 0 Signatures."
    refuses(ValueError, sentence, without.get_signature_runner)


def test_inputs_of_other_names_are_refused(make: Make) -> None:
    runner = make(model_content=chain()).get_signature_runner()
    sentence = "Invalid number of inputs provided for running a SignatureDef, expected 1 vs "
    refuses(ValueError, f"{sentence}provided 0", runner)
    refuses(ValueError, f"{sentence}provided 2", lambda: runner(x=ROWS, z=ROWS))
    refuses(ValueError, "Invalid Input name (z) for SignatureDef", lambda: runner(z=ROWS))


def test_an_operator_that_nobody_registered_is_refused(make: Make) -> None:
    interpreter = make(model_path=str(corpus("models/custom_op_FillFrom.tflite")))
    sentence = "Encountered unresolved custom op: FillFrom."
    refuses(RuntimeError, sentence, interpreter.allocate_tensors)


def test_errors_keep_their_words_across_processes() -> None:
    with pytest.raises(RuntimeError) as caught:
        circlet(model_content=chain()).invoke()
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, InputError)
    assert isinstance(again, RuntimeError)
    assert str(again) == str(caught.value)
    assert re.match(r"Invoke called on model that is not ready\.\n\[E-INPUT\] ", str(again))
