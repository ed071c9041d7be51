"""Loaded partitions on a device, and runs of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from circlet.artifact.file import Blob, PartitionCode
from circlet.backends.base import Observation, ObservedValue, Observer
from circlet.backends.models import ArrayRunner
from circlet.backends.opencl.device import OpenClDevice, chosen_device
from circlet.backends.opencl.table import Launch, LaunchTable, Place, Result
from circlet.deadline import deadline_after, time_left
from circlet.errors import ArtifactError, BackendError, CancelledError

_AHEAD = 32  # launches between two looks at the clock and at `cancel`


@lru_cache(maxsize=64)
def _built(device: OpenClDevice, source: str) -> Any:
    """A program of a device; other partitions of the same kernels share it."""
    return device.build(source)


class OpenClPartition:
    """A partition whose program is built and whose constants lie on the device.

    Raises:
        ArtifactError: The launch table is damaged.
        BackendError: There is no device, or its compiler refuses a kernel.
    """

    def __init__(self, code: PartitionCode) -> None:
        self._table = _read_table(code)
        self._device = chosen_device()
        source = bytes(code.section("source")).decode("ascii", "replace")
        self._program = _built(self._device, source)
        self._constants = _constant_buffer(self._device, code.constants)
        size = len(code.constants)
        for place in self._table.places:
            if place.memory == "constants" and place.offset + place.size_bytes > size:
                raise _damaged("a constant lies outside of the constants")

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> OpenClRunner:
        """Read and write these arrays; the device has threads of its own.

        Raises:
            ArtifactError: The partition has fewer or more inputs or outputs.
            BackendError: The device's memory is too small.
        """
        if (len(inputs), len(outputs)) != (self._table.inputs, self._table.outputs):
            raise _damaged("a partition has other inputs or outputs than the plan says")
        return OpenClRunner(
            self._device, self._program, self._table, self._constants, inputs, outputs
        )


class OpenClRunner(ArrayRunner):
    """One partition on bound arrays, with an arena, kernels and a queue of its own."""

    def __init__(
        self,
        device: OpenClDevice,
        program: Any,
        table: LaunchTable,
        constants: Any,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(inputs, outputs)
        import pyopencl

        self._cl, self._device, self._table = pyopencl, device, table
        self._observer: Observer | None = None
        self._clock: np.ndarray | None = None
        self._events: list[Any] = []
        self._moves: list[Any] = []  # copies under way; an event that is dropped is waited for
        try:
            self._queue = pyopencl.CommandQueue(device.context)
            self._memory = {"constants": constants, "arena": self._arena(table.arena_bytes)}
            self._buffers = [self._buffer(place) for place in table.places]
            self._kernels = [
                [self._kernel(program, launch) for launch in step.launches] for step in table.steps
            ]
        except pyopencl.Error as error:
            raise _failed(error, "bind a partition to the device") from None
        self._launches = list(
            chain.from_iterable(
                zip(kernels, step.launches, strict=True)
                for kernels, step in zip(self._kernels, table.steps, strict=True)
            )
        )

    def run(self, timeout_ns: int = 0) -> None:
        """Compute the outputs; the clock and `cancel` are looked at between kernels."""
        self.is_cancelled = False
        deadline = deadline_after(timeout_ns)
        try:
            self._send()
            if self._observer is None:
                self._enqueue(deadline)
            else:
                self._observe_steps(self._observer, deadline)
            self._receive()
            if self._clock is not None:
                self._clock[:] = [e.profile.end - e.profile.start for e in self._events]
        except self._cl.Error as error:
            raise _failed(error, "run a partition on the device") from None
        if self.is_cancelled:
            raise CancelledError("the run was cancelled")

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        super().set_input(index, buffer)
        self._renew("in", index)

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        super().set_output(index, buffer)
        self._renew("out", index)

    def observe(self, observer: Observer | None) -> None:
        """Tell an observer of every step, timed by the device's own clock; kernels wait in turn."""
        self._observer = observer
        self._choose_queue()

    def profile(self, enabled: bool = True) -> np.ndarray:
        """Nanoseconds of each launch by the device's clock, written anew by every run.

        Raises:
            BackendError: The device has no such clock.
        """
        clock = np.zeros(len(self._launches), np.uint64)
        self._clock = clock if enabled else None
        self._choose_queue()
        return clock

    def _choose_queue(self) -> None:
        """Have events know times only where they are asked for."""
        try:
            if self._observer is not None or self._clock is not None:
                self._queue = self._device.timed_queue()
            else:
                self._queue = self._cl.CommandQueue(self._device.context)
        except self._cl.Error as error:
            raise _failed(error, "time kernels") from None

    def _enqueue(self, deadline: int) -> None:
        enqueue, queue = self._cl.enqueue_nd_range_kernel, self._queue
        ahead = 1 if deadline else _AHEAD
        waited_for, keeps = None, self._clock is not None
        self._events = []
        for number, (kernel, launch) in enumerate(self._launches, 1):
            event = enqueue(queue, kernel, launch.items, launch.group)
            if keeps:
                self._events.append(event)
            if number % ahead:
                continue
            if waited_for is not None:
                waited_for.wait()
            waited_for = event
            self._check(deadline)
        if deadline and waited_for is not None:
            waited_for.wait()
            self._check(deadline)

    def _observe_steps(self, observer: Observer, deadline: int) -> None:
        for step, kernels in zip(self._table.steps, self._kernels, strict=True):
            ns = 0
            for kernel, launch in zip(kernels, step.launches, strict=True):
                event = self._cl.enqueue_nd_range_kernel(
                    self._queue, kernel, launch.items, launch.group
                )
                event.wait()
                ns += event.profile.end - event.profile.start
            values = tuple(self._seen(r) for r in step.results if r.buffer >= 0)
            observer(Observation(step.kind, step.name, ns, values))
            self._check(deadline)

    def _check(self, deadline: int) -> None:
        """Raise once the queue is empty, where a run is to end."""
        if self.is_cancelled:
            self._queue.finish()
            raise CancelledError("the run was cancelled")
        if deadline:
            try:
                time_left(deadline)
            except BaseException:
                self._queue.finish()
                raise

    def _seen(self, result: Result) -> ObservedValue:
        array = np.empty(result.shape, result.dtype)
        self._cl.enqueue_copy(self._queue, array.reshape(-1), self._buffers[result.buffer])
        array.flags.writeable = False
        return ObservedValue(result.name, array, result.scale, result.zero_point, result.axis)

    def _arena(self, size_bytes: int) -> Any:
        flags = self._cl.mem_flags
        return self._cl.Buffer(self._device.context, flags.READ_WRITE, max(size_bytes, 1))

    def _array(self, place: Place) -> np.ndarray:
        return (self.inputs if place.memory == "in" else self.outputs)[place.offset]

    def _buffer(self, place: Place) -> Any:
        if place.memory in self._memory:
            whole = self._memory[place.memory]
            return whole.get_sub_region(place.offset, place.size_bytes)
        flags = self._cl.mem_flags
        access = flags.READ_ONLY if place.memory == "in" else flags.READ_WRITE
        if not self._device.facts.shares_memory:
            return self._cl.Buffer(self._device.context, access, place.size_bytes)
        array = self._array(place)
        if array.nbytes != place.size_bytes or not array.flags.c_contiguous:
            return None  # the array comes before a run
        access |= flags.USE_HOST_PTR
        return self._cl.Buffer(self._device.context, access, hostbuf=array.reshape(-1))

    def _kernel(self, program: Any, launch: Launch) -> Any:
        kernel = self._cl.Kernel(program, launch.kernel)
        for number, argument in enumerate(launch.arguments):
            given = self._buffers[argument] if isinstance(argument, int) else argument
            if given is not None:
                kernel.set_arg(number, given)
        return kernel

    def _renew(self, memory: str, index: int) -> None:
        """Have kernels use the array that is now at an end, where they work in host memory."""
        if not self._device.facts.shares_memory:
            return
        for number, place in enumerate(self._table.places):
            if place.memory != memory or place.offset != index:
                continue
            self._buffers[number] = self._buffer(place)
            if self._buffers[number] is None:
                continue
            for kernel, launch in self._launches:
                for position, argument in enumerate(launch.arguments):
                    if isinstance(argument, int) and argument == number:
                        kernel.set_arg(position, self._buffers[number])

    def _send(self) -> None:
        if self._device.facts.shares_memory:
            return
        for buffer, place in zip(self._buffers, self._table.places, strict=True):
            if place.memory == "in":
                array = np.ascontiguousarray(self.inputs[place.offset]).reshape(-1)
                self._moves.append(
                    self._cl.enqueue_copy(self._queue, buffer, array, is_blocking=False)
                )

    def _receive(self) -> None:
        for buffer, place in zip(self._buffers, self._table.places, strict=True):
            if place.memory == "out" and not self._device.facts.shares_memory:
                array = self.outputs[place.offset].reshape(-1)
                self._moves.append(
                    self._cl.enqueue_copy(self._queue, array, buffer, is_blocking=False)
                )
        self._queue.finish()
        self._moves = []


