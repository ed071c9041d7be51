"""Any sequence of calls, sensible or not: each ends in a result code, and none ends the process.

`python -m tests.frontends.test_nnapi_sequences --sequences 100000` tries more of them, with
`--jobs N` in so many processes; with `--tally FILE`, the next run goes on where this one ended.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from circlet.frontends.nnapi.c_functions import FUNCTIONS, last_error
from circlet.frontends.nnapi.c_types import CType
from circlet.frontends.nnapi.codes import ResultCode
from tests.tally import Tally, go_on

PART = 100  # sequences between two entries of a tally
_NOTHING = 0
_NEVER = 10**9
_X = np.array([1, -2, 3, -4], np.float32)


def call(name: str, *given: int) -> int:
    """The result code of a function; any other end is a defect."""
    result = FUNCTIONS[f"ANeuralNetworks{name}"](*given)
    assert result in list(ResultCode), (name, result)
    error = last_error()
    assert (error is None) == (result == 0), (name, result)
    assert error is None or "a call failed" not in error.what, str(error)
    return int(result)


def made(name: str, *given: int) -> int:
    """The handle that a function gives, 0 where it refuses."""
    handle = ctypes.c_size_t(0)
    result = call(name, *given, ctypes.addressof(handle))
    assert bool(handle.value) == (result == 0)
    return handle.value


def numbers(*values: int) -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * len(values))(*values)


@cache
def reference_device() -> int:
    """Its handle: whoever asks looks through all installed packages for backends."""
    device = ctypes.c_size_t(0)
    assert call("_getDevice", 1, ctypes.addressof(device)) == 0
    return device.value


class Calls(RuleBasedStateMachine):
    """Objects of every kind, some of them freed, and whatever a caller may do with them."""

    models: Bundle[int] = Bundle("models")
    compilations: Bundle[int] = Bundle("compilations")
    executions: Bundle[int] = Bundle("executions")
    events: Bundle[int] = Bundle("events")
    bursts: Bundle[int] = Bundle("bursts")

    def __init__(self) -> None:
        super().__init__()
        self.buffers = [np.zeros(size, np.float32) for size in (4, 4, 4, 2)]
        self.buffers[0][:] = _X
        self.operands: dict[int, int] = {}
        self.device = (ctypes.c_size_t * 1)(reference_device())

    @rule(target=models)
    def junk_model(self) -> int:
        return _NEVER

    @rule(target=models)
    def model(self) -> int:
        return made("Model_create")

    @rule(target=models, is_finished=st.booleans(), rows=st.sampled_from([0, 1]))
    def whole_model(self, is_finished: bool, rows: int) -> int:
        model = made("Model_create")
        dims = numbers(rows, 4)
        kind = CType(3, 2, ctypes.addressof(dims), 0, 0)
        for _ in range(3):
            assert call("Model_addOperand", model, ctypes.addressof(kind)) == 0
        scalar, zero = CType(1, 0, 0, 0, 0), ctypes.c_int32(0)
        assert call("Model_addOperand", model, ctypes.addressof(scalar)) == 0
        assert call("Model_setOperandValue", model, 3, ctypes.addressof(zero), 4) == 0
        read, written = numbers(0, 1, 3), numbers(2)
        places = (3, ctypes.addressof(read), 1, ctypes.addressof(written))
        assert call("Model_addOperation", model, 0, *places) == 0
        places = (2, ctypes.addressof(read), 1, ctypes.addressof(written))
        assert call("Model_identifyInputsAndOutputs", model, *places) == 0
        if is_finished:
            assert call("Model_finish", model) == 0
        return model

    @rule(model=models, code=st.integers(-1, 16), size=st.sampled_from([0, 1, 4, 2**31]))
    def add_operand(self, model: int, code: int, size: int) -> None:
        dims = numbers(size)
        kind = CType(code, 1, ctypes.addressof(dims), 0.5, 0)
        call("Model_addOperand", model, ctypes.addressof(kind))

    @rule(model=models, index=st.integers(-1, 5), length=st.sampled_from([0, 4, 16, 8]))
    def set_operand_value(self, model: int, index: int, length: int) -> None:
        address = self.buffers[0].ctypes.data if length else 0
        call("Model_setOperandValue", model, index, address, length)

    @rule(
        model=models,
        kind=st.integers(-1, 96) | st.integers(50000, 50045),
        read=st.lists(st.integers(0, 5), max_size=4),
        written=st.lists(st.integers(0, 5), max_size=2),
    )
    def add_operation(self, model: int, kind: int, read: list[int], written: list[int]) -> None:
        first, second = numbers(*read), numbers(*written)
        sides = (len(read), ctypes.addressof(first), len(written), ctypes.addressof(second))
        call("Model_addOperation", model, kind, *sides)

    @rule(
        model=models,
        read=st.lists(st.integers(0, 5), max_size=3),
        written=st.lists(st.integers(0, 5), max_size=2),
    )
    def identify(self, model: int, read: list[int], written: list[int]) -> None:
        first, second = numbers(*read), numbers(*written)
        sides = (len(read), ctypes.addressof(first), len(written), ctypes.addressof(second))
        call("Model_identifyInputsAndOutputs", model, *sides)

    @rule(model=models)
    def finish_model(self, model: int) -> None:
        call("Model_finish", model)

    @rule(model=models)
    def free_model(self, model: int) -> None:
        FUNCTIONS["ANeuralNetworksModel_free"](model)

    @rule(target=compilations, model=models, is_for_device=st.booleans())
    def compilation(self, model: int, is_for_device: bool) -> int:
        # Only the device `reference`: it compiles nothing, so that many sequences can be tried.
        if not is_for_device:
            return made("Compilation_createForDevices", model, ctypes.addressof(self.device), 0)
        return made("Compilation_createForDevices", model, ctypes.addressof(self.device), 1)

    @rule(compilation=compilations, choice=st.integers(-1, 3))
    def prefer(self, compilation: int, choice: int) -> None:
        call("Compilation_setPreference", compilation, choice)

    @rule(compilation=compilations)
    def finish_compilation(self, compilation: int) -> None:
        call("Compilation_finish", compilation)

    @rule(compilation=compilations)
    def free_compilation(self, compilation: int) -> None:
        FUNCTIONS["ANeuralNetworksCompilation_free"](compilation)

    @rule(target=executions, compilation=compilations)
    def execution(self, compilation: int) -> int:
        return made("Execution_create", compilation)

    @rule(target=executions, compilation=compilations, out=st.integers(2, 3))
    def given_execution(self, compilation: int, out: int) -> int:
        execution = made("Execution_create", compilation)
        for index in (0, 1):
            self.give(execution, "setInput", index, index, True)
        self.give(execution, "setOutput", 0, out, True)
        return execution

    @rule(
        execution=executions,
        side=st.sampled_from(["setInput", "setOutput"]),
        index=st.integers(-1, 2),
        buffer=st.integers(-1, 3),
        is_typed=st.booleans(),
    )
    def give(self, execution: int, side: str, index: int, buffer: int, is_typed: bool) -> None:
        dims = numbers(1, 4)
        kind = CType(3, 2, ctypes.addressof(dims), 0, 0)
        array = self.buffers[buffer] if buffer >= 0 else None
        place = (0, 0) if array is None else (array.ctypes.data, array.nbytes)
        stated = ctypes.addressof(kind) if is_typed else 0
        call(f"Execution_{side}", execution, index, stated, *place)

    @rule(
        execution=executions,
        is_set=st.booleans(),
        name=st.sampled_from(["setReusable", "setMeasureTiming", "enableInputAndOutputPadding"]),
    )
    def choose(self, execution: int, is_set: bool, name: str) -> None:
        call(f"Execution_{name}", execution, int(is_set))

    @rule(execution=executions)
    def compute(self, execution: int) -> None:
        call("Execution_compute", execution)

    @rule(target=events, execution=executions)
    def start(self, execution: int) -> int:
        return made("Execution_startCompute", execution)

    @rule(execution=executions, burst=bursts)
    def burst_compute(self, execution: int, burst: int) -> None:
        call("Execution_burstCompute", execution, burst)

    @rule(execution=executions, index=st.integers(-1, 1))
    def ask(self, execution: int, index: int) -> None:
        room = numbers(*[0] * 8)
        call("Execution_getOutputOperandRank", execution, index, ctypes.addressof(room))
        call("Execution_getOutputOperandDimensions", execution, index, ctypes.addressof(room))
        duration = ctypes.c_uint64(0)
        call("Execution_getDuration", execution, 1, ctypes.addressof(duration))

    @rule(execution=executions)
    def free_execution(self, execution: int) -> None:
        FUNCTIONS["ANeuralNetworksExecution_free"](execution)

    @rule(event=events)
    def wait(self, event: int) -> None:
        call("Event_wait", event)

    @rule(event=events)
    def free_event(self, event: int) -> None:
        FUNCTIONS["ANeuralNetworksEvent_free"](event)

    @rule(target=bursts, compilation=compilations)
    def burst(self, compilation: int) -> int:
        return made("Burst_create", compilation)

    @rule(burst=bursts)
    def free_burst(self, burst: int) -> None:
        FUNCTIONS["ANeuralNetworksBurst_free"](burst)


def try_sequences(first: int, count: int) -> None:
    """Try some sequences, made from the first's number; raises where one ends badly."""
    chosen = settings(
        max_examples=count,
        stateful_step_count=30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(first)(Calls), settings=chosen)


