"""Every call in every phase gives the result code of the API."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import NNAPIError
from circlet.formats.nnapi.codes import OperandCode
from circlet.frontends.nnapi import (
    Burst,
    Compilation,
    Event,
    Execution,
    Memory,
    Model,
    OperandType,
    states,
)
from circlet.frontends.nnapi import execution as execution_module
from circlet.frontends.nnapi.states import Phase, Table
from tests.frontends.nnapi_networks import FLOATS, REFERENCE, X, added, compiled, finished, given

# 0 NO_ERROR, 6 BAD_STATE, 14 DEAD_OBJECT; worked out from NeuralNetworks.h, not from the code.
MODEL = """
                                                           BUILDING FINISHED INVALID FREED
ANeuralNetworksModel_addOperand                                   0        6       6    14
ANeuralNetworksModel_setOperandValue                              0        6       6    14
ANeuralNetworksModel_setOperandValueFromMemory                    0        6       6    14
ANeuralNetworksModel_setOperandSymmPerChannelQuantParams          0        6       6    14
ANeuralNetworksModel_addOperation                                 0        6       6    14
ANeuralNetworksModel_identifyInputsAndOutputs                     0        6       6    14
ANeuralNetworksModel_relaxComputationFloat32toFloat16             0        6       6    14
ANeuralNetworksModel_finish                                       0        6       6    14
ANeuralNetworksModel_getSupportedOperationsForDevices             6        0       6    14
ANeuralNetworksCompilation_create                                 6        0       6    14
ANeuralNetworksCompilation_createForDevices                       6        0       6    14
"""
COMPILATION = """
                                                           BUILDING FINISHED INVALID FREED
ANeuralNetworksCompilation_setPreference                          0        6       6    14
ANeuralNetworksCompilation_setPriority                            0        6       6    14
ANeuralNetworksCompilation_setTimeout                             0        6       6    14
ANeuralNetworksCompilation_setCaching                             0        6       6    14
ANeuralNetworksCompilation_finish                                 0        6       6    14
ANeuralNetworksExecution_create                                   6        0       6    14
ANeuralNetworksBurst_create                                       6        0       6    14
"""
EXECUTION = """
                                       PREPARATION COMPUTATION COMPLETED INSUFFICIENT FAILED FREED
ANeuralNetworksExecution_setInput                0           6         6            6      6    14
ANeuralNetworksExecution_setInputFromMemory      0           6         6            6      6    14
ANeuralNetworksExecution_setOutput               0           6         6            6      6    14
ANeuralNetworksExecution_setOutputFromMemory     0           6         6            6      6    14
ANeuralNetworksExecution_setMeasureTiming        0           6         6            6      6    14
ANeuralNetworksExecution_setTimeout              0           6         6            6      6    14
ANeuralNetworksExecution_setReusable             0           6         6            6      6    14
ANeuralNetworksExecution_enableInputAndOutputPadding 0       6         6            6      6    14
ANeuralNetworksExecution_startCompute            0           6         6            6      6    14
ANeuralNetworksExecution_compute                 0           6         6            6      6    14
ANeuralNetworksExecution_burstCompute            0           6         6            6      6    14
ANeuralNetworksExecution_getDuration             6           6         0            6      6    14
ANeuralNetworksExecution_getOutputOperandRank    6           6         0            0      6    14
ANeuralNetworksExecution_getOutputOperandDimensions 6        6         0            0      6    14
"""
REUSABLE = """
                                       PREPARATION COMPUTATION COMPLETED INSUFFICIENT FAILED FREED
ANeuralNetworksExecution_startCompute            0           6         0            0      0    14
ANeuralNetworksExecution_compute                 0           6         0            0      0    14
ANeuralNetworksExecution_burstCompute            0           6         0            0      0    14
"""


def grid(text: str) -> dict[tuple[str, str], int]:
    """The numbers of a table, by call and phase."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    return {
        (row[0], phase): int(number)
        for row in rows
        for phase, number in zip(head, row[1:], strict=True)
    }


def result_of(call: Callable[[], object]) -> int:
    try:
        call()
    except NNAPIError as error:
        return int(error.result)
    return 0


def flat(table: Table) -> dict[tuple[str, str], int]:
    return {(call, phase.name): int(row[phase]) for call, row in table.items() for phase in row}


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (MODEL, states.MODEL),
        (COMPILATION, states.COMPILATION),
        (EXECUTION, states.EXECUTION),
        (EXECUTION, states.REUSABLE_EXECUTION),
    ],
    ids=["model", "compilation", "execution", "reusable"],
)
def test_the_tables_have_every_call(text: str, table: Table) -> None:
    wanted = grid(text)
    if table != states.EXECUTION and text is EXECUTION:
        wanted |= grid(REUSABLE)
    assert flat(table) == wanted


def model_in(phase: str) -> Model:
    model = added()
    if phase == "FINISHED":
        model.finish()
    elif phase == "INVALID":
        model.add_operation("ADD", [0, 1, 2], [3])  # a second one that writes the output
        assert result_of(model.finish) == 4
    elif phase == "FREED":
        model.free()
    assert model.phase.name == phase
    return model


