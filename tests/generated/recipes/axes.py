"""Recipes of kinds that go along axes: reductions, sums, sorting, reversing, splitting, joining."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType
from circlet.ops import OpDef
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand
from tests.generated.recipes.common import Recipe, drawn_attrs, result


def reduced(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Any axes, counted from either end, none or some of them twice."""
    source = draw.data(form.input(0), draw.shape(0, 5))
    rank = source.array.ndim
    axes = [draw.axis(rank) for _ in range(draw.integer(0, rank))]
    if draw.chance(0.7):
        axes = list({axis % rank: axis for axis in axes}.values()) if rank else []
    attrs, where = drawn_attrs(draw, record), draw.ints(axes)
    if not where.constant and len({axis % max(rank, 1) for axis in axes}) < len(axes):
        where = draw.ints(axes, constant=1)  # how many axes are left has to be known
    return Parts([source, where], attrs, result(draw, record, form, source))


def arg(draw: Draw, record: OpDef, form: Form) -> Parts:
    """One axis, as a number or as a list of one."""
    source = draw.data(form.input(0), draw.shape(1, 4))
    axis = draw.axis(source.array.ndim)
    where = draw.ints([axis] if draw.chance(0.5) else axis, form.input(1))
    attrs = drawn_attrs(draw, record, output_type=form.output.name)
    return Parts([source, where], attrs, [(form.output, None)])


def cumulated(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Sums along one axis."""
    source = draw.data(form.input(0), draw.shape(1, 4))
    axis = draw.ints(draw.axis(source.array.ndim))
    return Parts([source, axis], drawn_attrs(draw, record), result(draw, record, form))


def topped(draw: Draw, record: OpDef, form: Form) -> Parts:
    """As many as the last axis has, or fewer."""
    source = draw.data(form.input(0), draw.shape(1, 4))
    count = draw.ints(draw.integer(0, source.array.shape[-1]))
    return Parts([source, count], None, [*result(draw, record, form, source), (DType.INT32, None)])


def reversed_axes(draw: Draw, record: OpDef, form: Form) -> Parts:
    """One axis, as LiteRT takes it."""
    source = draw.data(form.input(0), draw.shape(1, 4))
    axes = draw.ints([draw.axis(source.array.ndim)])
    return Parts([source, axes], None, result(draw, record, form, source))


def reversed_parts(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Lengths along one axis for each position of another."""
    source = draw.data(form.input(0), draw.shape(2, 4))
    shape = source.array.shape
    along = draw.integer(0, len(shape) - 1)
    batch = draw.pick([axis for axis in range(len(shape)) if axis != along])
    lengths = draw.rng.integers(0, shape[along], shape[batch], endpoint=True)
    attrs = drawn_attrs(draw, record, seq_dim=along, batch_dim=batch)
    operands = [source, draw.ints(lengths, form.input(1), 0.3)]
    return Parts(operands, attrs, result(draw, record, form, source))


def split(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Equal parts along an axis."""
    shape = list(draw.shape(1, 4))
    axis, count = draw.axis(len(shape)), draw.integer(1, 4)
    if -len(shape) <= axis < len(shape):
        shape[axis] = count * draw.pick((1, 2, 3))
    source = draw.data(form.any, tuple(shape))
    attrs = drawn_attrs(draw, record, num_splits=count)
    return Parts([draw.ints(axis, constant=1), source], attrs, [(form.any, source.quant)] * count)


def split_sizes(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Parts of given sizes along an axis, one of them what is left."""
    shape = list(draw.shape(1, 4))
    axis, sizes = draw.axis(len(shape)), [draw.integer(0, 4) for _ in range(draw.integer(1, 4))]
    if -len(shape) <= axis < len(shape):
        shape[axis] = sum(sizes)
    if draw.chance(0.3):
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    source = draw.data(form.any, tuple(shape))
    attrs = drawn_attrs(draw, record, num_splits=len(sizes))
    operands = [source, draw.ints(sizes, form.input(1), 1), draw.ints(axis, constant=1)]
    return Parts(operands, attrs, [(form.any, source.quant)] * len(sizes))


def unpacked(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Every position of an axis that is short."""
    shape = list(draw.shape(1, 4))
    axis, count = draw.axis(len(shape)), draw.integer(1, 5)
    if -len(shape) <= axis < len(shape):
        shape[axis] = count
    source = draw.data(form.any, tuple(shape))
    attrs = drawn_attrs(draw, record, num=count, axis=axis)
    return Parts([source], attrs, [(form.any, source.quant)] * count)


def packed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Parts of the same sizes along a new axis."""
    shape, count = draw.shape(0, 4), draw.integer(1, 5)
    quant = draw.quant(form.any)
    parts = [draw.data(form.any, shape, quant) for _ in range(count)]
    attrs = drawn_attrs(draw, record, values_count=count, axis=draw.axis(len(shape) + 1))
    return Parts(parts, attrs, [(form.any, quant)])


def concatenated(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Parts that differ along one axis."""
    shape, quant = draw.shape(1, 4), draw.quant(form.any)
    axis = draw.axis(len(shape))
    parts = []
    for _ in range(draw.integer(1, 5)):
        sizes = list(shape)
        if -len(shape) <= axis < len(shape):
            sizes[axis] = draw.integer(0, 5)
        parts.append(draw.data(form.any, tuple(sizes), quant))
    attrs = drawn_attrs(draw, record, axis=axis, activation="NONE")
    return Parts(parts, attrs, [(form.any, quant)])


def one_hot(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Positions, some of them outside, along a new axis."""
    shape, depth = draw.shape(0, 3), draw.integer(0, 6)
    where = draw.ints(draw.rng.integers(-1, depth + 1, shape, endpoint=True), form.input(0), 0.2)
    quant = draw.quant(form.output)
    values = [Operand(draw.values(form.output, ()), quant, draw.chance(0.7)) for _ in range(2)]
    axis = draw.pick((-1, draw.integer(0, len(shape))))
    attrs = drawn_attrs(draw, record, axis=axis)
    return Parts([where, draw.ints(depth), *values], attrs, [(form.output, quant)])


def unique(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A list in which values repeat."""
    values = draw.rng.choice(draw.values(form.input(0), (4,)), draw.integer(0, 12))
    source = Operand(np.asarray(values), draw.quant(form.input(0)))
    wanted = draw.pick((DType.INT32, DType.INT64))
    attrs = drawn_attrs(draw, record, idx_out_type=wanted.name)
    return Parts([source], attrs, [(form.output, source.quant), (wanted, None)])


_REDUCERS = ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL")

AXES: dict[str, Recipe] = {
    **dict.fromkeys(_REDUCERS, reduced),
    "ARG_MAX": arg,
    "ARG_MIN": arg,
    "CONCATENATION": concatenated,
    "CUMSUM": cumulated,
    "ONE_HOT": one_hot,
    "PACK": packed,
    "REVERSE_SEQUENCE": reversed_parts,
    "REVERSE_V2": reversed_axes,
    "SPLIT": split,
    "SPLIT_V": split_sizes,
    "TOPK_V2": topped,
    "UNIQUE": unique,
    "UNPACK": unpacked,
}
