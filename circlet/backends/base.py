"""What runs a partition, in types; a start does not import them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

Setter = Callable[[int, np.ndarray], None]


class Runner(Protocol):
    """One partition on bound buffers."""

    @property
    def run(self) -> Callable[..., None]:
        """Compute the partition's outputs; takes a timeout in nanoseconds, 0 for none."""
        ...

    def output(self, index: int) -> np.ndarray:
        """The array that output `index` is in after a run."""
        ...

    def set_input(self, index: int, buffer: np.ndarray) -> None:
        """Read input `index` from another array from now on."""
        ...

    def set_output(self, index: int, buffer: np.ndarray) -> None:
        """Write output `index` to another array from now on."""
        ...

    def cancel(self) -> None:
        """Stop a run in progress at its next step."""
        ...


class BoundPartition(Protocol):
    """A loaded partition that can be bound to buffers."""

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray], threads: int
    ) -> Runner:
        """A runner that reads and writes these arrays."""
        ...


class Named(Protocol):
    """Anything with a name that the user gave it."""

    @property
    def name(self) -> str:
        """The name; it may be empty or repeated."""
        ...
