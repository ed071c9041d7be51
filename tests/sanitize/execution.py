"""Runs a plan step by step, every tensor in guarded memory; stands in for the loader."""

from __future__ import annotations

import ctypes
import itertools
from _ctypes import CFuncPtr
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.cpu.abi import CONTROL, LINE_BYTES, Jump, Space, abi_dtypes
from circlet.backends.cpu.executable import Executable
from circlet.backends.cpu.loader import Library, Runtime, address_of
from circlet.backends.cpu.status import Status, error_of
from tests.sanitize.memory import Region
from tests.sanitize.spread import PAGE, Spread, pages

if TYPE_CHECKING:
    from circlet.backends.cpu.loader import Image

CHUNKS = 3
_ASKS = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)
_TELLS = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ENDS = (Status.BAD_OPERAND, Status.OUTGROWN)  # in the order of circlet_stop
_KERNEL = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


@dataclass(frozen=True)
class Placed:
    """What the compiler said of a plan.

    Attributes:
        spread: Where its tensors are.
        names: For each step its kernel, and the operator that it works for.
        scratch: Scratch bytes of each step.
    """

    spread: Spread
    names: tuple[str, ...]
    scratch: tuple[int, ...]


class Stop:
    """`circlet_stop` of a run that ends early only where a kernel says so.

    Attributes:
        status: What the kernels so far said.
        address: Where kernels find it.
    """

    def __init__(self) -> None:
        self.status = Status.OK
        ends = (_TELLS(partial(self._end, status)) for status in _ENDS)
        self._functions = (_ASKS(lambda stop: 0), *ends)
        pointers = [ctypes.cast(function, ctypes.c_void_p) for function in self._functions]
        self._table = (ctypes.c_void_p * len(pointers))(*pointers)
        self.address = ctypes.addressof(self._table)

    def _end(self, status: Status, stop: int) -> None:
        self.status = self.status or status


class Guard:
    """What the worker shares with the executions of its process.

    Attributes:
        plans: What is known of each plan, by its bytes.
        constants: Offset and size of each constant, by the bytes of all.
        say: Tells the parent which step comes next.
    """

    plans: dict[bytes, Placed]
    constants: dict[bytes, list[tuple[int, int]]]
    say: Callable[[str], None]

    def __init__(self, say: Callable[[str], None]) -> None:
        self.plans, self.constants = {}, {}
        self.say = say


class GuardedExecutable:
    """A plan with its constants in guarded memory and its kernels; `loader.Executable` for others.

    Attributes:
        runtime, constants, units, reuse, values: As `loader.Executable` has them.
    """

    guard: Guard

    def __init__(
        self,
        runtime: Runtime,
        plan: Image,
        constants: Image | np.ndarray,
        units: Sequence[Image | Library],
        reuse: Image = b"",
        values: Image | Callable[[], Image] = b"",
    ) -> None:
        self.runtime, self.reuse, self.values = runtime, reuse, values
        self.constants = np.frombuffer(constants, np.uint8)
        self.units = [u if isinstance(u, Library) else Library(u, "unit") for u in units]
        self._granted = Executable(runtime, plan, constants, self.units)  # what kernels need
        self.placed = self.guard.plans[bytes(plan)]
        self.plan = np.frombuffer(plan, np.uint8)
        self.kernels = [_kernels(unit) for unit in self.units]
        stored = self.constants.tobytes()
        self.guarded = Region(len(stored), self.guard.constants.get(stored, []))
        self.guarded.write(stored)
        self.guarded.seal(read_only=True)

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> GuardedBinding:
        """Guarded copies of these buffers, and an arena."""
        return GuardedBinding(self, inputs, outputs)


def _kernels(library: Library) -> list[CFuncPtr]:
    table = library.symbol("circlet_unit_table")
    count = ctypes.c_uint32.from_address(table + 4).value
    pointers = ctypes.c_void_p.from_address(table + 8).value or 0
    addresses = (ctypes.c_void_p * count).from_address(pointers)
    return [_KERNEL(address or 0) for address in addresses]


