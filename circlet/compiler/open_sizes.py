"""What is tried for sizes of inputs that neither the file nor the user states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from circlet.artifact.values import OPEN_SIZES
from circlet.ir import Graph, Tensor

_MOST_NAMES = 8
_LARGE = 1024


@dataclass(frozen=True)
class Guess:
    """Sizes of all that is left open.

    Attributes:
        size: Of every axis but the first, which is that of a batch.
        doubled: The name of sizes that are 2 in place of it; the first axis may be one of them.
    """

    size: int
    doubled: str = ""

    @property
    def is_first(self) -> bool:
        """Whether it is what fixing sizes takes without being told."""
        return self == Guess(1)

    def give(self, graph: Graph) -> bool:
        """Give the inputs of a graph these sizes; whether any is left open.

        Sizes that the file leaves open and states defaults for keep those.
        """
        is_open = False
        for tensor in graph.inputs:
            shape = self._shape(tensor)
            is_open |= shape != tensor.shape
            tensor.shape = shape
        return is_open

    def _shape(self, tensor: Tensor) -> tuple[int | None, ...]:
        if tensor.default_shape is not None:
            return tensor.shape
        names = tensor.dim_names or ("",) * len(tensor.shape)
        sizes: list[int | None] = []
        for axis, (known, name) in enumerate(zip(tensor.shape, names, strict=True)):
            own = 2 if self.doubled and name == self.doubled else self.size if axis else None
            sizes.append(own if known is None else known)
        return tuple(sizes)


def guesses(graph: Graph) -> Iterator[Guess]:
    """One size for all, in order; ahead of large ones, 2 for one name of sizes beside 1 for others.

    The mask of a decoder is as long as what is cached and its new words: the sum of two sizes.
    """
    yield from (Guess(size) for size in OPEN_SIZES if size < _LARGE)
    names = dict.fromkeys(name for tensor in graph.inputs for name in tensor.dim_names)
    yield from (Guess(1, name) for name in [*filter(None, names)][:_MOST_NAMES])
    yield from (Guess(size) for size in OPEN_SIZES if size >= _LARGE)
