"""Each result code, by what it stands for."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circlet.errors import (
    BackendError,
    CompilerMissingError,
    DeadlineError,
    LimitError,
    NNAPIError,
)
from circlet.formats.nnapi.codes import OperandCode
from circlet.frontends.nnapi import (
    Burst,
    Compilation,
    Device,
    DeviceCode,
    Execution,
    Memory,
    Model,
    OperandType,
    ResultCode,
    device,
    device_count,
    devices,
)
from circlet.frontends.nnapi import compilation as compilation_module
from circlet.frontends.nnapi import execution as execution_module
from tests.frontends.nnapi_networks import (
    FLOATS,
    REFERENCE,
    SUM,
    X,
    Y,
    added,
    compiled,
    finished,
    given,
)


def refuses(result: ResultCode, call: Callable[[], object]) -> NNAPIError:
    """Whether a call ends in a result code, which the error's text begins with."""
    with pytest.raises(NNAPIError) as caught:
        call()
    assert caught.value.result is result
    assert caught.value.what.startswith(f"{result.name}: ")
    assert caught.value.as_dict()["result"] == result
    return caught.value


@pytest.fixture(scope="module")
def ready() -> Compilation:
    return compiled()


def fails_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every run end in an error."""

    def run_of(*given: object) -> object:
        raise error

    monkeypatch.setattr(execution_module, "run_of", run_of)


def test_the_numbers_are_those_of_the_header() -> None:
    assert [int(code) for code in ResultCode] == list(range(15))


def test_incomplete_is_never_given() -> None:
    """The header has the number, and no function of AOSP's runtime gives it either."""
    folder = Path(execution_module.__file__).parent
    assert not [p for p in folder.glob("*.py") if "ResultCode.INCOMPLETE" in p.read_text()]


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (MemoryError(), ResultCode.OUT_OF_MEMORY),
        (LimitError("too large"), ResultCode.RESOURCE_EXHAUSTED_TRANSIENT),
        (DeadlineError.passed(), ResultCode.MISSED_DEADLINE_TRANSIENT),
        (BackendError("it fell over"), ResultCode.OP_FAILED),
        (ZeroDivisionError("of a defect"), ResultCode.OP_FAILED),
    ],
)
def test_what_a_run_ends_in(
    error: Exception, result: ResultCode, ready: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_with(error, monkeypatch)
    refuses(result, given(ready).compute)
    refuses(result, given(ready).start_compute().wait)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (MemoryError(), ResultCode.OUT_OF_MEMORY),
        (LimitError("too large"), ResultCode.RESOURCE_EXHAUSTED_PERSISTENT),
        (CompilerMissingError("none"), ResultCode.UNAVAILABLE_DEVICE),
    ],
)
def test_what_compiling_ends_in(
    error: Exception, result: ResultCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def network(*given: object, **named: object) -> object:
        raise error

    made = Compilation(finished(), REFERENCE)
    monkeypatch.setattr(compilation_module, "Network", network)
    refuses(result, made.finish)


def test_a_device_whose_compiler_is_missing_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CIRCLET_CC", "/nowhere/cc")
    made = Compilation(finished(), [Device("cpu")])
    refuses(ResultCode.UNAVAILABLE_DEVICE, made.finish)


@pytest.mark.parametrize(
    ("cache_bytes", "result"),
    [
        ("0", ResultCode.MISSED_DEADLINE_PERSISTENT),
        ("1000000000", ResultCode.MISSED_DEADLINE_TRANSIENT),
    ],
)
def test_a_compilation_that_takes_too_long(
    cache_bytes: str, result: ResultCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_BYTES", cache_bytes)
    made = Compilation(finished(), REFERENCE)
    made.set_timeout(1)
    refuses(result, made.finish)


def test_a_run_that_takes_too_long(ready: Compilation) -> None:
    execution = Execution(ready)
    execution.set_timeout(1)
    execution.set_input(0, X)
    execution.set_input(1, Y)
    execution.set_output(0, np.zeros((1, 4), np.float32))
    refuses(ResultCode.MISSED_DEADLINE_TRANSIENT, execution.compute)


def test_a_computation_that_is_interrupted_can_be_freed(
    ready: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_with(KeyboardInterrupt(), monkeypatch)
    execution = given(ready)
    with pytest.raises(KeyboardInterrupt):
        execution.compute()
    refuses(ResultCode.BAD_STATE, execution.compute)
    execution.free()


def test_an_execution_that_gets_no_thread_fails(
    ready: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: object) -> None:
        raise RuntimeError("can't start new thread")

    execution = given(ready)
    monkeypatch.setattr(threading.Thread, "start", start)
    refuses(ResultCode.RESOURCE_EXHAUSTED_TRANSIENT, execution.start_compute)
    execution.free()


def test_memory_that_cannot_be_mapped() -> None:
    reading, writing = os.pipe()
    try:
        call = Memory.create_from_fd
        refuses(ResultCode.UNMAPPABLE, lambda: call(16, mmap.PROT_READ, reading))
        refuses(ResultCode.BAD_DATA, lambda: call(0, mmap.PROT_READ, reading))
        refuses(ResultCode.BAD_DATA, lambda: call(16, mmap.PROT_READ, -1))
    finally:
        os.close(reading)
        os.close(writing)


def test_an_output_without_room_tells_its_shape() -> None:
    execution = Execution(compiled(added(output=(0, 4))))
    execution.set_input(0, X)
    execution.set_input(1, Y)
    execution.set_output(0, np.zeros(3, np.float32))
    error = refuses(ResultCode.OUTPUT_INSUFFICIENT_SIZE, execution.compute)
    assert "[1, 4]" in error.why
    assert execution.get_output_shape(0) == (1, 4)
    wanted = ResultCode.OUTPUT_INSUFFICIENT_SIZE
    refuses(wanted, lambda: execution.get_output_operand_dimensions(0))
    refuses(wanted, lambda: execution.get_output_operand_rank(0))


def test_nothing_is_an_unexpected_null(ready: Compilation) -> None:
    null: Any = None
    execution = given(ready)
    for call in (
        lambda: Compilation(null),
        lambda: Compilation(finished(), [null]),
        lambda: Execution(null),
        lambda: execution.burst_compute(null),
        lambda: Execution(ready).set_input_from_memory(0, null, 0, 16),
        lambda: Memory.from_buffer(null),
        lambda: Compilation(finished()).set_caching(null, bytes(32)),
        lambda: Compilation(finished()).set_caching("/tmp", null),
    ):
        refuses(ResultCode.UNEXPECTED_NULL, call)


QUANT8 = OperandCode.TENSOR_QUANT8_ASYMM


@pytest.mark.parametrize(
    "type",
    [
        OperandType(99),
        OperandType(-1),
        OperandType(OperandCode.FLOAT32, (1,)),
        OperandType(FLOATS, (-1,)),
        OperandType(FLOATS, (2**20, 2**20)),
        OperandType(FLOATS, (1,), 0.5),
        OperandType(FLOATS, (1,), 0.0, 1),
        OperandType(QUANT8, (1,)),
        OperandType(QUANT8, (1,), -1.0),
        OperandType(QUANT8, (1,), float("inf")),
        OperandType(QUANT8, (1,), 0.5, 256),
        OperandType(OperandCode.TENSOR_QUANT16_SYMM, (1,), 0.5, 1),
        OperandType(OperandCode.TENSOR_QUANT16_ASYMM, (1,), 0.5, 65536),
        OperandType(OperandCode.TENSOR_INT32, (1,), -0.5),
        OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (1,), 0.5),
    ],
)
def test_a_type_that_is_none_is_bad_data(type: OperandType) -> None:
    refuses(ResultCode.BAD_DATA, lambda: Model().add_operand(type))


def test_what_does_not_fit_a_model_is_bad_data() -> None:
    model = added()
    open_sizes = model.add_operand(OperandType(FLOATS, (0,)))
    channels = model.add_operand(OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 1)))
    memory = Memory.from_buffer(np.zeros(16, np.uint8))
    for call in (
        lambda: model.set_operand_value(99, np.int32(0)),
        lambda: model.set_operand_value(-1, np.int32(0)),
        lambda: model.set_operand_value(2, np.int64(0)),
        lambda: model.set_operand_value(2, object()),
        lambda: model.set_operand_value(0, X),
        lambda: model.set_operand_value(open_sizes, X),
        lambda: model.set_operand_value_from_memory(2, memory, 14, 4),
        lambda: model.set_operand_symm_per_channel_quant_params(0, 0, [1]),
        lambda: model.set_operand_symm_per_channel_quant_params(channels, 2, [1]),
        lambda: model.set_operand_symm_per_channel_quant_params(channels, 0, [1]),
        lambda: model.set_operand_symm_per_channel_quant_params(channels, 0, [1, -1]),
        lambda: model.add_operation("NO_SUCH", [0], [3]),
        lambda: model.add_operation(49999, [0], [3]),
        lambda: model.add_operation("ADD", [0, 1, 99], [3]),
        lambda: model.add_operation("ADD", [0, 1, 2], []),
        lambda: model.add_operation("ADD", [0, 1, 2], [2]),
        lambda: model.identify_inputs_and_outputs([0], [3]),
        lambda: model.identify_inputs_and_outputs([open_sizes], []),
        lambda: model.identify_inputs_and_outputs([open_sizes], [open_sizes]),
        lambda: model.identify_inputs_and_outputs([2], [open_sizes]),
    ):
        refuses(ResultCode.BAD_DATA, call)
    model.set_operand_symm_per_channel_quant_params(channels, 0, [1, 2])
    model.finish()


