"""Values and bindings of ONNX Runtime's interface: one script, two engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="networks are made with the package onnx")

from tests.frontends import onnx_models as models
from tests.frontends.onnx_models import ROWS, Y


def test_values_of_arrays_share_their_memory(ort: Any) -> None:
    array = ROWS.copy()
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert (value.shape(), value.data_type(), value.element_type()) == ([3, 2], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", 24)
    assert value.has_value() and value.is_tensor()
    assert not value.is_sparse_tensor() and not value.is_tensor_sequence()
    assert value.data_ptr() == array.ctypes.data == np.asarray(value).ctypes.data
    np.testing.assert_array_equal(np.asarray(value, np.float64), array)
    np.testing.assert_array_equal(ort.OrtValue.from_dlpack(value).numpy(), array)
    assert value.__dlpack_device__() == (1, 0)


def test_values_of_a_shape_can_be_written(ort: Any) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int32)
    assert (value.shape(), value.data_type()) == ([2, 3], "tensor(int32)")
    value.update_inplace(np.ones((2, 3), np.int32))
    np.testing.assert_array_equal(value.numpy(), np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="does not match the size of the OrtValue"):
        value.update_inplace(np.ones((2, 4), np.int32))
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ones(3, np.uint16), 16)
    assert half.data_type() == "tensor(bfloat16)"


@pytest.mark.parametrize("given", [[1.0], np.array(["a"])], ids=["list", "texts"])
def test_what_is_no_array_of_numbers_makes_no_value(ort: Any, given: object) -> None:
    with pytest.raises(RuntimeError, match="currently only supported from non-string numpy"):
        ort.OrtValue.ortvalue_from_numpy(given)


def test_a_run_of_values_gives_values(ort: Any, scaled: Any) -> None:
    given = {"x": ort.OrtValue.ortvalue_from_numpy(ROWS)}
    y, z = scaled.run_with_ort_values(None, given)
    assert isinstance(y, ort.OrtValue)
    np.testing.assert_array_equal(y.numpy(), Y)
    np.testing.assert_array_equal(z.numpy(), np.maximum(Y, 0))
    with pytest.raises(AttributeError):
        scaled.run_with_ort_values(None, {"x": ROWS})


def test_bound_inputs_and_outputs(scaled: Any) -> None:
    binding = scaled.io_binding()
    binding.bind_cpu_input("x", ROWS)
    binding.bind_output("z")
    binding.bind_output("y")
    scaled.run_with_iobinding(binding)
    z, y = binding.copy_outputs_to_cpu()
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(z, np.maximum(Y, 0))
    np.testing.assert_array_equal(binding.get_outputs()[1].numpy(), Y)


def test_bound_values_are_read_and_written_in_place(ort: Any, scaled: Any) -> None:
    binding = scaled.io_binding()
    source = ort.OrtValue.ortvalue_from_numpy(ROWS.copy())
    room = ort.OrtValue.ortvalue_from_shape_and_type([3, 2], np.float32)
    binding.bind_ortvalue_input("x", source)
    binding.bind_ortvalue_output("y", room)
    for factor in (1, 3):
        source.update_inplace(ROWS * factor)
        scaled.run_with_iobinding(binding)
        np.testing.assert_array_equal(room.numpy(), Y * factor)


def test_bound_addresses_are_read_and_written_in_place(scaled: Any) -> None:
    binding, x, y = scaled.io_binding(), ROWS.copy(), np.zeros((3, 2), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, [3, 2], x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, [3, 2], y.ctypes.data)
    scaled.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, Y)


def test_wrong_bindings(ort: Any, scaled: Any) -> None:
    binding = scaled.io_binding()
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: q in the def list"):
        binding.bind_cpu_input("q", ROWS)
    binding.bind_cpu_input("x", ROWS)
    with pytest.raises(RuntimeError, match="At least one output should be requested"):
        scaled.run_with_iobinding(binding)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_shape_and_type([3, 3], np.float32))
    with pytest.raises(RuntimeError, match="Got invalid dimensions for output: y"):
        scaled.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    binding.bind_output("y")
    binding.bind_cpu_input("x", ROWS[0])
    with pytest.raises(RuntimeError, match="Error in execution: Invalid rank for input: x"):
        scaled.run_with_iobinding(binding)
    other = ort.InferenceSession(models.scaled())
    with pytest.raises(ValueError, match="must be used with the session that created it"):
        other.run_with_iobinding(binding)
