"""A run of a network on the buffers of one execution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.errors import NNAPIError
from circlet.formats.nnapi.description import Dims
from circlet.frontends.nnapi.arguments import (
    Argument,
    Given,
    Ready,
    as_argument,
    check_stated,
    has_room,
    ready_inputs,
    ready_outputs,
)
from circlet.frontends.nnapi.codes import ResultCode
from circlet.frontends.nnapi.network import Network, Prepared
from circlet.runtime.calls import BoundCall

_COMPUTE = "ANeuralNetworksExecution_compute"
_NANOSECONDS = 1e9


class InsufficientError(NNAPIError):
    """Some outputs have too small a buffer; the shapes of all are known."""

    def __init__(self, shapes: Sequence[Dims], lacking: Sequence[int]) -> None:
        self.shapes, self.lacking = list(shapes), frozenset(lacking)
        result = ResultCode.OUTPUT_INSUFFICIENT_SIZE
        needed = "; ".join(f"output {i} is of shape {list(shapes[i])}" for i in lacking)
        what = f"{result.name}: an output has too small a buffer"
        super().__init__(what, where=_COMPUTE, why=needed, result=result)


class StaticRun:
    """A run whose outputs have known sizes: compiled code reads and writes the buffers in place.

    Args:
        call: What runs on the arrays of `read` and `written`.

    Attributes:
        shapes: The sizes of the outputs.
    """

    __slots__ = ("_call", "_prepared", "_read", "_written", "shapes")

    def __init__(
        self,
        prepared: Prepared,
        call: BoundCall,
        read: Ready | None = None,
        written: Ready | None = None,
    ) -> None:
        self._prepared = prepared
        self._call: BoundCall | None = call
        self._read, self._written = read, written
        self.shapes = prepared.shapes

    def compute(self, timeout_ns: int) -> None:
        """Run once."""
        assert self._call is not None
        if self._read is not None:
            self._read.copy_in()
        self._call.run(timeout_ns)
        if self._written is not None:
            self._written.copy_out()

    def give_back(self) -> None:
        """Have other executions take up what this one ran with."""
        if self._call is not None:
            self._prepared.give(self._call)
            self._call = None


class CopyingRun:
    """A run on arrays that fit, and are so small that copying them costs less than binding them.

    Attributes:
        shapes: The sizes of the outputs.
    """

    __slots__ = ("_call", "_inputs", "_outputs", "_prepared", "shapes")

    def __init__(
        self, prepared: Prepared, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> None:
        self._prepared, self._inputs, self._outputs = prepared, inputs, outputs
        self._call: BoundCall | None = prepared.take_copying()
        self.shapes = prepared.shapes

    def compute(self, timeout_ns: int) -> None:
        """Run once."""
        call = self._call
        assert call is not None
        for own, given in zip(call.inputs, self._inputs, strict=True):
            own[...] = given
        call.run(timeout_ns)
        for own, given in zip(call.outputs, self._outputs, strict=True):
            given[...] = own

    def give_back(self) -> None:
        """Have other executions take up what this one ran with."""
        if self._call is not None:
            self._prepared.give_copying(self._call)
            self._call = None


class DynamicRun:
    """A run that only tells the sizes of its outputs when it is done, and then copies them.

    Attributes:
        shapes: The sizes of the outputs of the last run.
    """

    def __init__(
        self,
        network: Network,
        prepared: Prepared,
        inputs: Sequence[Argument],
        outputs: Sequence[Argument],
    ) -> None:
        self._network, self._session = network, prepared.session
        self._outputs = outputs
        self._read = ready_inputs(self._session.inputs, inputs)
        self.shapes: list[Dims] = []

    def compute(self, timeout_ns: int) -> None:
        """Run once; raises `InsufficientError` where a buffer is too small."""
        self._read.copy_in()
        timeout = timeout_ns / _NANOSECONDS if timeout_ns else None
        found = list(self._session.run(self._read.arrays, timeout=timeout).values())
        self.shapes = [array.shape for array in found]
        pairs = list(zip(self._outputs, found, strict=True))
        lacking = [i for i, (out, array) in enumerate(pairs) if not has_room(out, array.nbytes)]
        if lacking:
            raise InsufficientError(self.shapes, lacking)
        _check_stated(self._network, self._outputs, self.shapes)
        for argument, array in pairs:
            _store(argument, array)

    def give_back(self) -> None:
        """Nothing is kept."""


Run = StaticRun | CopyingRun | DynamicRun


def run_of(
    network: Network, inputs: Sequence[Given], outputs: Sequence[Given], is_plain: bool
) -> Run:
    """A run on some buffers; `is_plain` says that all are arrays of their operands' sizes.

    Raises:
        CircletError: The network does not work for their sizes.
        NNAPIError: An output has too small a buffer, or other sizes than stated.
    """
    main = network.main
    if is_plain and network.copied is not None:
        return CopyingRun(network.copied, inputs, outputs)  # type: ignore[arg-type]
    if main is not None and main.is_static:
        same = main.take_same(inputs, outputs)
        if same is not None:
            return StaticRun(main, same)
    return _new_run(network, [*map(as_argument, inputs)], [*map(as_argument, outputs)])


def _new_run(network: Network, inputs: list[Argument], outputs: list[Argument]) -> Run:
    dims = tuple(argument.dims or () for argument in inputs)
    omitted = frozenset(i for i, argument in enumerate(inputs) if argument.dims is None)
    prepared = network.variant(dims, omitted)
    given = [argument for argument in inputs if argument.dims is not None]
    if not prepared.is_static:
        return DynamicRun(network, prepared, given, outputs)
    return _static_run(network, prepared, given, outputs)


def _static_run(
    network: Network, prepared: Prepared, inputs: Sequence[Argument], outputs: Sequence[Argument]
) -> StaticRun:
    values = prepared.session.outputs
    pairs = enumerate(zip(outputs, values, strict=True))
    lacking = [index for index, (each, value) in pairs if not has_room(each, value.bytes)]
    if lacking:
        raise InsufficientError(prepared.shapes, lacking)
    _check_stated(network, outputs, prepared.shapes)
    read = ready_inputs(prepared.session.inputs, inputs)
    written = ready_outputs(values, outputs, inputs)
    call = prepared.take(read.arrays, written.arrays)
    return StaticRun(
        prepared, call, read if read.copies else None, written if written.copies else None
    )


def _check_stated(network: Network, outputs: Sequence[Argument], shapes: Sequence[Dims]) -> None:
    for place, argument, shape in zip(network.outputs, outputs, shapes, strict=True):
        check_stated(place, argument, shape, _COMPUTE)


def _store(argument: Argument, array: np.ndarray) -> None:
    if argument.array is not None and argument.array.shape == array.shape:
        argument.array[...] = array
    elif argument.held is not None:
        size = prod(array.shape) * array.itemsize
        argument.held[:size] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