def unwritten() -> Model:
    model = Model()
    for _ in range(3):
        model.add_operand(OperandType(FLOATS, (1,)))
    return model


def test_a_model_that_contradicts_itself_cannot_be_finished() -> None:
    nothing = unwritten()
    refuses(ResultCode.BAD_DATA, nothing.finish)
    unread = unwritten()
    unread.identify_inputs_and_outputs([0], [1])
    refuses(ResultCode.BAD_DATA, unread.finish)
    cycle = unwritten()
    for source, target in ((1, 2), (2, 1)):
        cycle.add_operation("RELU", [source], [target])
    cycle.identify_inputs_and_outputs([0], [1])
    refuses(ResultCode.BAD_DATA, cycle.finish)
    symmetric = added()
    symmetric.add_operand(OperandType(OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL, (2, 1)))
    refuses(ResultCode.BAD_DATA, symmetric.finish)
    unequal = added(output=(1, 5))
    error = refuses(ResultCode.BAD_DATA, unequal.finish)
    assert "[1, 5] is declared" in error.why


def test_arguments_that_do_not_fit_are_bad_data(ready: Compilation) -> None:
    execution = Execution(ready)
    memory = Memory.from_buffer(np.zeros(16, np.uint8))
    locked = np.zeros((1, 4), np.float32)
    locked.flags.writeable = False
    for call in (
        lambda: execution.set_input(2, X),
        lambda: execution.set_input(-1, X),
        lambda: execution.set_input(0, X[:, :3].copy()),
        lambda: execution.set_input(0, np.zeros((1, 8), np.float32)[:, ::2]),
        lambda: execution.set_input(0, X, OperandType(FLOATS, (1, 5))),
        lambda: execution.set_input(0, X, OperandType(FLOATS, (4,))),
        lambda: execution.set_input(0, np.zeros(5, np.float32)),
        lambda: execution.set_input(0, b""),
        lambda: execution.set_output(0, locked),
        lambda: execution.set_output(0, bytes(16)),
        lambda: execution.set_output(0, np.zeros(5, np.float32)),
        lambda: execution.set_input_from_memory(0, memory, 4, 16),
        lambda: execution.set_output_from_memory(0, memory, 0, 12),
        lambda: execution.set_timeout(-1),
    ):
        refuses(ResultCode.BAD_DATA, call)
    refuses(ResultCode.BAD_DATA, execution.compute)  # nothing is given


