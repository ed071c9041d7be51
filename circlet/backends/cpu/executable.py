"""Plans that are checked, and bound to buffers; on the path of every cached start."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.cpu.loader import Library, Runtime, address_of, check
from circlet.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from circlet.backends.base import Observer
    from circlet.backends.cpu.loader import Array, Image
    from circlet.backends.cpu.observation import Observing

_ALIGNMENT = 64  # LINE_BYTES of abi.py, which a start does without
_ARENA, _INPUT, _RESIDENT = 1, 3, 8  # of `enum circlet_space`
_BAD_OPERAND = 11  # of `enum circlet_status`
_PLAN_HEADER_BYTES, _STEP_WORDS, _CONTROL = 96, 10, 0xFFFFFFFF  # of `circlet_abi.h`
_MOST_THREADS = 64  # CIRCLET_MAX_THREADS of `circlet_runtime.h`
_LONG_WORK = 1 << 20  # in the units of steps
_NEVER = ctypes.c_uint64(0)  # a timeout; made once, as ctypes takes 100 ns to make one of a number


class Executable:
    """A plan, its packed constants and its code, checked and ready to be bound.

    The buffers are used in place and kept alive; those that are not 64-byte aligned are copied.

    Attributes:
        constants: Packed constants.
        units: The loaded units; several executables may share them.
        reuse: What of it serves other sizes, as `ReuseIndex` reads it.
        values: Where results of ops lie, as `Observing` reads it, or what makes that.
    """

    def __init__(
        self,
        runtime: Runtime,
        plan: Image,
        constants: Image | Array,
        units: Sequence[Image | Library],
        reuse: Image = b"",
        values: Image | Callable[[], Image] = b"",
    ) -> None:
        self.runtime = runtime
        self.reuse, self.values = reuse, values
        self._plan = _aligned(plan)
        self.constants = _aligned(constants)
        self.units = [u if isinstance(u, Library) else Library(u, "unit") for u in units]
        self.step_count = int(self._plan[8:12].view(np.uint32)[0]) if self._plan.size > 12 else 0
        self._handle = self._create()
        release = weakref.finalize(self, runtime.executable_release, self._handle)
        release.atexit = False
        if self._is_long():
            runtime.hear_signals()

    def _create(self) -> int:
        tables = [unit.symbol("circlet_unit_table") for unit in self.units]
        out = ctypes.c_void_p()
        status = self.runtime.executable_create(
            address_of(self._plan),
            self._plan.nbytes,
            address_of(self.constants),
            self.constants.nbytes,
            (ctypes.c_void_p * len(tables))(*tables),
            len(tables),
            ctypes.byref(out),
        )
        check(status)
        return out.value or 0

    def _is_long(self) -> bool:
        """Whether a run may take so long that signals should be heard: much work, or jumps.

        What hears them costs milliseconds to make, which starts of short networks do without.
        """
        end = _PLAN_HEADER_BYTES + _STEP_WORDS * 4 * self.step_count
        words = self._plan[_PLAN_HEADER_BYTES:end].view(np.uint32).tolist()
        work, units = words[_STEP_WORDS - 1 :: _STEP_WORDS], words[::_STEP_WORDS]
        return sum(work) > _LONG_WORK or _CONTROL in units

    @property
    def handle(self) -> int:
        """The address of the C object."""
        return self._handle

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array], threads: int) -> Binding:
        """Give the plan an arena and these buffers."""
        return Binding(self, inputs, outputs, threads)


class _Bound:
    """What a bound plan needs alive: the C object, the code, and the caller's buffers."""

    def __init__(self, executable: Executable, inputs: list[Array], outputs: list[Array]) -> None:
        self.executable = executable
        self.inputs = inputs
        self.outputs = outputs
        self.step_ns: npt.NDArray[np.uint64] | None = None
        self.busy_ns: npt.NDArray[np.uint64] | None = None
        self.observing: Observing | None = None


