"""Reductions of rows and the element-wise ops around them become one kernel call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from circlet.backends.cpu.passes.fuse_elementwise import (
    Room,
    external_inputs,
    fused_op,
    is_elementwise,
    results_of,
)
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.fused import FUSED_ROWS, REDUCTIONS, RESHAPES, FusedRowsAttrs, data_inputs
from circlet.ops.reduce import constant_axes

_SHORTEST = 16
_LONGEST_SINGLE = 1 << 16
_MOST_REDUCTIONS = 4
_FARTHEST = 64


@dataclass(frozen=True)
class FuseNormalization:
    """Compute normalisations and their like row by row, in passes over a row that stays in cache.

    Before: `m = MEAN(x, last axis)`, `MUL(SUB(x, m), RSQRT(ADD(MEAN(SQUARED_DIFFERENCE(x, m)),
    e)))`: six ops. After: one `FUSED_ROWS` op that holds them. Layer and RMS norms, softmax spelled
    out, and whatever else reduces innermost axes (the same for all reductions of a chain) and uses
    the result on the rows it came from. Sums are formed in another order than by single ops, so
    results may differ in the last digits. Only native code runs the result: placement comes first.
    """

    name = "fuse-normalization"
    needs = frozenset(REDUCTIONS)

    def run(self, graph: Graph) -> bool:
        """Fuse every chain that can be."""
        taken: set[Op] = set()
        chains = []
        finder = _Finder(graph, taken)
        for op in graph.ops:
            if op not in taken and (form := row_form(op)) is not None:
                parts = finder.chain(op, form)
                if parts:
                    taken |= set(parts)
                    chains.append((parts, form))
        made = {
            parts[-1]: fused_op(
                FUSED_ROWS, finder.results(parts), FusedRowsAttrs(tuple(parts), *form)
            )
            for parts, form in chains
        }
        graph.ops[:] = [made.get(op, op) for op in graph.ops if op in made or op not in taken]
        return bool(made)


Form = tuple[tuple[int, ...], int]
"""Sizes of what is reduced, and how many of them are kept."""


def row_form(op: Op) -> Form | None:
    """The form of an op that reduces innermost axes of floats, or None for other ops."""
    source = op.input(0)
    if op.kind not in REDUCTIONS or source is None or source.dtype is not DType.FLOAT32:
        return None
    shape, reduced = source.static_shape, constant_axes(op)
    long = [axis for axis, size in enumerate(shape) if size > 1]
    axes = [axis for axis in long if reduced is not None and axis in reduced]
    if not axes or axes != long[-len(axes) :] or source.elements == 0:
        return None
    row = prod(shape[axes[0] :])
    is_single = row == source.elements and row > _LONGEST_SINGLE
    return None if row < _SHORTEST or is_single else (shape, axes[0])


class _Finder:
    """Grows chains from a reduction: what it reads before it, what reads it after it."""

    def __init__(self, graph: Graph, taken: set[Op]) -> None:
        self._ops = graph.ops
        self._position = {op: index for index, op in enumerate(graph.ops)}
        self._readers = graph.consumers()
        self._producers = graph.producers()
        self._outputs = frozenset(graph.outputs)
        self._taken = taken
        self._room = Room()

    def chain(self, seed: Op, form: Form) -> list[Op]:
        """The ops to compute with a reduction, in order; none where that does not pay."""
        ahead = sorted(self._ahead(seed, form), key=self._position.__getitem__)
        starts = [[*ahead, seed], [seed]]
        chains = [
            self._grown(start, form, with_siblings)
            for start in starts
            for with_siblings in (False, True)
            if self._room.holds(start, self.results(start))
        ]
        best = max(chains, key=len, default=[])
        return best if any(op.outputs[0].static_shape == form[0] for op in best) else []

    def results(self, parts: list[Op]) -> list[Tensor]:
        """What others read of a chain's results."""
        return results_of(parts, self._readers, self._outputs)

    def _ahead(self, seed: Op, form: Form) -> Iterator[Op]:
        """Element-wise ops that a reduction reads, and those that they read."""
        waiting, seen = [seed], set()
        while waiting:
            for tensor in data_inputs(waiting.pop()):
                op = self._producers.get(tensor)
                if op is None or op in seen or op in self._taken or not _spreads(op, form, set()):
                    continue
                readers = self._readers.get(op.outputs[0], ())
                if all(self._position[r] >= self._position[seed] or r in seen for r in readers):
                    seen.add(op)
                    waiting.append(op)
                    yield op

    def _grown(self, parts: list[Op], form: Form, with_siblings: bool) -> list[Op]:
        """The chain with what reads it, up to the first op that reads it and cannot join.

        Siblings read only what the chain reads too: the mean of squares beside the mean.
        """
        parts = list(parts)
        made = {tensor for op in parts for tensor in op.outputs}
        rows = {parts[-1].outputs[0]}
        for op in self._ops[self._position[parts[-1]] + 1 :]:
            if self._position[op] - self._position[parts[-1]] > _FARTHEST:
                break
            known = made | {*external_inputs(parts)} if with_siblings else made
            if known.isdisjoint(data_inputs(op)):
                continue
            if made.isdisjoint(op.inputs) and not self._joins(op, form, rows, parts):
                continue
            if op in self._taken or not self._joins(op, form, rows, parts):
                break
            parts.append(op)
            made |= set(op.outputs)
            if op.outputs[0].static_shape != form[0]:
                rows.add(op.outputs[0])
        return parts

    def _joins(self, op: Op, form: Form, rows: set[Tensor], parts: list[Op]) -> bool:
        joins = (
            _spreads(op, form, rows)
            or _is_of_rows(op, rows)
            or (
                row_form(op) == form and sum(p.kind in REDUCTIONS for p in parts) < _MOST_REDUCTIONS
            )
        )
        together = [*parts, op]
        return joins and self._room.holds(together, self.results(together))


def _spreads(op: Op, form: Form, rows: set[Tensor]) -> bool:
    """Whether an element-wise op has the sizes of what is reduced, and operands that fit rows."""
    shape, kept = form
    if op.outputs[0].static_shape != shape or not is_elementwise(op):
        return False
    return all(_fits_rows(t, shape, kept, t in rows) for t in op.inputs if t is not None)


def _fits_rows(tensor: Tensor, shape: tuple[int, ...], kept: int, is_row: bool) -> bool:
    sizes = (1,) * (len(shape) - len(tensor.shape)) + tensor.static_shape
    inner = shape[kept:]
    if is_row:
        return sizes == (*shape[:kept], *(1,) * len(inner)) and tensor.dtype is DType.FLOAT32
    return sizes[kept:] in (inner, (1,) * len(inner))


def _is_of_rows(op: Op, rows: set[Tensor]) -> bool:
    """Whether an op computes one float per row from such floats and single constants."""
    first = op.input(0)
    if op.kind in RESHAPES:
        return first in rows
    result = op.outputs[0]
    if not is_elementwise(op) or any(
        t.dtype is not DType.FLOAT32 for t in (*op.inputs, result) if t
    ):
        return False
    return all(
        t.elements == 1 if t not in rows else t.static_shape == result.static_shape
        for t in op.inputs
        if t is not None
    )