def test_a_buffer_is_given_once(ready: Compilation) -> None:
    execution = Execution(ready)
    execution.set_input(0, X)
    refuses(ResultCode.BAD_STATE, lambda: execution.set_input(0, X))
    refuses(ResultCode.BAD_STATE, lambda: execution.enable_input_and_output_padding(True))


def test_sizes_that_are_stated_wrongly_fail() -> None:
    execution = Execution(compiled(added(output=(0, 4))))
    execution.set_input(0, X)
    execution.set_input(1, Y)
    execution.set_output(0, np.zeros(8, np.float32), OperandType(FLOATS, (2, 4)))
    refuses(ResultCode.OP_FAILED, execution.compute)


def test_timings_and_timeouts_demand_one_device() -> None:
    free = Compilation(finished())
    refuses(ResultCode.BAD_DATA, lambda: free.set_timeout(1))
    free.finish()
    execution = Execution(free)
    refuses(ResultCode.BAD_DATA, lambda: execution.set_measure_timing(True))
    refuses(ResultCode.BAD_DATA, lambda: execution.set_timeout(1))


def test_a_timed_execution_says_how_long_it_took(ready: Compilation) -> None:
    timed, untimed = Execution(ready), given(ready)
    timed.set_measure_timing(True)
    timed.set_input(0, X)
    timed.set_input(1, Y)
    timed.set_output(0, np.zeros((1, 4), np.float32))
    timed.compute()
    untimed.compute()
    assert 0 < timed.get_duration(0) < 10**10
    assert timed.get_duration(3) == 2**64 - 1  # there are no fences
    refuses(ResultCode.BAD_DATA, lambda: timed.get_duration(4))
    refuses(ResultCode.BAD_STATE, lambda: untimed.get_duration(0))


def test_other_choices_that_are_none_are_bad_data(ready: Compilation) -> None:
    made = Compilation(finished())
    one = Device("reference")
    for call in (
        lambda: made.set_preference(3),
        lambda: made.set_priority(0),
        lambda: made.set_caching("/tmp", bytes(31)),
        lambda: Compilation(finished(), []),
        lambda: Compilation(finished(), [one, one]),
        lambda: device(device_count()),
        lambda: device(-1),
        lambda: finished().get_supported_operations_for_devices([]),
    ):
        refuses(ResultCode.BAD_DATA, call)
    other = Burst(compiled())
    refuses(ResultCode.BAD_DATA, lambda: given(ready).burst_compute(other))


def test_devices_are_the_backends() -> None:
    assert [each.name for each in devices()][:2] == ["cpu", "reference"]
    assert device(0).type is DeviceCode.CPU
    assert device(1).feature_level == 29


def test_the_sum_is_right_on_each_device() -> None:
    for chosen in (None, REFERENCE):
        out = np.zeros((1, 4), np.float32)
        given(compiled(devices=chosen), out).compute()
        np.testing.assert_array_equal(out, SUM)
