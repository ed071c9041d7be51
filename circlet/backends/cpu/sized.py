"""Native partitions whose arrays a run fills as far as its data has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from circlet.errors import ArtifactError, BackendError
from circlet.small_dtypes import dtype_named

if TYPE_CHECKING:
    from circlet.backends.base import Observer
    from circlet.backends.cpu.executable import Binding, Executable

    Blob = bytes | memoryview


class Port(NamedTuple):
    """An input or an output.

    Attributes:
        dtype: Element type.
        shape: Sizes that it has room for.
        counts: For each axis the number of the count that says how much of it is filled, or -1.
    """

    dtype: np.dtype
    shape: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def is_open(self) -> bool:
        """Whether a run decides a size."""
        return any(count >= 0 for count in self.counts)


def with_sizes(code: Executable, section: Blob) -> Executable | SizedExecutable:
    """Loaded code as it is, or where the section says that runs decide sizes of arrays, with that.

    Raises:
        ArtifactError: The section is damaged.
    """
    return SizedExecutable(code, section) if len(section) else code


def plain_code(code: Executable | SizedExecutable) -> Executable:
    """Loaded code without what is known of sizes that runs decide."""
    return code.code if isinstance(code, SizedExecutable) else code


class SizedExecutable:
    """A loaded partition between arrays of open sizes.

    Attributes:
        code: The plan, which knows bounds and counts.
        inputs, outputs: Its ports, without the counts that follow them.
        given: How many counts are inputs; those that are outputs are numbered behind them.
    """

    def __init__(self, code: Executable, section: Blob) -> None:
        import json

        self.code, self.section = code, bytes(section)
        try:
            fields = json.loads(self.section)
            self.given, self.found = int(fields["given"]), int(fields["found"])
            self.inputs, self.outputs = (
                [_port(row, self.given + self.found) for row in fields[key]]
                for key in ("inputs", "outputs")
            )
        except (KeyError, TypeError, ValueError) as error:
            why = f"its sizes: {error!r}"
            raise ArtifactError("an artifact is damaged or is none", why=why) from error

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> SizedBinding:
        """A runner that has arrays of its own wherever a run decides a size."""
        return SizedBinding(self, inputs, outputs, threads)


def _port(row: Sequence[Any], known: int) -> Port:
    dtype, shape, counts = row
    if len(shape) != len(counts) or not all(-1 <= count < known for count in counts):
        raise ValueError("sizes without counts")
    return Port(dtype_named(dtype), tuple(map(int, shape)), tuple(map(int, counts)))


class SizedBinding:
    """A bound partition: copies inputs of open sizes in, and gives outputs in their true sizes."""

    keeps_timeouts = True

    def __init__(
        self,
        executable: SizedExecutable,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        threads: int,
    ) -> None:
        self._inputs, self._outputs = executable.inputs, executable.outputs
        self._counts = np.zeros(executable.given + executable.found, np.int64)
        counts = [self._counts[i : i + 1] for i in range(len(self._counts))]
        given, found = counts[: executable.given], counts[executable.given :]
        ends = [
            [np.zeros(p.shape, p.dtype) if p.is_open else a for p, a in zip(*pair, strict=True)]
            for pair in ((self._inputs, inputs), (self._outputs, outputs))
        ]
        self._given = ends[0]
        self.binding: Binding = executable.code.bind(
            [*ends[0], *given], [*ends[1], *found], threads
        )

    @property
    def run(self) -> Callable[..., None]:
        """Runs the plan."""
        return self.binding.run

    def output(self, index: int) -> np.ndarray:
        """An output; a new array where a run decides its sizes."""
        port, array = self._outputs[index], self.binding.output(index)
        if not port.is_open:
            return array
        filled = array
        for axis, (count, most) in enumerate(zip(port.counts, port.shape, strict=True)):
            if count >= 0:
                size = min(max(int(self._counts[count]), 0), most)
                filled = filled[(slice(None),) * axis + (slice(size),)]
        return filled.copy()

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read an input from an array, or where its sizes are open from a copy of it.

        Raises:
            BackendError: There is no room for so many elements.
        """
        port = self._inputs[index]
        if not port.is_open:
            self.binding.set_input(index, buffer)
            return
        if buffer.ndim != len(port.shape):
            raise BackendError("a result has another number of dimensions than planned")
        for size, most, count in zip(buffer.shape, port.shape, port.counts, strict=True):
            if size > most or (count < 0 and size != most):
                why = f"it has sizes {list(buffer.shape)}, there is room for {list(port.shape)}"
                raise BackendError("a result is larger than planned", why=why)
            if count >= 0:
                self._counts[count] = size
        self._given[index][tuple(map(slice, buffer.shape))] = buffer

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write an output to an array, unless a run decides its sizes."""
        if not self._outputs[index].is_open:
            self.binding.set_output(index, buffer)

    def cancel(self) -> None:
        """Stop a run in progress."""
        self.binding.cancel()

    def profile(self, enabled: bool = True) -> np.ndarray:
        """As `Binding.profile`."""
        return self.binding.profile(enabled)

    def profile_threads(self, enabled: bool = True) -> np.ndarray:
        """As `Binding.profile_threads`."""
        return self.binding.profile_threads(enabled)

    def observe(self, observer: Observer | None) -> None:
        """Tell of every op; what lies behind the counts of its results means nothing."""
        self.binding.observe(observer)