def call_on_model(model: Model, call: str) -> Callable[[], object]:
    memory = Memory.from_buffer(np.zeros(4, np.uint8))
    kind = OperandType(FLOATS, (1,))
    more = [model.add_operand(kind) for _ in range(3)] if model.phase is Phase.BUILDING else [0] * 3
    channels = 0
    if model.phase is Phase.BUILDING:
        channels = model.add_operand(
            OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 1))
        )
        model.set_operand_symm_per_channel_quant_params(channels, 0, [1, 1])
    fresh = Model()
    for _ in range(2):
        fresh.add_operand(kind)
    calls: dict[str, Callable[[], object]] = {
        "addOperand": lambda: model.add_operand(kind),
        "setOperandValue": lambda: model.set_operand_value(more[0], np.ones(1, np.float32)),
        "setOperandValueFromMemory": lambda: model.set_operand_value_from_memory(
            more[0], memory, 0, 4
        ),
        "setOperandSymmPerChannelQuantParams": (
            lambda: model.set_operand_symm_per_channel_quant_params(channels, 0, [1, 2])
        ),
        "addOperation": lambda: model.add_operation("RELU", more[:1], more[1:2]),
        "identifyInputsAndOutputs": lambda: (
            fresh if model.phase is Phase.BUILDING else model
        ).identify_inputs_and_outputs([0], [1]),
        "relaxComputationFloat32toFloat16": lambda: model.relax_computation_float32_to_float16(
            True
        ),
        "finish": model.finish,
        "getSupportedOperationsForDevices": lambda: model.get_supported_operations_for_devices(
            REFERENCE
        ),
        "create": lambda: Compilation(model),
        "createForDevices": lambda: Compilation(model, REFERENCE),
    }
    return calls[call.partition("_")[2]]


@pytest.mark.parametrize(("call", "phase"), grid(MODEL))
def test_a_call_on_a_model(call: str, phase: str) -> None:
    assert result_of(call_on_model(model_in(phase), call)) == grid(MODEL)[call, phase]


@pytest.fixture(scope="module")
def ready() -> Compilation:
    return compiled()


def compilation_in(phase: str) -> Compilation:
    made = Compilation(finished(), REFERENCE)
    if phase == "FINISHED":
        made.finish()
    elif phase == "INVALID":
        made.set_timeout(1)
        assert result_of(made.finish) in (10, 11)
    elif phase == "FREED":
        made.free()
    assert made.phase.name == phase
    return made


@pytest.mark.parametrize(("call", "phase"), grid(COMPILATION))
def test_a_call_on_a_compilation(call: str, phase: str, tmp_path: Path) -> None:
    made = compilation_in(phase)
    calls: dict[str, Callable[[], object]] = {
        "setPreference": lambda: made.set_preference(0),
        "setPriority": lambda: made.set_priority(100),
        "setTimeout": lambda: made.set_timeout(10**12),
        "setCaching": lambda: made.set_caching(str(tmp_path / "cache"), bytes(32)),
        "finish": made.finish,
        "create": lambda: Execution(made) if "Execution" in call else Burst(made),
    }
    assert result_of(calls[call.partition("_")[2]]) == grid(COMPILATION)[call, phase]


class Blocked:
    """A run that goes on until it is let go."""

    shapes = ((1, 4),)

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def compute(self, timeout_ns: int) -> None:
        self.has_begun.set()
        assert self.may_end.wait(60)

    def give_back(self) -> None:
        """Nothing is kept."""


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    run = Blocked()
    monkeypatch.setattr(execution_module, "run_of", lambda *given: run)
    yield run
    run.may_end.set()


def execution_in(phase: str, ready: Compilation, blocked: Blocked, is_reusable: bool) -> Execution:
    if phase == "INSUFFICIENT":
        made = Execution(compiled(added(output=(1, 0))))
    else:
        made = Execution(ready)
    made.set_reusable(is_reusable)
    if phase == "COMPLETED":
        made.set_measure_timing(True)
    if phase in ("COMPLETED", "COMPUTATION", "INSUFFICIENT"):
        made.set_input(0, X)
        made.set_input(1, X)
        made.set_output(0, np.zeros(1 if phase == "INSUFFICIENT" else (1, 4), np.float32))
    if phase == "COMPUTATION":
        made.start_compute()
        assert blocked.has_begun.wait(60)
    elif phase == "FREED":
        made.free()
    elif phase != "PREPARATION":
        result_of(made.compute)
    assert made.phase.name == phase
    return made


