"""Executions: buffers of every sort, sizes that are left open, caching, and runs side by side."""

from __future__ import annotations

import array
import ctypes
import mmap
import threading
from pathlib import Path

import numpy as np
import pytest

from circlet.errors import NNAPIError
from circlet.formats.nnapi.codes import OperandCode
from circlet.frontends.nnapi import (
    Burst,
    Compilation,
    Device,
    Execution,
    Memory,
    Model,
    OperandType,
    ResultCode,
)
from circlet.runtime import opening
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


@pytest.fixture(scope="module")
def ready() -> Compilation:
    return compiled()


@pytest.fixture(scope="module")
def flexible() -> Compilation:
    """The sum of two tensors of any number of rows."""
    return compiled(added((0, 4), (0, 4)))


def run(compilation: Compilation, x: object, y: object, out: object) -> Execution:
    execution = Execution(compilation)
    execution.set_input(0, x)
    execution.set_input(1, y)
    execution.set_output(0, out)
    execution.compute()
    return execution


def test_whatever_has_a_buffer_is_read_and_written_in_place(ready: Compilation) -> None:
    out = bytearray(16)
    run(ready, X.tobytes(), Y.tobytes(), out)
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), SUM[0])
    plain = array.array("f", [0] * 4)
    run(ready, X.reshape(-1), (ctypes.c_float * 4)(*Y[0]), plain)
    assert list(plain) == list(SUM[0])


def test_memory_that_is_not_aligned_is_copied(ready: Compilation) -> None:
    room = np.zeros(40, np.uint8)
    room[1:17] = X.view(np.uint8).reshape(-1)
    out = np.zeros(17, np.uint8)
    run(ready, room[1:17], Y, out[1:])
    np.testing.assert_array_equal(np.frombuffer(out[1:].tobytes(), np.float32), SUM[0])


@pytest.mark.parametrize("devices", [None, REFERENCE], ids=["native", "reference"])
def test_an_output_may_lie_where_an_input_does(devices: tuple[Device, ...] | None) -> None:
    x = X.copy()
    run(compiled(devices=devices), x, Y, x)
    np.testing.assert_array_equal(x, SUM)


def test_buffers_may_be_longer_where_padding_is_enabled(ready: Compilation) -> None:
    execution, out = Execution(ready), np.full(6, 7, np.float32)
    execution.enable_input_and_output_padding(True)
    execution.set_input(0, np.append(X, np.float32(99)))
    execution.set_input(1, Y)
    execution.set_output(0, out)
    execution.compute()
    np.testing.assert_array_equal(out, [*SUM[0], 7, 7])


