"""What lowerings write to: kernels, constants and launches, and then the table of a partition."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod

import numpy as np

from circlet.backends.opencl.device import DeviceFacts
from circlet.ir import Op, Tensor

MOST_ITEMS = (1 << 31) - 1
_MOST_ACROSS = (1 << 16) - 1  # groups along the second and the third axis of a grid
GROUP = 64
"""Items of a group where kernels compute an element each."""


class NotTakenError(Exception):
    """A lowering does not take an op; the text says why, in a clause."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant buffer that is made when it is needed.

    Attributes:
        name: The tensor that it is made of.
        build: Its elements, contiguous.
    """

    name: str
    build: Callable[[], np.ndarray]


Argument = Tensor | Constant | np.generic


@dataclass(frozen=True)
class Planned:
    """A launch whose buffers are tensors and constants still."""

    kernel: str
    arguments: tuple[Argument, ...]
    items: tuple[int, ...]
    group: tuple[int, ...] | None


@dataclass(frozen=True)
class PlannedOps:
    """Ops that are computed together, and the launches that compute them."""

    ops: tuple[Op, ...]
    launches: tuple[Planned, ...]


class Emission:
    """Kernels, constants and launches of one partition.

    Attributes:
        facts: The device.
        precision: What operands of float products may be rounded to.
        kernels: The source of each kernel by name, in the order of first use.
        steps: Ops in order, with their launches.
        aliases: Tensors that are others of other sizes.
    """

    def __init__(
        self, facts: DeviceFacts, precision: str = "f32", outputs: Sequence[Tensor] = ()
    ) -> None:
        self.facts, self.precision = facts, precision
        self._outputs = frozenset(outputs)
        self.kernels: dict[str, str] = {}
        self.steps: list[PlannedOps] = []
        self.aliases: dict[Tensor, Tensor] = {}
        self._launches: list[Planned] = []
        self._raw: dict[Tensor, Constant] = {}

    def finish(self, ops: Sequence[Op]) -> None:
        """Everything launched since the last call computes these ops."""
        self.steps.append(PlannedOps(tuple(ops), tuple(self._launches)))
        self._launches = []

    def value(self, tensor: Tensor) -> Argument:
        """A tensor as an argument: itself if it is computed, else its elements."""
        if not tensor.is_constant:
            return tensor
        if tensor not in self._raw:
            self._raw[tensor] = Constant(tensor.name, lambda: elements_of(tensor))
        return self._raw[tensor]

    def template(self, file: str, defines: Mapping[str, object]) -> str:
        """The name of a kernel of `kernels/`, specialised by macros."""
        body = template_text(file)
        lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
        ends = "".join(f"#undef {name.split('(')[0]}\n" for name in ("NAME", *defines))
        name = f"{file}_{_digest(lines + body)}"
        self.kernels.setdefault(name, f"#define NAME {name}\n{lines}{body}{ends}")
        return name

    def written(self, prefix: str, text: str) -> str:
        """The name of a kernel that is given as text with `NAME` where its name is to stand."""
        name = f"{prefix}_{_digest(text)}"
        self.kernels.setdefault(name, text.replace("NAME", name))
        return name

    def launch(
        self,
        kernel: str,
        arguments: Sequence[Argument | int | float],
        items: Sequence[int],
        group: Sequence[int] | None = None,
    ) -> None:
        """Run a kernel; whole numbers are passed as int, others as float.

        Raises:
            NotTakenError: The grid is larger than devices take.
        """
        groups = [count // (group or items)[axis] for axis, count in enumerate(items)]
        if prod(items) > MOST_ITEMS or max(groups[1:], default=1) > _MOST_ACROSS:
            raise NotTakenError("it has more elements than a grid of kernels")
        made = tuple(_argument(value) for value in arguments)
        sizes = None if group is None else tuple(group)
        self._launches.append(Planned(kernel, made, tuple(items), sizes))

    def per_element(
        self, kernel: str, arguments: Sequence[Argument | int | float], count: int
    ) -> None:
        """Run a kernel with an item for each of `count` elements; others do nothing."""
        self.launch(kernel, arguments, (-(-count // GROUP) * GROUP,), (GROUP,))

    def may_alias(self, result: Tensor, source: Tensor) -> bool:
        """Whether a tensor may be another one; results of the partition have their own memory."""
        return result not in self._outputs and not source.is_constant

    def alias(self, result: Tensor, source: Tensor) -> None:
        """Have a tensor be another one, in other sizes."""
        self.aliases[result] = source

    def root(self, tensor: Tensor) -> Tensor:
        """The tensor whose memory another one names."""
        while tensor in self.aliases:
            tensor = self.aliases[tensor]
        return tensor


def elements_of(tensor: Tensor) -> np.ndarray:
    """The elements of a constant."""
    assert tensor.data is not None
    return np.ascontiguousarray(np.asarray(tensor.data).reshape(tensor.static_shape))


def _argument(value: Argument | int | float) -> Argument:
    if isinstance(value, float):
        return np.float32(value)
    if isinstance(value, int):
        if not -(1 << 31) <= value < 1 << 31:
            raise NotTakenError("a size or an offset has more than 32 bits")
        return np.int32(value)
    return value


@cache
def template_text(file: str) -> str:
    """The text of a file of `kernels/`."""
    folder = files("circlet.backends.opencl") / "kernels"
    return (folder / f"{file}.cl").read_text(encoding="ascii")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