class GuardedBinding:
    """Stands in for `loader.Binding`; copies the caller's buffers to guarded ones and back."""

    def __init__(
        self,
        executable: GuardedExecutable,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        self._executable = executable
        self._ports = {Space.INPUT: list(inputs), Space.OUTPUT: list(outputs)}
        spread = executable.placed.spread
        header = np.frombuffer(executable.plan, abi_dtypes()["circlet_plan"], 1)[0]
        self._arena = Region(int(header["arena_bytes"]), spread.tensors)
        self._arena.seal()
        self._resident = Region(int(header["resident_bytes"]), spread.resident)
        self._resident.seal()
        self._once, self._is_made = int(header["once_steps"]), False
        self._params = address_of(executable.plan) + int(header["params_offset"])
        self._steps, self._operands = _tables(executable.plan, header)
        self._stop = Stop()

    def run(self, timeout_ns: int = 0) -> None:
        """Run all steps; kernels get their tasks in several calls, as from several threads."""
        arrays = [array for side in self._ports.values() for array in side]
        ports = {array.ctypes.data: self._guarded(array) for array in arrays}
        index, self._stop.status = self._once if self._is_made else 0, Status.OK
        while index < len(self._steps):
            step = self._steps[index]
            operands = [self._address(operand, ports) for operand in self._operands_of(step)]
            self._executable.guard.say(self._executable.placed.names[index])
            if index == self._once:
                self._resident.seal(read_only=True)  # what runs again may not write to it
                self._is_made = True
            index += 1
            if step["unit"] != CONTROL:
                self._call(index - 1, operands)
                if self._stop.status:
                    raise error_of(self._stop.status)
            elif (
                step["kernel"] == Jump.ALWAYS or not ctypes.c_uint8.from_address(operands[0]).value
            ):
                index = int(step["tasks"])
        for array in arrays:
            if array.flags.writeable:
                ctypes.memmove(array.ctypes.data, ports[array.ctypes.data].first, array.nbytes)

    def output(self, index: int) -> np.ndarray:
        """The array that output `index` is written to."""
        return self._ports[Space.OUTPUT][index]

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from this array from now on."""
        self._ports[Space.INPUT][index] = buffer

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to this array from now on."""
        self._ports[Space.OUTPUT][index] = buffer

    def cancel(self) -> None:
        """Nothing runs on another thread."""

    def _guarded(self, array: np.ndarray) -> Region:
        at_end = self._executable.placed.spread.at_end
        start = PAGE + (pages(array.nbytes) - array.nbytes if at_end else 0)
        region = Region(start + array.nbytes, [(start, array.nbytes)])
        region.write(array.tobytes(), start)
        region.seal()
        return region

    def _operands_of(self, step: np.void) -> np.ndarray:
        first = int(step["first_operand"])
        return self._operands[first : first + int(step["operand_count"])]

    def _address(self, operand: np.void, ports: dict[int, Region]) -> int:
        space, offset = Space(operand["space"]), int(operand["offset"])
        if space is Space.NONE:
            return 0
        if space is Space.STOP:
            return self._stop.address
        if space is Space.ARENA:
            return self._arena.address + offset
        if space is Space.RESIDENT:
            return self._resident.address + offset
        if space is Space.CONSTANT:
            return self._executable.guarded.address + offset
        if space is Space.PARAMS:
            return self._params + offset
        if space is Space.KERNEL:
            kernel = self._executable.kernels[int(operand["index"])][offset]
            return ctypes.cast(kernel, ctypes.c_void_p).value or 0
        return ports[self._ports[space][int(operand["index"])].ctypes.data].first + offset

    def _call(self, index: int, operands: Sequence[int]) -> None:
        step, size = self._steps[index], self._executable.placed.scratch[index]
        kernel = self._executable.kernels[step["unit"]][step["kernel"]]
        pointers = (ctypes.c_void_p * max(len(operands), 1))(*operands)
        params = self._params + int(step["params_offset"])
        bounds = np.linspace(0, int(step["tasks"]), CHUNKS + 1).astype(np.int64)
        for begin, end in itertools.pairwise(map(int, bounds)):
            if begin < end:
                scratch = self._scratch(size)
                kernel(params, pointers, scratch.first, begin, end)

    def _scratch(self, size_bytes: int) -> Region:
        at_end = self._executable.placed.spread.at_end
        unused = pages(size_bytes) - size_bytes if at_end else 0
        start = PAGE + unused // LINE_BYTES * LINE_BYTES
        region = Region(start + size_bytes, [(start, size_bytes)])
        region.seal()
        return region


def _tables(plan: np.ndarray, header: np.void) -> tuple[np.ndarray, np.ndarray]:
    types = abi_dtypes()
    start = types["circlet_plan"].itemsize
    steps = np.frombuffer(plan, types["circlet_step"], int(header["step_count"]), start)
    operands = np.frombuffer(
        plan, types["circlet_operand"], int(header["operand_count"]), start + steps.nbytes
    )
    return steps, operands