def test_memory_of_a_file_is_shared(ready: Compilation, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(bytes(4096) + X.tobytes() + Y.tobytes() + bytes(16))
    with path.open("r+b") as file:
        protect = mmap.PROT_READ | mmap.PROT_WRITE
        memory = Memory.create_from_fd(48, protect, file.fileno(), 4096)
    execution = Execution(ready)
    execution.set_input_from_memory(0, memory, 0, 16)
    execution.set_input_from_memory(1, memory, 16, 16)
    execution.set_output_from_memory(0, memory, 32, 16)
    memory.free()
    execution.compute()
    np.testing.assert_array_equal(np.frombuffer(path.read_bytes()[-16:], np.float32), SUM[0])


def test_memory_that_may_not_be_written_takes_no_output(ready: Compilation, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(bytes(16))
    with path.open("rb") as file:
        memory = Memory.create_from_fd(16, mmap.PROT_READ, file.fileno())
    with pytest.raises(NNAPIError) as caught:
        Execution(ready).set_output_from_memory(0, memory, 0, 16)
    assert caught.value.result is ResultCode.BAD_DATA


def test_short_values_are_copied_and_long_ones_are_used_where_they_lie() -> None:
    for count, is_copied in ((32, True), (33, False)):
        model, kind = Model(), OperandType(FLOATS, (count,))
        x, weights, out = (model.add_operand(kind) for _ in range(3))
        activation = model.add_operand(OperandType(OperandCode.INT32))
        held = np.ones(count, np.float32)
        model.set_operand_value(weights, held)
        model.set_operand_value(activation, np.int32(0))
        held[:] = 5  # before the model is finished
        model.add_operation("ADD", [x, weights, activation], [out])
        model.identify_inputs_and_outputs([x], [out])
        execution, found = Execution(compiled(model)), np.zeros(count, np.float32)
        execution.set_input(0, np.zeros(count, np.float32))
        execution.set_output(0, found)
        execution.compute()
        assert set(found) == {1.0 if is_copied else 5.0}


def test_constants_may_lie_in_a_memory() -> None:
    model, kind = Model(), OperandType(FLOATS, (1, 4))
    x, weights, out = (model.add_operand(kind) for _ in range(3))
    activation = model.add_operand(OperandType(OperandCode.INT32))
    memory = Memory.from_buffer(np.concatenate([X, Y]))
    model.set_operand_value_from_memory(weights, memory, 16, 16)
    model.set_operand_value(activation, np.int32(1))
    model.add_operation("ADD", [x, weights, activation], [out])
    model.identify_inputs_and_outputs([x], [out])
    execution, found = Execution(compiled(model)), np.zeros((1, 4), np.float32)
    execution.set_input(0, X)
    execution.set_output(0, found)
    execution.compute()
    np.testing.assert_array_equal(found, SUM)


def test_an_execution_states_the_sizes_that_the_model_leaves_open(flexible: Compilation) -> None:
    for rows in (1, 3, 2, 3):
        x, out = np.tile(X, (rows, 1)), np.zeros((rows, 4), np.float32)
        kind = OperandType(FLOATS, (rows, 4))
        execution = Execution(flexible)
        execution.set_input(0, x, kind)
        execution.set_input(1, np.tile(Y, (rows, 1)), kind)
        execution.set_output(0, out)
        execution.compute()
        np.testing.assert_array_equal(out, np.tile(SUM, (rows, 1)))
        assert execution.get_output_operand_dimensions(0) == (rows, 4)
        assert execution.get_output_operand_rank(0) == 2


def test_a_tensor_of_unknown_rank_gets_one_when_it_is_given() -> None:
    compilation = compiled(added((), ()))
    for dims in ((4,), (1, 4), (2, 1, 2)):
        kind, out = OperandType(FLOATS, dims), np.zeros(4, np.float32)
        execution = Execution(compilation)
        execution.set_input(0, X, kind)
        execution.set_input(1, Y, kind)
        execution.set_output(0, out)
        execution.compute()
        np.testing.assert_array_equal(out, SUM[0])
        assert execution.get_output_operand_dimensions(0) == dims


def test_an_input_of_unknown_sizes_needs_a_type(flexible: Compilation) -> None:
    with pytest.raises(NNAPIError, match="unknown sizes"):
        Execution(flexible).set_input(0, X)


def test_an_output_without_room_can_be_computed_again(flexible: Compilation) -> None:
    kind = OperandType(FLOATS, (2, 4))
    x, y = np.tile(X, (2, 1)), np.tile(Y, (2, 1))

    def attempt(out: np.ndarray) -> Execution:
        execution = Execution(flexible)
        execution.set_input(0, x, kind)
        execution.set_input(1, y, kind)
        execution.set_output(0, out)
        return execution

    small = attempt(np.zeros(4, np.float32))
    with pytest.raises(NNAPIError) as caught:
        small.compute()
    assert caught.value.result is ResultCode.OUTPUT_INSUFFICIENT_SIZE
    out = np.zeros(small.get_output_shape(0), np.float32)
    attempt(out).compute()
    np.testing.assert_array_equal(out, np.tile(SUM, (2, 1)))


def test_an_output_that_is_not_wanted_is_left_out(ready: Compilation) -> None:
    execution = Execution(ready)
    execution.set_input(0, X)
    execution.set_input(1, Y)
    execution.set_output(0, None)
    execution.compute()
    assert execution.get_output_operand_dimensions(0) == (1, 4)


def test_an_input_that_is_demanded_cannot_be_left_out(ready: Compilation) -> None:
    execution = Execution(ready)
    execution.set_input(0, X)
    execution.set_input(1, None)
    execution.set_output(0, np.zeros((1, 4), np.float32))
    with pytest.raises(NNAPIError) as caught:
        execution.compute()
    assert caught.value.result is ResultCode.BAD_DATA


def test_a_reusable_execution_reads_its_buffers_anew(ready: Compilation) -> None:
    x, out = X.copy(), np.zeros((1, 4), np.float32)
    execution = Execution(ready)
    execution.set_reusable(True)
    execution.set_input(0, x)
    execution.set_input(1, Y)
    execution.set_output(0, out)
    for shift in range(3):
        x[:] = X + shift
        execution.compute()
        np.testing.assert_array_equal(out, SUM + shift)


def test_executions_follow_each_other_on_other_buffers(ready: Compilation) -> None:
    burst = Burst(ready)
    for shift in range(4):
        out = np.zeros((1, 4), np.float32)
        execution = Execution(ready)
        execution.set_input(0, X + np.float32(shift))
        execution.set_input(1, Y)
        execution.set_output(0, out)
        if shift % 2:
            execution.burst_compute(burst)
        else:
            execution.start_compute().wait()
        execution.free()
        np.testing.assert_array_equal(out, SUM + shift)


def test_threads_run_executions_of_one_compilation(ready: Compilation) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for shift in range(50):
            out, moved = np.zeros((1, 4), np.float32), np.float32(number * 100 + shift)
            run(ready, X + moved, Y, out).free()
            if not (out == SUM + moved).all():
                wrong.append(shift)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_what_was_made_of_a_model_outlives_it() -> None:
    model = finished()
    compilation = Compilation(model, REFERENCE)
    model.free()
    compilation.finish()
    execution, out = given(compilation), np.zeros((1, 4), np.float32)
    compilation.free()
    execution.compute()
    assert out.shape == (1, 4)


def opened_how(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How each session that is opened from now on comes about: by compiling or from a cache."""
    found: list[str] = []
    loaded = opening._loaded

    def noted(artifact: object, options: object, how: str, start: float) -> object:
        found.append(how)
        return loaded(artifact, options, how, start)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "_loaded", noted)
    return found


def test_a_token_names_what_is_kept_in_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = opened_how(monkeypatch)
    folder = tmp_path / "cache"

    def finish(token: bytes, model: Model | None = None) -> Compilation:
        made = Compilation(finished(model), REFERENCE)
        made.set_caching(folder, token)
        made.finish()
        return made

    first, other = bytes(32), bytes([1]) * 32
    finish(first)
    assert any(folder.iterdir())
    finish(first)
    finish(other)
    model = added()
    model.relax_computation_float32_to_float16(True)
    finish(first, model)  # another model under a token that is taken
    assert how == ["compile", "cache", "compile", "compile"]
    out = np.zeros((1, 4), np.float32)
    given(finish(first), out).compute()
    np.testing.assert_array_equal(out, SUM)


def test_sizes_can_change_on_what_came_from_a_cache(tmp_path: Path) -> None:
    for _ in range(2):
        made = Compilation(finished(added((0, 4), (0, 4))), REFERENCE)
        made.set_caching(tmp_path / "cache", bytes(32))
        made.finish()
        execution, out = Execution(made), np.zeros((2, 4), np.float32)
        kind = OperandType(FLOATS, (2, 4))
        execution.set_input(0, np.tile(X, (2, 1)), kind)
        execution.set_input(1, np.tile(Y, (2, 1)), kind)
        execution.set_output(0, out)
        execution.compute()
        np.testing.assert_array_equal(out, np.tile(SUM, (2, 1)))


def test_support_is_told_with_reasons() -> None:
    model = finished()
    assert model.get_supported_operations_for_devices([Device("cpu")]) == [True]
    half = Model()
    kind = OperandType(FLOATS, (1, 4))
    x, middle, out = (half.add_operand(kind) for _ in range(3))
    activation = half.add_operand(OperandType(OperandCode.INT32))
    half.set_operand_value(activation, np.int32(0))
    half.add_operation("ADD", [x, x, activation], [middle])
    half.add_operation("EINSUM_EX", [x, middle], [out])
    half.identify_inputs_and_outputs([x], [out])
    half.finish()
    reasons = half.reasons_against_operations(REFERENCE)
    assert reasons[0] == ""
    assert reasons[1]
    assert half.get_supported_operations_for_devices(REFERENCE) == [True, False]
    with pytest.raises(NNAPIError) as caught:
        Compilation(half, REFERENCE).finish()
    assert caught.value.result is ResultCode.BAD_DATA
