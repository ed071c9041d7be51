"""The launch table: what a partition does on a device, as plain data for the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Number = np.generic


@dataclass(frozen=True)
class Place:
    """Where a buffer lies: "in" or "out" by number, "arena" or "constants" by first byte.

    Attributes:
        memory: Which of them.
        offset: The number, or the first byte.
        size_bytes: Its size.
    """

    memory: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class Launch:
    """One kernel over a grid.

    Attributes:
        kernel: Its name in the program.
        arguments: Numbers of buffers (int), and scalars of numpy's types.
        items: The sizes of the grid in items.
        group: The sizes of a group, None for the driver's choice.
    """

    kernel: str
    arguments: tuple[int | Number, ...]
    items: tuple[int, ...]
    group: tuple[int, ...] | None


@dataclass(frozen=True)
class Result:
    """An output of a step as an observer is told of it; `buffer` is a number, -1 for none."""

    buffer: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Step:
    """What computes one op, or several that one kernel computes: launches in order."""

    kind: str
    name: str
    launches: tuple[Launch, ...]
    results: tuple[Result, ...]


@dataclass(frozen=True)
class LaunchTable:
    """All steps of a partition, and the buffers that they name.

    Attributes:
        inputs, outputs: How many buffers the caller gives.
    """

    steps: tuple[Step, ...]
    places: tuple[Place, ...]
    inputs: int
    outputs: int
    arena_bytes: int

    def as_json(self) -> dict[str, object]:
        """Plain data; `from_json` gives the table back."""
        return {
            "steps": [_step_json(step) for step in self.steps],
            "places": [[p.memory, p.offset, p.size_bytes] for p in self.places],
            "inputs": self.inputs,
            "outputs": self.outputs,
            "arena_bytes": self.arena_bytes,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LaunchTable:
        """The table of plain data.

        Raises:
            KeyError, TypeError, ValueError: It is none, or names buffers that it does not have.
        """
        places = tuple(Place(str(m), int(offset), int(size)) for m, offset, size in data["places"])
        steps = tuple(_step_of(fields) for fields in data["steps"])
        sizes = (int(data[name]) for name in ("inputs", "outputs", "arena_bytes"))
        table = cls(steps, places, *sizes)
        _check(table)
        return table


def _check(table: LaunchTable) -> None:
    ends = {"in": table.inputs, "out": table.outputs}
    for place in table.places:
        if place.memory not in (*ends, "arena", "constants"):
            raise ValueError(f"there is no memory {place.memory!r}")
        inside = ends.get(place.memory, table.arena_bytes + 1)
        if min(place.offset, place.size_bytes) < 0 or place.size_bytes == 0:
            raise ValueError("a buffer has no bytes")
        if place.memory != "constants" and place.offset >= inside:
            raise ValueError("a buffer lies outside its memory")
        if place.memory == "arena" and place.offset + place.size_bytes > table.arena_bytes:
            raise ValueError("a buffer lies outside its memory")
    for step in table.steps:
        numbers = [a for launch in step.launches for a in launch.arguments if isinstance(a, int)]
        numbers += [result.buffer for result in step.results if result.buffer != -1]
        if any(not 0 <= number < len(table.places) for number in numbers):
            raise ValueError("a launch names a buffer that there is not")


def _step_json(step: Step) -> list[object]:
    launches = [
        [launch.kernel, [_argument_json(a) for a in launch.arguments], launch.items, launch.group]
        for launch in step.launches
    ]
    results = [
        [r.buffer, r.name, r.dtype, r.shape, r.scale, r.zero_point, r.axis] for r in step.results
    ]
    return [step.kind, step.name, launches, results]


def _argument_json(argument: int | Number) -> object:
    if isinstance(argument, int):
        return argument
    value = argument.item()
    return [argument.dtype.name, value.hex() if isinstance(value, float) else value]


def _step_of(fields: Sequence[Any]) -> Step:
    kind, name, launches, results = fields
    return Step(
        str(kind),
        str(name),
        tuple(_launch_of(launch) for launch in launches),
        tuple(_result_of(result) for result in results),
    )


def _launch_of(fields: Sequence[Any]) -> Launch:
    kernel, arguments, items, group = fields
    sizes = tuple(map(int, items))
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ValueError("a launch has no items")
    return Launch(
        str(kernel),
        tuple(map(_argument_of, arguments)),
        sizes,
        None if group is None else tuple(map(int, group)),
    )


def _argument_of(argument: Any) -> int | Number:
    if isinstance(argument, int):
        return argument
    name, value = argument
    number = float.fromhex(value) if isinstance(value, str) else value
    made: Number = np.dtype(str(name)).type(number)
    return made


def _result_of(fields: Sequence[Any]) -> Result:
    buffer, name, dtype, shape, scale, zero_point, axis = fields
    sizes = tuple(map(int, shape))
    scales, zeros = tuple(map(float, scale)), tuple(map(int, zero_point))
    return Result(int(buffer), str(name), str(dtype), sizes, scales, zeros, int(axis))
