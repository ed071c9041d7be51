"""Reductions of rows and the element-wise ops around them become one kernel call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import prod

from circlet.backends.cpu.elementwise_limits import ROW_REDUCTIONS
from circlet.backends.cpu.passes.fusion import (
    KernelLimits,
    external_inputs,
    fused_op,
    is_elementwise,
)
from circlet.ir import DType, Graph, Op, Tensor
from circlet.ops.fused import FUSED_ROWS, FusedRowsAttrs
from circlet.ops.operands import data_inputs, is_reshape
from circlet.ops.reduce import constant_axes
from circlet.passes import Rewriter

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
    results may differ in the last digits.
    """

    name = "fuse-normalization"
    needs = frozenset(ROW_REDUCTIONS)

    def run(self, graph: Graph) -> bool:
        """Fuse every chain that can be."""
        rewriter = Rewriter(graph)
        finder = _Finder(rewriter)
        chains = [(parts, form) for op in graph.ops for parts, form in finder.chains_from(op)]
        for parts, form in chains:
            attrs = FusedRowsAttrs(tuple(parts), *form)
            rewriter.replace(parts, fused_op(FUSED_ROWS, rewriter.results(parts), attrs))
        return rewriter.finish()


Form = tuple[tuple[int, ...], int]
"""Sizes of what is reduced, and how many of them are kept."""


def row_form(op: Op) -> Form | None:
    """The form of an op that reduces innermost axes of floats, or None for other ops."""
    source = op.input(0)
    if op.kind not in ROW_REDUCTIONS or source is None or source.dtype is not DType.FLOAT32:
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

    def __init__(self, rewriter: Rewriter) -> None:
        self._rewriter = rewriter
        self._ops = rewriter.graph.ops
        self._taken: set[Op] = set()
        self._limits = KernelLimits()
        self._is_elementwise = cache(is_elementwise)

    def chains_from(self, seed: Op) -> Iterator[tuple[list[Op], Form]]:
        """The chain around a reduction that is in none yet, if there is one."""
        if seed in self._taken or (form := row_form(seed)) is None:
            return
        if parts := self._chain(seed, form):
            self._taken.update(parts)
            yield parts, form

    def _chain(self, seed: Op, form: Form) -> list[Op]:
        """The ops to compute with a reduction, in order; none where it would stand alone."""
        ahead = sorted(self._ahead(seed, form), key=self._rewriter.position)
        starts = [[*ahead, seed], [seed]] if ahead else [[seed]]
        chains = [
            self._grown(start, form, with_siblings)
            for start in starts
            for with_siblings in (False, True)
            if self._fits(start)
        ]
        best = max(chains, key=len, default=[])
        return best if any(op.outputs[0].static_shape == form[0] for op in best) else []

    def _fits(self, parts: list[Op]) -> bool:
        """Whether one kernel call has places for what a chain needs."""
        return self._limits.hold(parts, self._rewriter.results(parts))

    def _ahead(self, seed: Op, form: Form) -> Iterator[Op]:
        """Element-wise ops that a reduction reads, and those that they read."""
        waiting, seen = [seed], set[Op]()
        position = self._rewriter.position
        while waiting:
            for tensor in data_inputs(waiting.pop()):
                op = self._rewriter.producer(tensor)
                if (
                    op is None
                    or op in seen
                    or op in self._taken
                    or not self._spreads(op, form, set())
                ):
                    continue
                before = self._rewriter.any_reader(
                    op.outputs[0], lambda r: r not in seen and position(r) < position(seed)
                )
                if not before:
                    seen.add(op)
                    waiting.append(op)
                    yield op

    def _grown(self, parts: list[Op], form: Form, with_siblings: bool) -> list[Op]:
        """The chain with what reads it, up to the first op that reads it and cannot join.

        Siblings read only what the chain reads too: the mean of squares beside the mean.
        """
        parts, last = list(parts), self._rewriter.position(parts[-1])
        made = {tensor for op in parts for tensor in op.outputs}
        read = {*external_inputs(parts)} if with_siblings else set[Tensor]()
        rows = {parts[-1].outputs[0]}
        for number in range(last + 1, len(self._ops)):
            if number - last > _FARTHEST:
                break
            op = self._ops[number]
            inputs = data_inputs(op)
            if made.isdisjoint(inputs) and read.isdisjoint(inputs):
                continue
            joins = self._joins(op, form, rows, parts)
            if not joins and made.isdisjoint(op.inputs):
                continue
            if not joins or op in self._taken:
                break
            parts.append(op)
            last = number
            made.update(op.outputs)
            read.update(inputs if with_siblings else ())
            if op.outputs[0].static_shape != form[0]:
                rows.add(op.outputs[0])
        return parts

    def _joins(self, op: Op, form: Form, rows: set[Tensor], parts: list[Op]) -> bool:
        joins = self._spreads(op, form, rows) or self._is_of_rows(op, rows)
        return (joins or _reduces_too(op, form, parts)) and self._fits([*parts, op])

    def _spreads(self, op: Op, form: Form, rows: set[Tensor]) -> bool:
        """Whether an element-wise op has the sizes of what is reduced, and operands of rows."""
        shape, kept = form
        if op.outputs[0].static_shape != shape or not self._is_elementwise(op):
            return False
        return all(_fits_rows(t, shape, kept, t in rows) for t in op.inputs if t is not None)

    def _is_of_rows(self, op: Op, rows: set[Tensor]) -> bool:
        """Whether an op computes one float per row from such floats and single constants."""
        first = op.input(0)
        if is_reshape(op):
            return first in rows
        tensors = [t for t in op.inputs if t is not None]
        shape = op.outputs[0].static_shape
        if any(t.static_shape != shape if t in rows else t.elements != 1 for t in tensors):
            return False
        floats = all(t.dtype is DType.FLOAT32 for t in (*tensors, op.outputs[0]))
        return floats and self._is_elementwise(op)


def _reduces_too(op: Op, form: Form, parts: list[Op]) -> bool:
    """Whether an op reduces the same axes, and the chain has a place for one more that does."""
    taken = sum(part.kind in ROW_REDUCTIONS for part in parts)
    return row_form(op) == form and taken < _MOST_REDUCTIONS


def _fits_rows(tensor: Tensor, shape: tuple[int, ...], kept: int, is_row: bool) -> bool:
    sizes = (1,) * (len(shape) - len(tensor.shape)) + tensor.static_shape
    inner = shape[kept:]
    if is_row:
        return sizes == (*shape[:kept], *(1,) * len(inner)) and tensor.dtype is DType.FLOAT32
    return sizes[kept:] in (inner, (1,) * len(inner))