def test_every_sequence_of_calls_ends_in_result_codes() -> None:
    try_sequences(0, 40)


def test_an_operation_whose_last_input_is_asked_for_may_have_none() -> None:
    calls = Calls()
    model = calls.whole_model(is_finished=False, rows=0)
    calls.add_operand(model, code=14, size=4)
    calls.add_operation(model, kind=50013, read=[], written=[4])
    calls.finish_model(model)


def test_sequences_of_several_runs_add_up(tmp_path: Path) -> None:
    tried: list[tuple[int, int]] = []

    def attempt(first: int, count: int) -> None:
        tried.append((first, count))

    for total in (PART + 5, 2 * PART):
        main(["--sequences", str(total), "--tally", str(tmp_path / "tally")], attempt)
    assert tried == [(0, PART), (PART, 5), (PART + 5, PART - 5)]
    with pytest.raises(SystemExit):
        main(["--sequences", "x"], attempt)


def end_process(first: int, count: int) -> None:
    os._exit(7)


def test_sequences_in_several_processes_add_up_and_one_that_dies_is_told(tmp_path: Path) -> None:
    given = ["--sequences", str(3 * PART), "--tally", str(tmp_path / "tally"), "--jobs", "2"]
    with pytest.raises(BrokenProcessPool):
        main(given, end_process)
    main(given, print)
    assert '"done": 300' in (tmp_path / "tally").read_text()


def in_process(
    pool: ProcessPoolExecutor, attempt: Callable[[int, int], None], first: int, count: int
) -> None:
    """An attempt in a process of a pool.

    Raises:
        BrokenProcessPool: The process died of it.
    """
    pool.submit(attempt, first, count).result()


def main(
    arguments: Sequence[str] | None = None, attempt: Callable[[int, int], None] = try_sequences
) -> None:
    """Try as many sequences as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="start no part after that time")
    parser.add_argument("--tally", type=Path, help="JSON file of what earlier runs tried")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args(arguments)
    about, jobs = {"proof": "nnapi sequences"}, options.jobs
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(jobs, get_context("spawn")) as pool,
    ):
        tally = Tally.opened(options.tally or Path(folder) / "tally", about)
        tried = partial(in_process, pool, attempt) if jobs > 1 else attempt
        go_on(tally, options.sequences, PART, tried, seconds=options.seconds, jobs=jobs)
    sys.stdout.write(
        f"{tally.done} sequences in {tally.seconds:.0f} s: "
        "no crash, no hang, no error without a code\n"
    )


if __name__ == "__main__":
    main()
