"""How many turns a WHILE takes at the most: by what it counts, and where its condition ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.bounded import TURNS, TurnsAttrs
from circlet.ops.operands import known_ints
from circlet.plan.sizes import SizeTable, most_of

_MOST_TURNS = 1 << 31
_DEPTH = 16  # of the operators that make a condition
_COUNTING = frozenset({DType.INT32, DType.INT64})
_SAME = frozenset({"CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"})
_MIRRORED = {"GREATER": "LESS", "GREATER_EQUAL": "LESS_EQUAL"}
_OPPOSITE = {
    "LESS": "GREATER_EQUAL",
    "LESS_EQUAL": "GREATER",
    "GREATER": "LESS_EQUAL",
    "GREATER_EQUAL": "LESS",
}


class Counter(NamedTuple):
    """A variable of a loop to which every turn adds a step.

    Attributes:
        start: What it is at the least before the first turn.
        step: What a turn adds, 1 at the least.
    """

    start: int
    step: int


def counters(op: Op, table: SizeTable) -> dict[int, Counter]:
    """The counters among the variables of a WHILE, by their places."""
    body, found = op.regions[1], dict[int, Counter]()
    producers = body.producers()
    for place, (given, result) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        start = table.elements(op.inputs[place])
        if start is None or len(start) != 1 or not isinstance(start[0], int):
            continue
        offset = _offset(result, given, producers)
        if offset is not None and offset >= 1:
            found[place] = Counter(start[0], offset)
    return found


def most_turns(op: Op, table: SizeTable) -> int | None:
    """How many turns a WHILE takes at the most; None where nothing says so."""
    return _Condition(op, table).most_turns()


def _offset(tensor: Tensor, counter: Tensor, producers: dict[Tensor, Op]) -> int | None:
    """What a tensor is more than a counter; None where it is nothing of that form."""
    total = 0
    for _ in range(_DEPTH):
        if tensor is counter:
            return total
        op = producers.get(tensor)
        if op is None or tensor.dtype not in _COUNTING:
            return None
        source = op.inputs[0]
        if op.kind == "ADD" and op.attributes(AddAttrs).activation == "NONE":
            known = [known_ints(each) for each in op.inputs]
            place = next(
                (i for i, numbers in enumerate(known) if numbers and len(numbers) == 1), None
            )
            if place is None:
                return None
            total += (known[place] or (0,))[0]
            source = op.inputs[1 - place]
        elif op.kind not in _SAME or _narrows(op):
            return None
        if source is None:
            return None
        tensor = source
    return None


def _narrows(op: Op) -> bool:
    """Whether an op may change numbers by giving them fewer bits."""
    source, result = op.inputs[0], op.outputs[0]
    return source is None or source.dtype.bits > result.dtype.bits


class _Condition:
    """The condition of a loop as bounds on what it counts."""

    def __init__(self, op: Op, table: SizeTable) -> None:
        self._op, self._table = op, table
        self._counters = counters(op, table)
        self._producers = {region: region.producers() for region in op.regions}
        self._entered: set[int] = set()  # variables that are looked at as flags

    def most_turns(self) -> int | None:
        condition = self._op.regions[0]
        found = self._limit(condition.outputs[0], condition, True, _DEPTH)
        return None if found is None or found > _MOST_TURNS else found

    def _limit(self, flag: Tensor, graph: Graph, wanted: bool, depth: int) -> int | None:
        """In how many turns, from the first on, a flag may be what is wanted."""
        op = self._producers[graph].get(flag)
        if op is None:
            return self._limit_of_variable(flag, graph, wanted, depth)
        if not depth:
            return None
        if op.kind == TURNS and wanted:
            most, found = op.attributes(TurnsAttrs).most, self._below(op, graph, True, depth)
            return most if found is None else min(most, found)
        if op.kind == "LOGICAL_NOT":
            return self._below(op, graph, not wanted, depth)
        if op.kind == ("LOGICAL_AND" if wanted else "LOGICAL_OR") or op.kind in _SAME:
            return self._below(op, graph, wanted, depth)
        kind = op.kind if wanted else _OPPOSITE.get(op.kind, "")
        first, second = op.inputs[0], op.inputs[-1]
        if kind in _MIRRORED:
            kind, first, second = _MIRRORED[kind], second, first
        if kind not in ("LESS", "LESS_EQUAL") or first is None or second is None:
            return None
        return self._turns_below(first, second, graph, kind == "LESS_EQUAL")

    def _below(self, op: Op, graph: Graph, wanted: bool, depth: int) -> int | None:
        """The least of what holds for the flags that an op joins."""
        given = [t for t in op.inputs if t is not None and t.dtype is op.outputs[0].dtype]
        limits = [self._limit(tensor, graph, wanted, depth - 1) for tensor in given]
        return min((limit for limit in limits if limit is not None), default=None)

    def _limit_of_variable(
        self, flag: Tensor, graph: Graph, wanted: bool, depth: int
    ) -> int | None:
        """A flag that a turn leaves for the next one: one turn more than it holds in the body."""
        condition, body = self._op.regions
        if flag not in graph.inputs:
            return None
        place = graph.inputs.index(flag)
        if graph is not condition or place in self._entered or not depth:
            return None
        self._entered.add(place)
        found = self._limit(body.outputs[place], body, wanted, depth - 1)
        return None if found is None else found + 1

    def _turns_below(
        self, first: Tensor, second: Tensor, graph: Graph, may_be_equal: bool
    ) -> int | None:
        """In how many turns a counter is below what stays as it is."""
        end = self._most(second, graph)
        if end is None:
            return None
        for place, counter in self._counters.items():
            offset = _offset(first, graph.inputs[place], self._producers[graph])
            if offset is None:
                continue
            dtype = graph.inputs[place].dtype
            if end + counter.step + abs(offset) > np.iinfo(np.dtype(dtype.numpy).name).max:
                return None  # it might begin anew from below
            left = end + may_be_equal - counter.start - offset
            return max(0, -(-left // counter.step))
        return None

    def _most(self, tensor: Tensor, graph: Graph) -> int | None:
        """What a number is at the most that is the same in every turn."""
        if tensor in graph.inputs:
            place, body = graph.inputs.index(tensor), self._op.regions[1]
            if body.outputs[place] is not body.inputs[place]:
                return None
            given = self._op.inputs[place]
        else:
            given = tensor if tensor.data is not None else None
        numbers = self._table.elements(given)
        return most_of(numbers[0]) if numbers and len(numbers) == 1 else None