class Binding:
    """A plan with an arena and buffers. `run` reads the inputs and writes the outputs in place.

    One binding does one run at a time; several bindings of one executable run side by side.
    `run` holds all it needs and may outlive the binding.
    """

    run: Callable[..., None]
    keeps_timeouts = True

    def __init__(
        self,
        executable: Executable,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        threads: int = 1,
    ) -> None:
        self._runtime = executable.runtime
        self._threads = min(max(1, threads), _MOST_THREADS)
        self._bound = _Bound(executable, list(inputs), list(outputs))
        out = ctypes.c_void_p()
        status = self._runtime.binding_create(
            executable.handle,
            _addresses(inputs),
            _addresses(outputs),
            threads,
            ctypes.byref(out),
        )
        check(status)
        self._handle = out.value or 0
        # The finaliser holds the executable: the binding is destroyed before the code unloads.
        destroy = weakref.finalize(self._bound, _destroy, executable, self._handle)
        destroy.atexit = False
        self.run = _run_function(self._runtime.run, self._handle, self._bound)

    def output(self, index: int) -> Array:
        """The array that output `index` is written to."""
        return self._bound.outputs[index]

    def set_input(self, index: int, buffer: Array) -> None:
        """Has the plan read input `index` from this contiguous array from now on."""
        check(self._runtime.binding_set_input(self._handle, index, address_of(buffer)))
        self._bound.inputs[index] = buffer

    def set_output(self, index: int, buffer: Array) -> None:
        """Has the plan write output `index` to this contiguous array from now on."""
        check(self._runtime.binding_set_output(self._handle, index, address_of(buffer)))
        self._bound.outputs[index] = buffer

    def cancel(self) -> None:
        """Stops the run in progress, if any, inside of a long step too."""
        self._runtime.cancel(self._handle)

    def profile(self, enabled: bool = True) -> npt.NDArray[np.uint64]:
        """Has every run write the nanoseconds of each step to the array that is returned."""
        step_ns = np.zeros(self._bound.executable.step_count, np.uint64)
        check(self._runtime.binding_profile(self._handle, address_of(step_ns) if enabled else None))
        self._bound.step_ns = step_ns
        return step_ns

    def profile_threads(self, enabled: bool = True) -> npt.NDArray[np.uint64]:
        """Has every run write what each thread worked on each step, in nanoseconds, to the array.

        Steps by threads; those of the thread that runs the plan come first.
        """
        pointer = ctypes.c_void_p
        tell = self._runtime.library.function("circlet_binding_profile_threads", pointer, pointer)
        busy_ns = np.zeros((self._bound.executable.step_count, self._threads), np.uint64)
        check(tell(self._handle, address_of(busy_ns) if enabled else None))
        self._bound.busy_ns = busy_ns
        return busy_ns

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every op that runs from now on, or nobody any more."""
        pointer = ctypes.c_void_p
        library = self._runtime.library
        tell = library.function("circlet_binding_observe", pointer, pointer, pointer)
        if observer is None:
            check(tell(self._handle, None, None))
            if self._bound.observing is not None:
                self._bound.observing.end()
                self._bound.observing = None
            return
        from circlet.backends.cpu.observation import Observing

        values = self._bound.executable.values
        table = values() if callable(values) else values
        observing = Observing(table, observer, self._address, self.cancel, self._bound)
        check(tell(self._handle, ctypes.cast(observing.callback, pointer), None))
        self._bound.observing = observing

    def _address(self, space: int, buffer: int, offset: int) -> int:
        """The address of a place, whose space is one of `enum circlet_space`."""
        if space in (_ARENA, _RESIDENT):
            name = "circlet_binding_arena" if space == _ARENA else "circlet_binding_resident"
            memory = self._runtime.library.function(name, ctypes.c_void_p)
            memory.restype = ctypes.c_void_p  # type: ignore[attr-defined]
            return (memory(self._handle) or 0) + offset
        arrays = self._bound.inputs if space == _INPUT else self._bound.outputs
        return address_of(arrays[buffer]) + offset


def _destroy(executable: Executable, handle: int) -> None:
    executable.runtime.binding_destroy(handle)


def _run_function(native: Callable[..., int], handle: int, bound: _Bound) -> Callable[..., None]:
    address = ctypes.c_void_p(handle)

    def run(timeout_ns: int | ctypes.c_uint64 = _NEVER, _keep: _Bound = bound) -> None:
        status = native(address, timeout_ns)
        if status or _keep.observing is not None:
            if _keep.observing is not None:
                _keep.observing.raise_error()
            if status == _BAD_OPERAND:
                raise _refused(address, _keep.executable)
            check(status)

    return run


def _refused(handle: ctypes.c_void_p, executable: Executable) -> InputError:
    """The error of a run in which a kernel refused what an operand holds."""
    from circlet.backends.cpu.observation import operator_of
    from circlet.backends.cpu.status import refused_operand

    told = executable.runtime.library.function("circlet_binding_refused_step", ctypes.c_void_p)
    step, values = told(handle), executable.values
    return refused_operand(operator_of(values() if callable(values) else values, step))


def _addresses(arrays: Sequence[Array]) -> object:
    return (ctypes.c_void_p * len(arrays))(*map(address_of, arrays))


def _aligned(data: Image | Array) -> npt.NDArray[np.uint8]:
    array = np.frombuffer(data, np.uint8)
    if array.size == 0 or address_of(array) % _ALIGNMENT == 0:
        return array
    room = np.zeros(array.size + _ALIGNMENT, np.uint8)
    start = -address_of(room) % _ALIGNMENT
    room[start : start + array.size] = array
    return room[start : start + array.size]
