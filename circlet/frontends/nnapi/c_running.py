"""C functions of executions, events and bursts."""

from __future__ import annotations

import ctypes

from circlet.frontends.nnapi.burst import Burst
from circlet.frontends.nnapi.c_calls import HANDLES, frees, function, give
from circlet.frontends.nnapi.c_types import (
    Address,
    Handle,
    memory_at,
    needed,
    optional_type_at,
    store,
)
from circlet.frontends.nnapi.codes import NO_DURATION
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.event import Event
from circlet.frontends.nnapi.execution import Execution
from circlet.frontends.nnapi.memory import Memory


@function("Execution_create")
def _execution_create(name: str, compilation: Handle, execution: Address) -> None:
    needed(execution, name)
    give(execution, Execution(HANDLES.find(Compilation, compilation, name)))


@function("Execution_setInput")
def _execution_set_input(
    name: str, execution: Handle, index: int, type: Address, buffer: Address, length: int
) -> None:
    found = HANDLES.find(Execution, execution, name)
    found.set_input(index, memory_at(buffer, length, name), optional_type_at(type, name))


@function("Execution_setOutput")
def _execution_set_output(
    name: str, execution: Handle, index: int, type: Address, buffer: Address, length: int
) -> None:
    found = HANDLES.find(Execution, execution, name)
    found.set_output(index, memory_at(buffer, length, name), optional_type_at(type, name))


@function("Execution_setInputFromMemory")
def _execution_set_input_from_memory(
    name: str,
    execution: Handle,
    index: int,
    type: Address,
    memory: Handle,
    offset: int,
    length: int,
) -> None:
    found, region = HANDLES.find(Execution, execution, name), HANDLES.find(Memory, memory, name)
    found.set_input_from_memory(index, region, offset, length, optional_type_at(type, name))


@function("Execution_setOutputFromMemory")
def _execution_set_output_from_memory(
    name: str,
    execution: Handle,
    index: int,
    type: Address,
    memory: Handle,
    offset: int,
    length: int,
) -> None:
    found, region = HANDLES.find(Execution, execution, name), HANDLES.find(Memory, memory, name)
    found.set_output_from_memory(index, region, offset, length, optional_type_at(type, name))


@function("Execution_enableInputAndOutputPadding")
def _execution_enable_input_and_output_padding(name: str, execution: Handle, enable: int) -> None:
    HANDLES.find(Execution, execution, name).enable_input_and_output_padding(bool(enable))


@function("Execution_setReusable")
def _execution_set_reusable(name: str, execution: Handle, reusable: int) -> None:
    HANDLES.find(Execution, execution, name).set_reusable(bool(reusable))


@function("Execution_setMeasureTiming")
def _execution_set_measure_timing(name: str, execution: Handle, measure: int) -> None:
    HANDLES.find(Execution, execution, name).set_measure_timing(bool(measure))


@function("Execution_setTimeout")
def _execution_set_timeout(name: str, execution: Handle, duration: int) -> None:
    HANDLES.find(Execution, execution, name).set_timeout(duration)


@function("Execution_startCompute")
def _execution_start_compute(name: str, execution: Handle, event: Address) -> None:
    needed(event, name)
    store(ctypes.c_size_t, event, 0)
    give(event, HANDLES.find(Execution, execution, name).start_compute())


@function("Execution_compute")
def _execution_compute(name: str, execution: Handle) -> None:
    HANDLES.find(Execution, execution, name).compute()


@function("Execution_burstCompute")
def _execution_burst_compute(name: str, execution: Handle, burst: Handle) -> None:
    found = HANDLES.find(Execution, execution, name)
    found.burst_compute(HANDLES.find(Burst, burst, name))


@function("Execution_getDuration")
def _execution_get_duration(name: str, execution: Handle, code: int, duration: Address) -> None:
    store(ctypes.c_uint64, needed(duration, name), NO_DURATION)
    found = HANDLES.find(Execution, execution, name).get_duration(code)
    store(ctypes.c_uint64, duration, found)


@function("Execution_getOutputOperandRank")
def _execution_get_output_operand_rank(
    name: str, execution: Handle, index: int, rank: Address
) -> None:
    found = HANDLES.find(Execution, execution, name)
    shape = found.get_output_shape(index, name)
    store(ctypes.c_uint32, needed(rank, name), len(shape))
    found.get_output_operand_rank(index)


@function("Execution_getOutputOperandDimensions")
def _execution_get_output_operand_dimensions(
    name: str, execution: Handle, index: int, dimensions: Address
) -> None:
    found = HANDLES.find(Execution, execution, name)
    needed(dimensions, name)
    for place, size in enumerate(found.get_output_shape(index, name)):
        store(ctypes.c_uint32, dimensions + 4 * place, size)
    found.get_output_operand_dimensions(index)


@function("Event_wait")
def _event_wait(name: str, event: Handle) -> None:
    HANDLES.find(Event, event, name).wait()


@function("Burst_create")
def _burst_create(name: str, compilation: Handle, burst: Address) -> None:
    needed(burst, name)
    give(burst, Burst(HANDLES.find(Compilation, compilation, name)))


frees("Execution_free", Execution)
frees("Event_free", Event)
frees("Burst_free", Burst)
