"""An execution: buffers of the caller, and a run on them."""

from __future__ import annotations

import threading
from contextlib import suppress
from time import perf_counter_ns

from circlet.errors import CircletError, LimitError, NNAPIError
from circlet.formats.nnapi.description import Dims
from circlet.frontends.nnapi.arguments import (
    Argument,
    Given,
    Place,
    argument_of,
    is_plain,
    omitted_argument,
)
from circlet.frontends.nnapi.burst import Burst
from circlet.frontends.nnapi.codes import NO_DURATION, DurationCode, ResultCode
from circlet.frontends.nnapi.compilation import Compilation
from circlet.frontends.nnapi.event import Event
from circlet.frontends.nnapi.memory import Memory, bytes_of
from circlet.frontends.nnapi.object import NNAPIObject, present, refused, result_error
from circlet.frontends.nnapi.operand_type import OperandType
from circlet.frontends.nnapi.run import InsufficientError, Run, run_of
from circlet.frontends.nnapi.states import EXECUTION, REUSABLE_EXECUTION, Phase

_PREFIX = "ANeuralNetworksExecution_"
_CREATE, _COMPUTE = _PREFIX + "create", _PREFIX + "compute"
_SET_INPUT, _SET_OUTPUT = _PREFIX + "setInput", _PREFIX + "setOutput"


