"""Sizes that are asked for or found, and signatures: both engines do the same."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.corpora import corpus
from tests.frontends.interpreters import ANSWER, ROWS, Make, by_name, chain, circlet


def test_an_input_can_be_resized(make: Make) -> None:
    interpreter = make(model_content=chain())
    index = by_name(interpreter, "x")
    interpreter.resize_tensor_input(index, [2, 4], strict=True)
    assert interpreter.get_input_details()[0]["shape"].tolist() == [2, 4]
    assert interpreter.get_input_details()[0]["shape_signature"].tolist() == [-1, 4]
    interpreter.allocate_tensors()
    interpreter.set_tensor(index, ROWS)
    interpreter.invoke()
    assert interpreter.get_output_details()[0]["shape"].tolist() == [2, 4]
    np.testing.assert_array_equal(interpreter.get_tensor(by_name(interpreter, "y")), ANSWER)


def test_a_resized_network_must_be_allocated_again(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.allocate_tensors()
    interpreter.resize_tensor_input(by_name(interpreter, "x"), np.array([2, 4]))
    with pytest.raises(RuntimeError):
        interpreter.invoke()
    with pytest.raises(ValueError):
        interpreter.set_tensor(by_name(interpreter, "x"), ROWS)


def test_strict_resizing_keeps_the_stated_sizes(make: Make) -> None:
    interpreter = make(model_content=chain())
    with pytest.raises(RuntimeError):
        interpreter.resize_tensor_input(by_name(interpreter, "x"), [1, 5], strict=True)


def test_sizes_that_the_network_cannot_work_with_fail_in_allocate(make: Make) -> None:
    interpreter = make(model_content=chain())
    interpreter.resize_tensor_input(by_name(interpreter, "x"), [1, 5])
    with pytest.raises(RuntimeError):
        interpreter.allocate_tensors()


def test_a_corpus_network_of_open_size_is_resized(make: Make) -> None:
    path = corpus("singleop/models/LiteRT__test_testdata_simple_add_dynamic_shape.tflite")
    interpreter = make(model_path=path)
    for details in interpreter.get_input_details():
        interpreter.resize_tensor_input(details["index"], (3, 128, 4))
    interpreter.allocate_tensors()
    for value, details in enumerate(interpreter.get_input_details(), 1):
        interpreter.set_tensor(details["index"], np.full((3, 128, 4), value, np.float32))
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_array_equal(result, np.full((3, 128, 4), 3, np.float32))


def test_an_output_has_the_size_that_the_data_give_it(make: Make) -> None:
    b = builder()
    found = b.op("WHERE", [b.input("x", DType.BOOL, (4,))], name="y")
    found.default_shape = (1, 1)
    interpreter = make(model_content=dumps(b.output(found).model(), "tflite"))
    interpreter.allocate_tensors()
    output = by_name(interpreter, "y")
    for given in ([True, False, True, True], [False, True, False, False]):
        interpreter.set_tensor(by_name(interpreter, "x"), np.array(given))
        interpreter.invoke()
        assert interpreter.get_tensor(output).tolist() == [[i] for i in np.flatnonzero(given)]
        assert interpreter.get_output_details()[0]["shape"].tolist() == [sum(given), 1]


def with_constant_input(signature: str = "") -> bytes:
    """y = x + [3], where the file lists the constant among the inputs, as some converters do."""
    b = builder()
    three = b.constant("three", np.array([3], np.float32))
    x = b.input("x", DType.FLOAT32, (2,))
    b.graph.inputs.append(three)
    return dumps(b.output(b.op("ADD", [x, three], name="y")).model(signature), "tflite")


def test_a_signature_may_have_a_constant_input(make: Make) -> None:
    runner = make(model_content=with_constant_input("serve")).get_signature_runner()
    three = np.array([3], np.float32)
    assert runner(x=np.array([1, 2], np.float32), three=three)["y"].tolist() == [4, 5]


def test_a_constant_of_a_signature_keeps_its_value() -> None:
    runner = circlet(model_content=with_constant_input("serve")).get_signature_runner()
    with pytest.raises(ValueError, match="a constant cannot be set"):
        runner(x=np.zeros(2, np.float32), three=np.zeros(1, np.float32))


def test_an_input_may_be_a_constant(make: Make) -> None:
    interpreter = make(model_content=with_constant_input())
    assert [entry["name"] for entry in interpreter.get_input_details()] == ["x", "three"]
    interpreter.allocate_tensors()
    interpreter.set_tensor(by_name(interpreter, "x"), np.array([1, 2], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(by_name(interpreter, "y")).tolist() == [4, 5]
    assert interpreter.get_tensor(by_name(interpreter, "three")).tolist() == [3]
    with pytest.raises(RuntimeError, match="fixed-size"):
        interpreter.resize_tensor_input(by_name(interpreter, "three"), [2])


def test_a_compiled_model_may_have_a_constant_input() -> None:
    from circlet import CompiledModel

    model = CompiledModel.from_buffer(with_constant_input())
    (given,), (result,) = model.create_input_buffers(0), model.create_output_buffers(0)
    given.write(np.array([1, 2], np.float32))
    model.run_by_index(0, [given], [result])
    assert result.read(2, np.float32).tolist() == [4, 5]


def test_a_signature_is_run_by_names(make: Make) -> None:
    interpreter = make(model_content=chain())
    assert interpreter.get_signature_list() == {"serve": {"inputs": ["x"], "outputs": ["y"]}}
    runner = interpreter.get_signature_runner()
    assert runner.get_input_details()["x"]["index"] == by_name(interpreter, "x")
    assert runner.get_output_details()["y"]["dtype"] is np.float32
    np.testing.assert_array_equal(runner(x=ROWS)["y"], ANSWER)
    np.testing.assert_array_equal(runner(x=ROWS[:1])["y"], ANSWER[:1])


def test_each_signature_has_its_graph(make: Make) -> None:
    path = corpus("singleop/models/LiteRT__core_testdata_multi_signature_model.tflite")
    interpreter = make(model_path=str(path))
    assert sorted(interpreter.get_signature_list()) == ["add", "mul", "sub"]
    assert interpreter.num_subgraphs() == 3
    a, b = (np.full((10, 10), value, np.float32) for value in (3, 4))
    results = {
        key: interpreter.get_signature_runner(key)(a=a, b=b) for key in ("add", "mul", "sub")
    }
    assert {key: float(value["output"][0, 0]) for key, value in results.items()} == {
        "add": 7,
        "mul": 12,
        "sub": -1,
    }


@pytest.mark.parametrize("key", [None, "nobody"])
def test_a_signature_that_does_not_exist_is_a_value_error(make: Make, key: str | None) -> None:
    b = builder()
    b.output(b.op("RELU", [b.input("x", DType.FLOAT32, (1,))], name="y"))
    interpreter = make(model_content=dumps(b.model(), "tflite"))
    with pytest.raises(ValueError):
        interpreter.get_signature_runner(key)


@pytest.mark.parametrize("names", [[], ["x", "z"], ["z"]])
def test_wrong_names_for_a_signature_are_a_value_error(make: Make, names: list[str]) -> None:
    runner = make(model_content=chain()).get_signature_runner("serve")
    with pytest.raises(ValueError):
        runner(**dict.fromkeys(names, ROWS))


def test_a_call_that_fails_leaves_the_sizes_as_they_were() -> None:
    runner = circlet(model_content=chain()).get_signature_runner()
    with pytest.raises(RuntimeError, match="dimensions"):
        runner(x=np.zeros((), np.float32))
    assert runner.get_input_details()["x"]["shape"].tolist() == [1, 4]
    np.testing.assert_array_equal(runner(x=ROWS)["y"], ANSWER)


def test_a_value_that_is_no_array_is_a_coded_value_error() -> None:
    interpreter = circlet(model_content=chain())
    interpreter.allocate_tensors()
    with pytest.raises(ValueError, match="E-INPUT"):
        interpreter.set_tensor(0, [[1.0], [2.0, 3.0]])