def call_on_execution(made: Execution, call: str, ready: Compilation) -> Callable[[], object]:
    memory = Memory.from_buffer(np.zeros(16, np.uint8))
    out = np.zeros((1, 4), np.float32)
    if "ompute" in call and made.phase is Phase.PREPARATION:
        made.set_input(0, X)
        made.set_input(1, X)
        made.set_output(0, out)
    burst = Burst(ready)
    burst.network = made._network
    calls: dict[str, Callable[[], object]] = {
        "setInput": lambda: made.set_input(0, X),
        "setInputFromMemory": lambda: made.set_input_from_memory(0, memory, 0, 16),
        "setOutput": lambda: made.set_output(0, out),
        "setOutputFromMemory": lambda: made.set_output_from_memory(0, memory, 0, 16),
        "setMeasureTiming": lambda: made.set_measure_timing(True),
        "setTimeout": lambda: made.set_timeout(10**12),
        "setReusable": lambda: made.set_reusable(True),
        "enableInputAndOutputPadding": lambda: made.enable_input_and_output_padding(True),
        "startCompute": lambda: made.start_compute(),
        "compute": made.compute,
        "burstCompute": lambda: made.burst_compute(burst),
        "getDuration": lambda: made.get_duration(1),
        "getOutputOperandRank": lambda: made.get_output_operand_rank(0),
        "getOutputOperandDimensions": lambda: made.get_output_operand_dimensions(0),
    }
    return calls[call.partition("_")[2]]


def check_execution(
    call: str, phase: str, wanted: int, ready: Compilation, run: Blocked, is_reusable: bool
) -> None:
    if phase != "COMPUTATION":
        run.may_end.set()
    made = execution_in(phase, ready, run, is_reusable)
    found = result_of(call_on_execution(made, call, ready))
    if phase == "INSUFFICIENT" and not wanted:  # allowed, and it says that there was no room
        assert found == 8
    elif phase == "FAILED" and not wanted:  # allowed, and fails as before: nothing was given
        assert found in (0, 4)
    else:
        assert found == wanted


@pytest.mark.parametrize(("call", "phase"), grid(EXECUTION))
def test_a_call_on_an_execution(
    call: str, phase: str, ready: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Blocked()
    if phase == "COMPUTATION":
        monkeypatch.setattr(execution_module, "run_of", lambda *given: run)
    check_execution(call, phase, grid(EXECUTION)[call, phase], ready, run, False)
    run.may_end.set()


@pytest.mark.parametrize(("call", "phase"), grid(REUSABLE))
def test_a_call_on_a_reusable_execution(
    call: str, phase: str, ready: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Blocked()
    if phase == "COMPUTATION":
        monkeypatch.setattr(execution_module, "run_of", lambda *given: run)
    wanted = grid(REUSABLE)[call, phase]
    if phase in ("INSUFFICIENT", "FAILED") and call.endswith("startCompute"):
        made = execution_in(phase, ready, run, True)
        with pytest.raises(NNAPIError) as caught:
            made.start_compute().wait()
        assert caught.value.result == (8 if phase == "INSUFFICIENT" else 4)
        return
    check_execution(call, phase, wanted, ready, run, True)
    run.may_end.set()


def test_events_bursts_and_memories_that_are_freed_are_refused(ready: Compilation) -> None:
    event, burst = Event(), Burst(ready)
    memory = Memory.from_buffer(np.zeros(16, np.uint8))
    for each in (event, burst, memory):
        each.free()
    execution = given(ready)
    assert result_of(event.wait) == 14
    assert result_of(lambda: execution.burst_compute(burst)) == 14
    fresh = Execution(ready)
    assert result_of(lambda: fresh.set_input_from_memory(0, memory, 0, 16)) == 14
    assert result_of(lambda: fresh.set_output_from_memory(0, memory, 0, 16)) == 14
    model = Model()
    model.add_operand(OperandType(FLOATS, (1,)))
    assert result_of(lambda: model.set_operand_value_from_memory(0, memory, 0, 4)) == 14


def test_a_burst_runs_one_execution_at_a_time(ready: Compilation, blocked: Blocked) -> None:
    burst = Burst(ready)
    first, second = given(ready), given(ready)
    thread = threading.Thread(target=first.burst_compute, args=(burst,))
    thread.start()
    assert blocked.has_begun.wait(60)
    assert result_of(lambda: second.burst_compute(burst)) == 6
    blocked.may_end.set()
    thread.join(60)
    assert result_of(lambda: second.burst_compute(burst)) == 0


def test_freeing_waits_for_the_computation(ready: Compilation, blocked: Blocked) -> None:
    execution = given(ready)
    event = execution.start_compute()
    assert blocked.has_begun.wait(60)
    freeing = threading.Thread(target=execution.free)
    freeing.start()
    freeing.join(0.05)
    assert freeing.is_alive()
    blocked.may_end.set()
    freeing.join(60)
    event.wait()
    assert execution.phase is Phase.FREED


def test_of_two_threads_one_starts_an_execution(ready: Compilation, blocked: Blocked) -> None:
    execution = given(ready)
    results: list[int] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        results.append(result_of(execution.start_compute))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == [0] + [6] * 7


def test_threads_build_one_model(ready: Compilation) -> None:
    model = Model()
    indices: list[int] = []

    def build() -> None:
        indices.extend([model.add_operand(OperandType(FLOATS, (1,))) for _ in range(200)])

    threads = [threading.Thread(target=build) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(indices) == list(range(800))
