"""C functions of models, memories, compilations and devices."""

from __future__ import annotations

import ctypes
import os

from circlet.frontends.nnapi.c_calls import HANDLES, frees, function, give
from circlet.frontends.nnapi.c_types import (
    Address,
    CChannels,
    Handle,
    floats_at,
    handles_at,
    indices_at,
    memory_at,
    needed,
    store,
    type_at,
)
from circlet.frontends.nnapi.codes import CACHE_TOKEN_BYTES
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.device import Device, device, device_count
from circlet.frontends.nnapi.memory import Memory
from circlet.frontends.nnapi.model import Model

_texts: dict[str, ctypes.Array[ctypes.c_char]] = {}


@function("Model_create")
def _model_create(name: str, model: Address) -> None:
    give(needed(model, name), Model())


@function("Model_addOperand")
def _model_add_operand(name: str, model: Handle, type: Address) -> None:
    HANDLES.find(Model, model, name).add_operand(type_at(type, name))


@function("Model_setOperandValue")
def _model_set_operand_value(
    name: str, model: Handle, index: int, buffer: Address, length: int
) -> None:
    found = HANDLES.find(Model, model, name)
    found.set_operand_value(index, memory_at(buffer, length, name))


@function("Model_setOperandValueFromMemory")
def _model_set_operand_value_from_memory(
    name: str, model: Handle, index: int, memory: Handle, offset: int, length: int
) -> None:
    found = HANDLES.find(Model, model, name)
    found.set_operand_value_from_memory(index, HANDLES.find(Memory, memory, name), offset, length)


@function("Model_setOperandSymmPerChannelQuantParams")
def _model_set_operand_symm_per_channel_quant_params(
    name: str, model: Handle, index: int, params: Address
) -> None:
    found = HANDLES.find(Model, model, name)
    given = CChannels.from_address(needed(params, name))
    scales = floats_at(given.scales or 0, given.scale_count, name)
    found.set_operand_symm_per_channel_quant_params(index, given.channel_dim, scales)


@function("Model_addOperation")
def _model_add_operation(
    name: str,
    model: Handle,
    type: int,
    input_count: int,
    inputs: Address,
    output_count: int,
    outputs: Address,
) -> None:
    found = HANDLES.find(Model, model, name)
    read, written = indices_at(inputs, input_count, name), indices_at(outputs, output_count, name)
    found.add_operation(type, read, written)


@function("Model_addOperationEx")
def _model_add_operation_ex(
    name: str,
    model: Handle,
    type: int,
    input_count: int,
    inputs: Address,
    output_count: int,
    outputs: Address,
) -> None:
    found = HANDLES.find(Model, model, name)
    read, written = indices_at(inputs, input_count, name), indices_at(outputs, output_count, name)
    found.add_operation(type, read, written)


@function("Model_identifyInputsAndOutputs")
def _model_identify_inputs_and_outputs(
    name: str,
    model: Handle,
    input_count: int,
    inputs: Address,
    output_count: int,
    outputs: Address,
) -> None:
    found = HANDLES.find(Model, model, name)
    read, written = indices_at(inputs, input_count, name), indices_at(outputs, output_count, name)
    found.identify_inputs_and_outputs(read, written)


@function("Model_relaxComputationFloat32toFloat16")
def _model_relax_computation_float32to_float16(name: str, model: Handle, allow: int) -> None:
    HANDLES.find(Model, model, name).relax_computation_float32_to_float16(bool(allow))


@function("Model_finish")
def _model_finish(name: str, model: Handle) -> None:
    HANDLES.find(Model, model, name).finish()


@function("Model_getSupportedOperationsForDevices")
def _model_get_supported_operations_for_devices(
    name: str, model: Handle, devices: Address, count: int, supported: Address
) -> None:
    found = HANDLES.find(Model, model, name)
    needed(supported, name)
    chosen = _devices(name, devices, count)
    for index, is_supported in enumerate(found.get_supported_operations_for_devices(chosen)):
        store(ctypes.c_bool, supported + index, is_supported)


@function("Memory_createFromFd")
def _memory_create_from_fd(
    name: str, size: int, protect: int, fd: int, offset: int, memory: Address
) -> None:
    needed(memory, name)
    give(memory, Memory.create_from_fd(size, protect, fd, offset))


@function("Compilation_create")
def _compilation_create(name: str, model: Handle, compilation: Address) -> None:
    needed(compilation, name)
    give(compilation, Compilation(HANDLES.find(Model, model, name)))


@function("Compilation_createForDevices")
def _compilation_create_for_devices(
    name: str, model: Handle, devices: Address, count: int, compilation: Address
) -> None:
    needed(compilation, name)
    found = HANDLES.find(Model, model, name)
    give(compilation, Compilation(found, _devices(name, devices, count)))


@function("Compilation_setPreference")
def _compilation_set_preference(name: str, compilation: Handle, preference: int) -> None:
    HANDLES.find(Compilation, compilation, name).set_preference(preference)


@function("Compilation_setPriority")
def _compilation_set_priority(name: str, compilation: Handle, priority: int) -> None:
    HANDLES.find(Compilation, compilation, name).set_priority(priority)


@function("Compilation_setTimeout")
def _compilation_set_timeout(name: str, compilation: Handle, duration: int) -> None:
    HANDLES.find(Compilation, compilation, name).set_timeout(duration)


@function("Compilation_setCaching")
def _compilation_set_caching(
    name: str, compilation: Handle, folder: Address, token: Address
) -> None:
    found = HANDLES.find(Compilation, compilation, name)
    path = os.fsdecode(ctypes.string_at(needed(folder, name)))
    found.set_caching(path, ctypes.string_at(needed(token, name), CACHE_TOKEN_BYTES))


@function("Compilation_finish")
def _compilation_finish(name: str, compilation: Handle) -> None:
    HANDLES.find(Compilation, compilation, name).finish()


@function("_getDeviceCount")
def _get_device_count(name: str, count: Address) -> None:
    store(ctypes.c_uint32, needed(count, name), device_count())


@function("_getDevice")
def _get_device(name: str, index: int, found: Address) -> None:
    store(ctypes.c_size_t, needed(found, name), HANDLES.add(device(index)))


@function("Device_getName")
def _device_get_name(name: str, device: Handle, text: Address) -> None:
    known = HANDLES.find(Device, device, name)
    store(ctypes.c_size_t, needed(text, name), _text(known.name))


@function("Device_getVersion")
def _device_get_version(name: str, device: Handle, text: Address) -> None:
    known = HANDLES.find(Device, device, name)
    store(ctypes.c_size_t, needed(text, name), _text(known.version))


@function("Device_getType")
def _device_get_type(name: str, device: Handle, type: Address) -> None:
    known = HANDLES.find(Device, device, name)
    store(ctypes.c_int32, needed(type, name), int(known.type))


@function("Device_getFeatureLevel")
def _device_get_feature_level(name: str, device: Handle, level: Address) -> None:
    known = HANDLES.find(Device, device, name)
    store(ctypes.c_int64, needed(level, name), known.feature_level)


frees("Model_free", Model)
frees("Memory_free", Memory)
frees("Compilation_free", Compilation)


def _devices(call: str, address: Address, count: int) -> list[Device]:
    return [HANDLES.find(Device, h, call) for h in handles_at(needed(address, call), count, call)]


def _text(text: str) -> Address:
    """The address of a text that lives as long as the process."""
    return ctypes.addressof(_texts.setdefault(text, ctypes.create_string_buffer(text.encode())))
