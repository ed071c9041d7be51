"""ONNX's scatters over bounds: indices behind a count point nowhere, which changes nothing."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.bounds import Bounds, NotBoundError
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.arithmetic import AddAttrs
from circlet.ops.bounded import TAIL, TailAttrs
from circlet.ops.onnx.record import attributes, axis_of
from circlet.ops.opdef import NoAttrs
from circlet.ops.operands import operand
from circlet.ops.quantize import CastAttrs
from circlet.plan.sizes import Numbers, Size, is_open

_NOWHERE = int(np.iinfo(np.int32).max)  # behind all places that a tensor has


def bind_scatter(op: Op, bounds: Bounds) -> None:
    """Append a scatter whose data, indices and updates have room for every run.

    Raises:
        NotBoundError: How many indices a place has depends on the data.
    """
    wanted, updates = bounds.sizes(operand(op, 1)), bounds.sizes(operand(op, 2))
    named = _named_sizes(op, bounds)
    given = bounds.tensor(operand(op, 1))
    if op.label.endswith("ND"):
        if isinstance(wanted[-1], Size) or updates != (*wanted[:-1], *updates[len(wanted) - 1 :]):
            raise NotBoundError("only a run says whether its operands fit each other")
    elif updates != wanted:
        raise NotBoundError("only a run says whether its operands fit each other")
    if is_open(named):
        given = _from_front(op, given, named, bounds)
    for axis, size in enumerate(wanted):
        if isinstance(size, Size):
            made = given.like(f"{op.name} (indices)")
            attrs = TailAttrs(axis, _NOWHERE)
            bounds.add(op, TAIL, [given, bounds.count(size, op)], attrs, [made])
            given = made
    bounds.repeat(op, inputs=[bounds.tensor(operand(op, 0)), given, bounds.tensor(operand(op, 2))])


def _named_sizes(op: Op, bounds: Bounds) -> Numbers:
    """The sizes of the axes that an index, or each number of a vector of them, names places of."""
    data, indices = bounds.sizes(operand(op, 0)), operand(op, 1)
    if not op.label.endswith("ND"):
        return (data[axis_of(attributes(op).get("axis", 0), len(data))],)
    depth = indices.shape[-1]
    return data[:depth]


def _from_front(op: Op, given: Tensor, sizes: Numbers, bounds: Bounds) -> Tensor:
    """Indices of which those below zero, which count from the end, have the sizes added."""

    def made(kind: str, inputs: list[Tensor], dtype: DType, attrs: object) -> Tensor:
        result = Tensor(f"{op.name} (indices)", dtype, given.shape)
        bounds.add(op, kind, inputs, attrs, [result])
        return result

    if given.dtype is not DType.INT64:
        given = made("CAST", [given], DType.INT64, CastAttrs(given.dtype.name, "INT64"))
    ends = Tensor(f"{op.name} (sizes)", DType.INT64, (len(sizes),))
    bounds.add_list(op, sizes, ends)
    zero = constant("zero", np.zeros((), np.int64))
    is_below = made("LESS", [given, zero], DType.BOOL, NoAttrs())
    counted = made("ADD", [given, ends], DType.INT64, AddAttrs())
    return made("SELECT_V2", [is_below, counted, given], DType.INT64, NoAttrs())