class Execution(NNAPIObject):
    """One computation of a finished compilation; or several, on the same buffers, if reusable.

    Every method raises `NNAPIError`: BAD_STATE at the wrong time, DEAD_OBJECT once it is freed,
    BAD_DATA for arguments that do not fit. Buffers are arrays or whatever else has a buffer; they
    are read and written where they lie, and must live until the execution has ended.

    Args:
        compilation: A finished compilation.
    """

    table = EXECUTION

    def __init__(self, compilation: Compilation) -> None:
        super().__init__(Phase.PREPARATION)
        present(compilation, Compilation, _CREATE)
        self._network = network = compilation.network(_CREATE)
        self._has_one_device = compilation.has_one_device
        self._inputs: list[Given | None] = [None] * len(network.inputs)
        self._outputs: list[Given | None] = [None] * len(network.outputs)
        self._left = len(network.inputs) + len(network.outputs)  # that are not given yet
        self._is_plain = True  # all that is given are arrays of their operands' sizes
        self._may_pad = self._is_timed = False
        self._timeout_ns = 0
        self._duration = NO_DURATION
        self._shapes: list[Dims] = []
        self._lacking: frozenset[int] = frozenset()
        self._run: Run | None = None
        self._ended_at: threading.Condition | None = None

    def set_input(self, index: int, buffer: object, type: OperandType | None = None) -> None:
        """Give an input; None for one that is optional and left out.

        `type` states the sizes that the model leaves open.
        """
        call = _SET_INPUT
        with self._lock:
            self._enter(call)
            place = self._free_place(self._network.inputs, self._inputs, index, call)
            if type is None and is_plain(buffer, place, False):
                self._inputs[index] = buffer
            else:
                self._inputs[index] = self._given(place, type, buffer, call, False)
                self._is_plain = False
            self._left -= 1

    def set_output(self, index: int, buffer: object, type: OperandType | None = None) -> None:
        """Give the buffer of an output; None for one that is not wanted.

        Where sizes are open, any buffer is taken; one that turns out to be too small ends the
        computation in OUTPUT_INSUFFICIENT_SIZE.
        """
        call = _SET_OUTPUT
        with self._lock:
            self._enter(call)
            place = self._free_place(self._network.outputs, self._outputs, index, call)
            if type is None and is_plain(buffer, place, True):
                self._outputs[index] = buffer
            else:
                self._outputs[index] = self._given(place, type, buffer, call, True)
                self._is_plain = False
            self._left -= 1

    def set_input_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, type: OperandType | None = None
    ) -> None:
        """Give an input that lies in a memory."""
        call = _PREFIX + "setInputFromMemory"
        with self._lock:
            self._enter(call)
            place = self._free_place(self._network.inputs, self._inputs, index, call)
            present(memory, Memory, call)
            held = memory.region(offset, length, call)
            self._inputs[index] = self._given(place, type, held, call, False)
            self._is_plain = False
            self._left -= 1

    def set_output_from_memory(
        self, index: int, memory: Memory, offset: int, length: int, type: OperandType | None = None
    ) -> None:
        """Have an output written to a memory."""
        call = _PREFIX + "setOutputFromMemory"
        with self._lock:
            self._enter(call)
            place = self._free_place(self._network.outputs, self._outputs, index, call)
            present(memory, Memory, call)
            held = memory.region(offset, length, call)
            self._outputs[index] = self._given(place, type, held, call, True)
            self._is_plain = False
            self._left -= 1

    def enable_input_and_output_padding(self, enable: bool) -> None:
        """Whether buffers may be longer than their operands; before any is given."""
        call = _PREFIX + "enableInputAndOutputPadding"
        with self._lock:
            self._enter(call)
            if self._left < len(self._inputs) + len(self._outputs):
                raise refused("a buffer is given already", ResultCode.BAD_STATE, where=call)
            self._may_pad = bool(enable)

    def set_reusable(self, reusable: bool) -> None:
        """Whether it may be computed again, on the same buffers, once it has ended."""
        with self._lock:
            self._enter(_PREFIX + "setReusable")
            self.table = REUSABLE_EXECUTION if reusable else EXECUTION

    def set_measure_timing(self, measure: bool) -> None:
        """Whether `get_duration` will answer; for compilations for one device."""
        call = _PREFIX + "setMeasureTiming"
        with self._lock:
            self._check_one_device(call)
            self._enter(call)
            self._is_timed = bool(measure)

    def set_timeout(self, duration_ns: int) -> None:
        """How long a computation may take, 0 for any time; for compilations for one device."""
        call = _PREFIX + "setTimeout"
        with self._lock:
            self._check_one_device(call)
            self._enter(call)
            if duration_ns < 0:
                raise refused("a duration is negative", where=call)
            self._timeout_ns = duration_ns

    def compute(self) -> None:
        """Compute, and return when that is done.

        Raises:
            NNAPIError: OUTPUT_INSUFFICIENT_SIZE where an output has too small a buffer; BAD_DATA
                where an input or output is not given; OP_FAILED or MISSED_DEADLINE_TRANSIENT where
                the run ends so.
        """
        self._begin(_COMPUTE)
        self._compute_now()

    def start_compute(self) -> Event:
        """Compute beside the caller; the event tells of the end, and raises as `compute`."""
        self._begin(_PREFIX + "startCompute")
        event = Event()
        try:
            threading.Thread(target=self._compute_for, args=(event,), daemon=True).start()
        except RuntimeError as error:  # the system has no more threads
            result = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
            self._finish(refused("no thread can be started", result, why=str(error)))
        return event

    def burst_compute(self, burst: Burst) -> None:
        """Compute as one of a row; raises as `compute`, and BAD_STATE where the row is busy."""
        call = _PREFIX + "burstCompute"
        present(burst, Burst, call)
        self._enter(call)
        burst.begin(self._network)
        try:
            self._begin(call)
            self._compute_now()
        finally:
            burst.end()

    def get_duration(self, code: int) -> int:
        """How many nanoseconds a part of the computation took.

        `2**64 - 1` stands for an unknown duration: there are no fences here.
        """
        call = _PREFIX + "getDuration"
        with self._lock:
            self._enter(call)
            if not self._is_timed:
                why = "setMeasureTiming was not called"
                raise refused("it was not timed", ResultCode.BAD_STATE, where=call, why=why)
            if code not in list(DurationCode):
                raise refused("a duration is unknown", where=call, why=f"DurationCode {code}")
            is_fenced = code >= DurationCode.FENCED_ON_HARDWARE
            return NO_DURATION if is_fenced else self._duration

    def get_output_operand_rank(self, index: int) -> int:
        """The rank of an output; the shape of one without room is in `get_output_shape`."""
        return len(self._sufficient(index, _PREFIX + "getOutputOperandRank"))

    def get_output_operand_dimensions(self, index: int) -> Dims:
        """The sizes of an output that is no scalar."""
        call = _PREFIX + "getOutputOperandDimensions"
        shape = self.get_output_shape(index, call)
        if not shape:
            raise refused("a scalar has no dimensions", where=call, why=f"output {index}")
        return self._sufficient(index, call)

    def get_output_shape(
        self, index: int, call: str = _PREFIX + "getOutputOperandDimensions"
    ) -> Dims:
        """The sizes of an output, whether there was room for it or not."""
        with self._lock:
            self._enter(call)
            if not 0 <= index < len(self._shapes):
                raise refused("there is no such output", where=call, why=str(index))
            return self._shapes[index]

    def free(self) -> None:
        """Let go of everything, once a computation in progress has ended."""
        with self._lock:
            while self._phase is Phase.COMPUTATION:
                self._ended_at = self._ended_at or threading.Condition(self._lock)
                self._ended_at.wait()
            self._phase = Phase.FREED
            run, self._run = self._run, None
            self._inputs, self._outputs = [], []
        if run is not None:
            run.give_back()

    def _free_place(
        self, places: list[Place], given: list[Given | None], index: int, call: str
    ) -> Place:
        if not 0 <= index < len(places):
            raise refused("there is no such input or output", where=call, why=str(index))
        if given[index] is not None:
            raise refused("it is given already", ResultCode.BAD_STATE, where=call, why=str(index))
        return places[index]

    def _given(
        self,
        place: Place,
        type: OperandType | None,
        buffer: object,
        call: str,
        is_written: bool,
    ) -> Argument:
        if buffer is None:
            return omitted_argument(place, type, call)
        held = bytes_of(buffer, call)
        return argument_of(place, type, held, call, is_written=is_written, may_pad=self._may_pad)

    def _check_one_device(self, call: str) -> None:
        if not self._has_one_device and self.phase is not Phase.FREED:
            raise refused("a timing or timeout demands one device", where=call)

    def _begin(self, call: str) -> None:
        with self._lock:
            self._enter(call)
            self._phase = Phase.COMPUTATION

    def _compute_now(self) -> None:
        try:
            error = self._ended()
        except BaseException:  # whoever interrupts it may still free it
            with suppress(NNAPIError):
                self._finish(refused("it was interrupted", ResultCode.OP_FAILED, where=_COMPUTE))
            raise
        self._finish(error)

    def _compute_for(self, event: Event) -> None:
        error = self._ended()
        try:
            self._finish(error)
        except NNAPIError as ended:
            event.end(ended)
        else:
            event.end(None)

    def _ended(self) -> NNAPIError | None:
        """Compute; what that ends in, whatever goes wrong."""
        try:
            run = self._run
            if run is None:
                run = self._run = self._made()
            start = perf_counter_ns()
            run.compute(self._timeout_ns)
            self._duration = perf_counter_ns() - start
            self._shapes = run.shapes
        except NNAPIError as error:
            return error
        except LimitError as error:
            result = ResultCode.RESOURCE_EXHAUSTED_TRANSIENT
            return refused(error.what, result, where=_COMPUTE, why=error.why)
        except CircletError as error:
            return result_error(error, _COMPUTE)
        except MemoryError:
            return refused("there is not enough memory", ResultCode.OUT_OF_MEMORY, where=_COMPUTE)
        except Exception as error:  # a thread of ours must not die of it
            why = f"{type(error).__name__}: {error}"
            return refused("the computation failed", ResultCode.OP_FAILED, where=_COMPUTE, why=why)
        return None

    def _made(self) -> Run:
        if self._left:
            raise self._missing()
        return run_of(self._network, self._inputs, self._outputs, self._is_plain)  # type: ignore[arg-type]

    def _missing(self) -> NNAPIError:
        sides = (("input", self._inputs), ("output", self._outputs))
        places = [
            f"{what} {i}" for what, given in sides for i, each in enumerate(given) if each is None
        ]
        return refused("an input or output is not given", where=", ".join(places))

    def _finish(self, error: NNAPIError | None) -> None:
        with self._lock:
            self._phase = Phase.COMPLETED if error is None else Phase.FAILED
            if isinstance(error, InsufficientError):
                self._phase = Phase.INSUFFICIENT
                self._shapes, self._lacking = error.shapes, error.lacking
            elif error is None and self._lacking:
                self._lacking = frozenset()
            if self._ended_at is not None:
                self._ended_at.notify_all()
        if error is not None:
            raise error

    def _sufficient(self, index: int, call: str) -> Dims:
        shape = self.get_output_shape(index, call)
        if index in self._lacking:
            result = ResultCode.OUTPUT_INSUFFICIENT_SIZE
            raise refused("an output had no room", result, where=call, why=str(list(shape)))
        return shape