def _constant_buffer(device: OpenClDevice, constants: Blob) -> Any:
    """The constants on the device, where they lie if it works in host memory."""
    import pyopencl

    flags = pyopencl.mem_flags
    how = flags.USE_HOST_PTR if device.facts.shares_memory else flags.COPY_HOST_PTR
    if not len(constants):
        return pyopencl.Buffer(device.context, flags.READ_ONLY, 1)
    array = np.frombuffer(constants, np.uint8)
    try:
        return pyopencl.Buffer(device.context, flags.READ_ONLY | how, hostbuf=array)
    except pyopencl.Error as error:
        raise _failed(error, "put constants on the device") from None


def _read_table(code: PartitionCode) -> LaunchTable:
    try:
        return LaunchTable.from_json(json.loads(bytes(code.section("table"))))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(f"launch table: {error!r}") from error


def _damaged(why: str) -> ArtifactError:
    fix = "compile the model again"
    return ArtifactError("an artifact is damaged or is none", where="opencl", why=why, fix=fix)


def _failed(error: Exception, what: str) -> BackendError:
    return BackendError(
        f"the OpenCL device could not {what}",
        where=chosen_device().facts.name,
        why=str(error).strip(),
        fix="run the network on the backend cpu, or on another device (CIRCLET_OPENCL_DEVICE)",
    )
