"""Buffers of a compiled model: both engines exchange the same elements with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet as circlet_package
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder
from tests.frontends.interpreters import ANSWER, ROWS, chain
from tests.frontends.test_compiled_model import module, refuses

__all__ = ["module"]


def aligned(count: int) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes, as LiteRT needs them to share memory."""
    raw = np.zeros(count + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count]


def test_elements_are_written_and_read(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    (buffer,) = model.create_input_buffers(0)
    assert buffer.get_tensor_details() == {"dtype": "float32", "shape": [1, 4]}
    buffer.write(ROWS[:1])
    np.testing.assert_array_equal(buffer.read(4, np.float32), ROWS[0])
    np.testing.assert_array_equal(buffer.read(2, np.dtype("float32")), ROWS[0, :2])
    buffer.write(np.repeat(ROWS[1], 2)[::2])
    np.testing.assert_array_equal(buffer.read(4, np.float32), ROWS[1])
    buffer.write(ROWS[0, :2])
    np.testing.assert_array_equal(buffer.read(4, np.float32), [*ROWS[0, :2], *ROWS[1, 2:]])
    buffer.write(ROWS[:1].view(np.uint8))
    np.testing.assert_array_equal(buffer.read(16, np.int8).view(np.float32), ROWS[0])


def test_what_is_written_is_not_the_array_itself(module: Any) -> None:
    (buffer,) = module.CompiledModel.from_buffer(chain()).create_input_buffers(0)
    given = ROWS[:1].copy()
    buffer.write(given)
    given[...] = 0
    np.testing.assert_array_equal(buffer.read(4, np.float32), ROWS[0])


def test_what_does_not_fit_is_refused(module: Any) -> None:
    (buffer,) = module.CompiledModel.from_buffer(chain()).create_input_buffers(0)
    sentence = "source buffer is larger than the tensor buffer"
    refuses(RuntimeError, sentence, buffer.write, ROWS)
    sentence = "destination buffer is larger than the tensor buffer"
    refuses(RuntimeError, sentence, buffer.read, 5, np.float32)
    refuses(ValueError, "data_array must be a NumPy array", buffer.write, [1.0])
    refuses(ValueError, "Unsupported dtype: float64", buffer.write, ROWS.astype(np.float64))
    refuses(ValueError, "Unsupported dtype: <class 'numpy.float64'>", buffer.read, 1, np.float64)
    refuses(ValueError, "Unsupported dtype: junk", buffer.read, 1, "junk")
    refuses(ValueError, "negative dimensions", buffer.read, -1, np.float32)


def test_memory_of_the_host_is_shared(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    inputs, array = model.create_input_buffers(0), aligned(4)
    shared = module.TensorBuffer.create_from_host_memory(array)
    assert shared.get_tensor_details() == {"dtype": "float32", "shape": [4]}
    inputs[0].write(ROWS[:1])
    model.run_by_index(0, inputs, [shared])
    np.testing.assert_array_equal(array, ANSWER[0])
    np.testing.assert_array_equal(shared.read(4, np.float32), ANSWER[0])


def test_memory_of_the_host_may_be_larger_than_an_output(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    inputs, array = model.create_input_buffers(0), aligned(8)
    inputs[0].write(ROWS[:1])
    model.run_by_index(0, inputs, [module.TensorBuffer.create_from_host_memory(array)])
    np.testing.assert_array_equal(array, [*ANSWER[0], 0, 0, 0, 0])


def test_memory_that_cannot_be_shared_is_refused(module: Any) -> None:
    make = module.TensorBuffer.create_from_host_memory
    refuses(ValueError, "data_array must be a NumPy array", make, [1.0])
    sentence = "data_array must be C-contiguous for zero-copy host-memory binding"
    refuses(ValueError, sentence, make, np.zeros((4, 4), np.float32)[:, ::2])
    refuses(ValueError, "Unsupported dtype: float64", make, np.zeros(4))


def test_memory_of_another_size_or_type_is_refused(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    outputs, make = model.create_output_buffers(0), module.TensorBuffer.create_from_host_memory
    for array in (np.zeros(8, np.float32), np.zeros(4, np.int32)):
        refuses(RuntimeError, "Failed to register", model.run_by_index, 0, [make(array)], outputs)


def test_a_destroyed_buffer_is_of_no_use(module: Any) -> None:
    model = module.CompiledModel.from_buffer(chain())
    (given,), (result,) = model.create_input_buffers(0), model.create_output_buffers(0)
    given.destroy()
    given.destroy()
    refuses(ValueError, "TensorBuffer has been destroyed", lambda: given.capsule)
    refuses(ValueError, "has been destroyed", model.run_by_index, 0, [given], [result])
    refuses(RuntimeError, "ReadTensorToBuffer: invalid capsule", given.read, 1, np.float32)
    refuses(RuntimeError, "WriteTensorBuffer: invalid capsule", given.write, ROWS)


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT32, DType.BOOL, DType.FLOAT16])
def test_elements_of_other_types_pass_through(module: Any, dtype: DType) -> None:
    b = builder()
    shape = b.constant("shape", np.array([3, 1], np.int32))
    b.output(b.op("RESHAPE", [b.input("x", dtype, (3,)), shape], name="y"))
    model = module.CompiledModel.from_buffer(dumps(b.model("f"), "tflite"))
    (given,), (result,) = model.create_input_buffers(0), model.create_output_buffers(0)
    assert given.get_tensor_details() == {"dtype": dtype.numpy.name, "shape": [3]}
    value = np.array([0, 1, 1]).astype(dtype.numpy)
    given.write(value)
    model.run_by_index(0, [given], [result])
    np.testing.assert_array_equal(result.read(3, dtype.numpy), value)


def test_wide_integers_are_exchanged_as_they_are_or_in_parts() -> None:
    b = builder()
    shape = b.constant("shape", np.array([2], np.int32))
    b.output(b.op("RESHAPE", [b.input("x", DType.INT64, (2,)), shape], name="y"))
    model = circlet_package.CompiledModel.from_buffer(dumps(b.model(), "tflite"))
    (given,), (result,) = model.create_input_buffers(0), model.create_output_buffers(0)
    value = np.array([1 << 40, -2])
    for array in (value, value.view(np.int32)):
        given.write(array)
        model.run_by_index(0, [given], [result])
        np.testing.assert_array_equal(result.read(2, np.int64), value)
        np.testing.assert_array_equal(result.read(4, np.int32), value.view(np.int32))


def test_numbers_of_another_kind_are_no_silent_answer() -> None:
    (buffer,) = circlet_package.CompiledModel.from_buffer(chain()).create_input_buffers(0)
    for dtype in (np.int32, np.float16, np.int64):
        with pytest.raises(ValueError, match="the buffer holds float32"):
            buffer.write(np.zeros(1, dtype))
        with pytest.raises(ValueError, match="the buffer holds float32"):
            buffer.read(1, dtype)


def test_memory_that_is_read_only_is_not_written_to() -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    buffer = circlet_package.TensorBuffer.create_from_host_memory(array)
    with pytest.raises(RuntimeError, match="read-only"):
        buffer.write(ROWS[:1])
    model = circlet_package.CompiledModel.from_buffer(chain())
    with pytest.raises(RuntimeError, match="read-only"):
        model.run_by_index(0, model.create_input_buffers(0), [buffer])
