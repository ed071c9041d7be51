"""The functions of the header: a network as a C program would build and run it."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from circlet.frontends.nnapi import c_functions as c
from circlet.frontends.nnapi.c_types import CChannels, CType
from tests.frontends.nnapi_networks import SUM, X, Y

PAGE = Path(__file__).parents[2] / "docs" / "nnapi-c.md"


class Pointers:
    """Memory whose addresses a caller hands over, kept alive."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def numbers(self, *values: int) -> int:
        return self.keep((ctypes.c_uint32 * len(values))(*values))

    def type(self, code: int, *dims: int, scale: float = 0, zero_point: int = 0) -> int:
        sizes = self.numbers(*dims) if dims else 0
        return self.keep(CType(code, len(dims), sizes, scale, zero_point))

    def array(self, values: np.ndarray) -> int:
        self._kept.append(values)
        return int(values.ctypes.data)

    def keep(self, made: ctypes.Structure | ctypes.Array) -> int:  # type: ignore[type-arg]
        self._kept.append(made)
        return ctypes.addressof(made)


@pytest.fixture
def at() -> Pointers:
    return Pointers()


def done(name: str, *given: int) -> None:
    assert call(name, *given) == 0, c.last_error()


def call(name: str, *given: int) -> int | None:
    return c.FUNCTIONS[f"ANeuralNetworks{name}"](*given)


def made(name: str, *given: int) -> int:
    handle = ctypes.c_size_t(0)
    done(name, *given, ctypes.addressof(handle))
    assert handle.value
    return handle.value


def finished_model(at: Pointers, rows: int = 1) -> int:
    model = made("Model_create")
    for _ in range(3):
        done("Model_addOperand", model, at.type(3, rows, 4))
    done("Model_addOperand", model, at.type(1))
    done("Model_setOperandValue", model, 3, at.numbers(0), 4)
    done("Model_addOperation", model, 0, 3, at.numbers(0, 1, 3), 1, at.numbers(2))
    done("Model_identifyInputsAndOutputs", model, 2, at.numbers(0, 1), 1, at.numbers(2))
    done("Model_relaxComputationFloat32toFloat16", model, 0)
    done("Model_finish", model)
    return model


def reference() -> int:
    """The device that compiles nothing."""
    return made("_getDevice", 1)


def compiled(at: Pointers, rows: int = 1) -> int:
    devices = at.keep((ctypes.c_size_t * 1)(reference()))
    compilation = made("Compilation_createForDevices", finished_model(at, rows), devices, 1)
    done("Compilation_finish", compilation)
    return compilation


def test_a_network_is_built_and_run(at: Pointers) -> None:
    compilation, out = compiled(at), np.zeros((1, 4), np.float32)
    execution = made("Execution_create", compilation)
    done("Execution_setMeasureTiming", execution, 1)
    done("Execution_setInput", execution, 0, 0, at.array(X), 16)
    done("Execution_setInput", execution, 1, 0, at.array(Y), 16)
    done("Execution_setOutput", execution, 0, 0, at.array(out), 16)
    event = made("Execution_startCompute", execution)
    done("Event_wait", event)
    np.testing.assert_array_equal(out, SUM)
    rank, dims = (ctypes.c_uint32 * 1)(), (ctypes.c_uint32 * 2)()
    done("Execution_getOutputOperandRank", execution, 0, ctypes.addressof(rank))
    done("Execution_getOutputOperandDimensions", execution, 0, ctypes.addressof(dims))
    assert (rank[0], list(dims)) == (2, [1, 4])
    duration = ctypes.c_uint64(0)
    done("Execution_getDuration", execution, 0, ctypes.addressof(duration))
    assert 0 < duration.value < 10**10
    for name, handle in (("Event", event), ("Execution", execution), ("Compilation", compilation)):
        assert call(f"{name}_free", handle) is None
    assert call("Execution_compute", execution) == 14
    assert call("Execution_free", execution) is None  # as often as one likes


def test_memory_of_files_is_read_and_written(at: Pointers) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(X.tobytes() + Y.tobytes() + bytes(16))
        file.flush()
        protect = mmap.PROT_READ | mmap.PROT_WRITE
        memory = made("Memory_createFromFd", 48, protect, file.fileno(), 0)
        execution = made("Execution_create", compiled(at))
        done("Execution_setInputFromMemory", execution, 0, 0, memory, 0, 16)
        done("Execution_setInputFromMemory", execution, 1, 0, memory, 16, 16)
        done("Execution_setOutputFromMemory", execution, 0, 0, memory, 32, 16)
        done("Execution_compute", execution)
        found = os.pread(file.fileno(), 16, 32)
    np.testing.assert_array_equal(np.frombuffer(found, np.float32), SUM[0])


