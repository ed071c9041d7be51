"""Calls of a network: executions that take arrays, the caller's own or copies of small ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from circlet.artifact.values import Value, is_plain
from circlet.errors import CancelledError, CircletError, DeadlineError
from circlet.runtime.executor import Execution
from circlet.small_dtypes import dtype_named

if TYPE_CHECKING:
    from circlet.backends.base import Observer

_MOST_COPIED_BYTES = 32768
Given = Sequence[object] | Mapping[str, object]
Form = tuple[np.dtype, tuple[int, ...], bool]
Numbers = tuple[Sequence[int], Sequence[int]]
Recover = Callable[[CircletError, Numbers], tuple[Execution, Numbers]]


class BoundCall:
    """A session bound to fixed buffers: calling it runs the network on them, in place.

    Attributes:
        inputs, outputs: The arrays that every call reads and writes, in the session's order.
    """

    def __init__(
        self,
        execution: Execution,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        limit_ns: int = 0,
        numbers: Numbers = ((), ()),
        recover: Recover | None = None,
        *,
        may_outgrow: bool = False,
    ) -> None:
        """`may_outgrow` says that a run may end midway, to be run again with more room."""
        self._numbers, self._limit_ns, self._may_outgrow = numbers, limit_ns, may_outgrow
        self._cancels = 0
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._execution = execution
        self.run = partial(execution.run, limit_ns) if limit_ns else execution.fastest()
        if recover is not None:
            self._recover = recover
            self.run = self._run_or_recover

    def _run_or_recover(self, timeout_ns: int = 0) -> None:
        """Run, and again where a backend failed and others take over, or loops need more room."""
        limit_ns = timeout_ns or self._limit_ns
        continued = self._continued() if self._may_outgrow else []
        before, cancels = [array.copy() for array in continued], self._cancels
        while True:
            try:
                return self._execution.run(limit_ns)
            except CircletError as error:
                self._execution, self._numbers = self._recover(error, self._numbers)
                self.rebind(self.inputs, self.outputs)
                if isinstance(error, DeadlineError):  # the time is over
                    raise
                if self._cancels != cancels:
                    raise CancelledError("the run was cancelled") from None
                for array, kept in zip(continued, before, strict=True):
                    array[...] = kept

    def _continued(self) -> list[np.ndarray]:
        """The outputs that are written over inputs, as updates of them."""
        given = {array.ctypes.data for array in self.inputs}
        return [array for array in self.outputs if array.ctypes.data in given]

    def __call__(self) -> None:
        """Run once. `run` is the same without this method's own cost."""
        self.run()

    def rebind(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Read and write other arrays from now on; they must fit as those that were bound do."""
        for values, arrays in zip(self._numbers, (inputs, outputs), strict=True):
            self._execution.rebind(values, arrays)
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def reset(self) -> None:
        """Set this call's variable tensors back to their initial values, between two calls."""
        self._execution.reset()

    def cancel(self) -> None:
        """Stop a call in progress in another thread."""
        self._cancels += 1
        self._execution.cancel()


class Call:
    """An execution that takes arrays and gives new ones, again and again.

    Small arrays are copied to and from buffers that stay bound, which is cheaper than to bind the
    caller's; large ones are used in place.

    Args:
        execution: What to run; no other call uses it.
        inputs, outputs: Numbers of the values in the plan.
        values: All values of the plan.
        names: Names of the outputs.

    Attributes:
        numbers: Those of the inputs and the outputs.
    """

    def __init__(
        self,
        execution: Execution,
        inputs: Sequence[int],
        outputs: Sequence[int],
        values: Sequence[Value],
        names: Sequence[str],
    ) -> None:
        self.execution, self.numbers = execution, (inputs, outputs)
        own = {n: values[n].empty() for n in (*inputs, *outputs) if is_copied(values[n])}
        execution.rebind(list(own), list(own.values()))
        self._run = execution.fastest()
        self._inputs = [(number, own.get(number)) for number in inputs]
        self._outputs = [
            (name, number, values[number], own.get(number))
            for name, number in zip(names, outputs, strict=True)
        ]
        self._all_copied = all(row[3] is not None for row in self._outputs)

    def __call__(self, arrays: Sequence[np.ndarray], limit_ns: int) -> dict[str, np.ndarray]:
        """Outputs by name for arrays that fit the inputs."""
        for (number, buffer), array in zip(self._inputs, arrays, strict=True):
            if buffer is None:
                self.execution.rebind((number,), (array,))
            else:
                buffer[...] = array
        if self._all_copied:
            self._run(limit_ns)
            return {name: buffer.copy() for name, _, _, buffer in self._outputs}  # type: ignore[union-attr]
        return self._run_in_place(limit_ns)

    def observed(
        self, arrays: Sequence[np.ndarray], limit_ns: int, observer: Observer
    ) -> dict[str, np.ndarray]:
        """The same, with an observer told of every operator."""
        try:
            self.execution.observe(observer)
            return self(arrays, limit_ns)
        finally:
            self.execution.observe(None)

    def _run_in_place(self, limit_ns: int) -> dict[str, np.ndarray]:
        found = {}
        for name, number, value, buffer in self._outputs:
            if buffer is None:
                found[name] = value.empty()
                self.execution.rebind((number,), (found[name],))
        self._run(limit_ns)
        for name, number, value, buffer in self._outputs:
            if buffer is not None:
                found[name] = buffer.copy()
            elif value.is_dynamic:
                found[name] = self.execution.value(number)
        return {name: found[name] for name, _, _, _ in self._outputs}


def is_copied(value: Value) -> bool:
    """Whether calls copy the arrays of a value rather than bind them."""
    return not value.is_text and not value.is_dynamic and value.bytes <= _MOST_COPIED_BYTES


def form_of(value: Value) -> Form:
    """The dtype and shape of an input, and whether calls copy its arrays."""
    return dtype_named(value.dtype), value.shape, is_copied(value)


def plain_arrays(
    inputs: Given, names: Sequence[str], forms: Sequence[Form]
) -> Sequence[np.ndarray] | None:
    """The inputs in order if all are plainly right; None where a closer look is needed."""
    if type(inputs) is dict:
        if len(inputs) != len(names) or not all(map(inputs.__contains__, names)):
            return None
        given: Sequence[object] = [inputs[name] for name in names]
    elif type(inputs) is list or type(inputs) is tuple:
        if len(inputs) != len(names):
            return None
        given = inputs
    else:
        return None
    arrays: list[np.ndarray] = []
    for array, (dtype, shape, copied) in zip(given, forms, strict=True):
        if type(array) is not np.ndarray or array.dtype != dtype or array.shape != shape:
            return None
        if not copied and (dtype.hasobject or not is_plain(array)):
            return None
        arrays.append(array)
    return arrays