def test_an_output_without_room_tells_its_sizes_beside_the_code(at: Pointers) -> None:
    burst_of = compiled(at, rows=0)
    burst = made("Burst_create", burst_of)
    execution, kind = made("Execution_create", burst_of), at.type(3, 1, 4)
    done("Execution_setInput", execution, 0, kind, at.array(X), 16)
    done("Execution_setInput", execution, 1, kind, at.array(Y), 16)
    done("Execution_setOutput", execution, 0, 0, at.array(np.zeros(1, np.float32)), 4)
    assert call("Execution_burstCompute", execution, burst) == 8
    dims = (ctypes.c_uint32 * 2)()
    wanted = "Execution_getOutputOperandDimensions"
    assert call(wanted, execution, 0, ctypes.addressof(dims)) == 8
    assert list(dims) == [1, 4]


def test_devices_answer(at: Pointers) -> None:
    count, kind, level = ctypes.c_uint32(0), ctypes.c_int32(0), ctypes.c_int64(0)
    text = ctypes.c_size_t(0)
    done("_getDeviceCount", ctypes.addressof(count))
    device = reference()
    assert device == reference()
    done("Device_getType", device, ctypes.addressof(kind))
    done("Device_getFeatureLevel", device, ctypes.addressof(level))
    done("Device_getName", device, ctypes.addressof(text))
    assert ctypes.string_at(text.value) == b"reference"
    done("Device_getVersion", device, ctypes.addressof(text))
    assert (count.value >= 2, kind.value, level.value) == (True, 2, 29)
    supported = (ctypes.c_bool * 1)()
    devices = at.keep((ctypes.c_size_t * 1)(device))
    model = finished_model(at)
    done("Model_getSupportedOperationsForDevices", model, devices, 1, ctypes.addressof(supported))
    assert list(supported) == [True]


def test_choices_are_taken(at: Pointers, tmp_path: Path) -> None:
    compilation = made("Compilation_create", finished_model(at))
    folder = at.keep(ctypes.create_string_buffer(os.fsencode(tmp_path / "cache")))
    token = at.keep(ctypes.create_string_buffer(bytes(32), 32))
    done("Compilation_setPreference", compilation, 0)
    done("Compilation_setPriority", compilation, 90)
    done("Compilation_setCaching", compilation, folder, token)
    assert call("Compilation_setTimeout", compilation, 1) == 4  # not for one device
    done("Compilation_finish", compilation)
    execution = made("Execution_create", compilation)
    done("Execution_enableInputAndOutputPadding", execution, 1)
    done("Execution_setReusable", execution, 1)
    assert call("Execution_setTimeout", execution, 1) == 4
    model = made("Model_create")
    done("Model_addOperand", model, at.type(11, 2, 1))
    scales = at.array(np.array([1, 2], np.float32))
    channels = at.keep(CChannels(0, 2, scales))
    done("Model_setOperandSymmPerChannelQuantParams", model, 0, channels)


def test_null_pointers_and_handles_are_refused(at: Pointers) -> None:
    model = made("Model_create")
    for name, given in (
        ("Model_create", (0,)),
        ("Model_addOperand", (model, 0)),
        ("Model_addOperation", (model, 0, 1, 0, 1, 0)),
        ("Model_finish", (0,)),
        ("Compilation_create", (0, at.numbers(0, 0))),
        ("Compilation_create", (model, 0)),
        ("Execution_compute", (0,)),
        ("Event_wait", (0,)),
        ("_getDeviceCount", (0,)),
    ):
        assert call(name, *given) == 3, name
    assert call("Execution_compute", model) == 4  # of another kind
    assert call("Model_setOperandValue", model, 0, at.numbers(0), 0) == 4
    error = c.last_error()
    assert error is not None
    assert "do not agree" in error.what


def test_a_name_of_c_is_an_attribute() -> None:
    assert c.ANeuralNetworksModel_create is c.FUNCTIONS["ANeuralNetworksModel_create"]
    with pytest.raises(AttributeError):
        c.ANeuralNetworksNothing  # noqa: B018


def test_the_page_has_every_function() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert set(c.FUNCTIONS) <= named
