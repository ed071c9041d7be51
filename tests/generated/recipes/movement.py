"""Recipes of kinds that move, repeat, cut and pad elements, and of those that ask for sizes."""

from __future__ import annotations

import numpy as np

from circlet.ir import DType
from circlet.ops import OpDef
from tests.generated.case import Form, Parts
from tests.generated.draw import Draw, Operand
from tests.generated.recipes.common import Recipe, drawn_attrs, one_operand, result


def reshaped(draw: Draw, record: OpDef, form: Form) -> Parts:
    """The same elements in other sizes; one of them may be left to be found."""
    source = draw.data(form.any, draw.shape(0, 5))
    count, sizes = source.array.size, list[int]()
    while count > 1 and draw.chance(0.8):
        factor = draw.pick([n for n in range(1, count + 1) if count % n == 0])
        sizes.append(factor)
        count //= factor
    sizes.append(count)
    draw.rng.shuffle(sizes)
    if draw.chance(0.4) and source.array.size:
        sizes[draw.integer(0, len(sizes) - 1)] = -1
    results = result(draw, record, form, source)
    if draw.chance(0.3):
        return Parts([source], drawn_attrs(draw, record, new_shape=tuple(sizes)), results)
    return Parts([source, draw.ints(sizes)], drawn_attrs(draw, record), results)


def squeezed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Axes of size 1 that are named, or all of them."""
    shape = tuple(1 if draw.chance(0.5) else size for size in draw.shape(0, 5))
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    named = [axis - len(shape) * draw.chance(0.4) for axis in ones if draw.chance(0.6)]
    source = draw.data(form.any, shape)
    attrs = drawn_attrs(draw, record, squeeze_dims=tuple(named))
    return Parts([source], attrs, result(draw, record, form, source))


def expanded(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A new axis."""
    source = draw.data(form.any, draw.shape(0, 4))
    axis = draw.ints(draw.axis(source.array.ndim + 1), form.input(1))
    return Parts([source, axis], None, result(draw, record, form, source))


def transposed(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Any order of the axes."""
    source = draw.data(form.any, draw.shape(0, 6))
    order = draw.ints(draw.rng.permutation(source.array.ndim))
    return Parts([source, order], None, result(draw, record, form, source))


def tiled(draw: Draw, record: OpDef, form: Form) -> Parts:
    """How often along each axis, not at all included."""
    source = draw.data(form.any, draw.shape(1, 4))
    times = [draw.pick((1, 1, 2, 3, 0)) for _ in range(source.array.ndim)]
    operands = [source, draw.ints(times, form.input(1))]
    return Parts(operands, None, result(draw, record, form, source))


def broadcast_to(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Sizes that the input spreads over."""
    whole = draw.shape(0, 6)
    source = draw.data(form.any, draw.spread(whole))
    operands = [source, draw.ints(whole, form.input(1))]
    return Parts(operands, None, result(draw, record, form, source))


def broadcast_args(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Two lists of sizes that go together."""
    whole = draw.shape(0, 5)
    lists = [draw.ints(draw.spread(whole), form.output, 0.2) for _ in range(2)]
    return Parts(lists, None, [(form.output, None)])


def filled(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Sizes, and one element."""
    value = draw.data(form.any, ())
    operands = [draw.ints(draw.shape(0, 4), form.input(0)), value]
    return Parts(operands, None, [(form.any, value.quant)])


def padded(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Amounts before and after each axis."""
    source = draw.data(form.any, draw.shape(1, 5))
    amounts = draw.rng.choice([0, 0, 1, 2, 3], (source.array.ndim, 2))
    operands: list[Operand | None] = [source, draw.ints(amounts, form.input(1))]
    if len(form.inputs) > 2:
        operands.append(Operand(draw.values(form.any, ()), source.quant, draw.chance(0.7)))
    return Parts(operands, None, result(draw, record, form, source))


def mirrored(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Amounts that the mirror reaches."""
    attrs = drawn_attrs(draw, record)
    source = draw.data(form.any, draw.shape(1, 4, empty=0))
    reach = [size - (vars(attrs)["mode"] == "REFLECT") for size in source.array.shape]
    amounts = [[draw.integer(0, min(most, 4)) for _ in range(2)] for most in reach]
    operands = [source, draw.ints(amounts, form.input(1))]
    return Parts(operands, attrs, result(draw, record, form, source))


def sliced(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A start and a size of each axis, or all that is left."""
    source = draw.data(form.any, draw.shape(1, 5))
    starts = [draw.integer(0, size) for size in source.array.shape]
    pairs = zip(source.array.shape, starts, strict=True)
    sizes = [draw.pick((-1, draw.integer(0, size - start))) for size, start in pairs]
    operands = [source, draw.ints(starts, form.input(1)), draw.ints(sizes, form.input(2))]
    return Parts(operands, None, result(draw, record, form, source))


def strided(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Ranges with steps of either sign, ends beyond the axes, and masks."""
    source = draw.data(form.any, draw.shape(1, 4))
    rank = draw.integer(1, source.array.ndim)
    starts, ends = ([draw.integer(-9, 9) for _ in range(rank)] for _ in range(2))
    steps = [draw.pick((1, 1, 2, 3, -1, -2)) for _ in range(rank)]
    masks = {name: draw.integer(0, 2**rank - 1) for name in ("begin_mask", "end_mask")}
    bit = 1 << draw.integer(0, rank - 1)
    more = draw.pick(("", "", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask"))
    if more:
        masks[more] = bit
    if more == "shrink_axis_mask":
        place = bit.bit_length() - 1
        steps[place], starts[place] = 1, draw.integer(0, max(0, source.array.shape[place] - 1))
        masks["begin_mask"] &= ~bit
    lists = [draw.ints(values, form.input(1), 0.9) for values in (starts, ends, steps)]
    attrs = drawn_attrs(draw, record, **masks)
    return Parts([source, *lists], attrs, result(draw, record, form, source))


def updated_slice(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A part that fits; starts beyond the ends are moved by the operator."""
    source = draw.data(form.any, draw.shape(1, 4))
    sizes = tuple(draw.integer(0, size) for size in source.array.shape)
    update = draw.data(form.any, sizes, source.quant)
    starts = [draw.integer(-2, size + 1) for size in source.array.shape]
    operands = [source, update, draw.ints(starts, form.input(2), 0.3)]
    return Parts(operands, None, result(draw, record, form, source))


def blocked(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Blocks of two spatial axes, and amounts that they divide."""
    rank = draw.pick((3, 4))
    blocks = [draw.pick((1, 2, 3)) for _ in range(rank - 2)]
    pads = [[draw.integer(0, 2) for _ in range(2)] for _ in blocks]
    into = record.kind == "SPACE_TO_BATCH_ND"
    sizes = [block * draw.integer(1, 3) for block in blocks]
    sizes = [size - sum(pad) if into else size for size, pad in zip(sizes, pads, strict=True)]
    sizes = [size if size > 0 else size + 6 for size in sizes]
    batch = draw.integer(1, 3) * (1 if into else int(np.prod(blocks)))
    source = draw.data(form.input(0), (batch, *sizes, draw.integer(1, 4)))
    operands = [source, draw.ints(blocks), draw.ints(pads)]
    return Parts(operands, None, result(draw, record, form, source))


def depth(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Blocks of an image."""
    block = draw.pick((1, 2, 3))
    batch, rows, columns, channels = draw.integer(1, 2), *(draw.integer(1, 3) for _ in range(3))
    shape = (batch, rows * block, columns * block, channels)
    if record.kind == "DEPTH_TO_SPACE":
        shape = (batch, rows, columns, channels * block * block)
    source = draw.data(form.any, shape)
    attrs = drawn_attrs(draw, record, block_size=block)
    return Parts([source], attrs, result(draw, record, form, source))


def sized(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Sizes of an operand in the type that the options name."""
    attrs = drawn_attrs(draw, record, out_type=form.output.name)
    return Parts([draw.data(form.any, draw.shape())], attrs, [(form.output, None)])


def ranged(draw: Draw, record: OpDef, form: Form) -> Parts:
    """A start, an end and a step of either sign."""
    start, end = draw.integer(-9, 9), draw.integer(-9, 9)
    step = draw.pick((1, 2, 3)) * (1 if end >= start else -1)
    numbers: list[float] = [start, end, step]
    if form.output is DType.FLOAT32:
        numbers = [start + 0.25, end + 0.25, step / 2]
    return Parts([draw.ints(n, form.output) for n in numbers], None, [(form.output, None)])


def diagonal(draw: Draw, record: OpDef, form: Form) -> Parts:
    """Matrices and their diagonals."""
    shape, quant = draw.shape(2, 4), draw.quant(form.input(0))
    source = draw.data(form.input(0), shape, quant)
    values = draw.data(form.input(1), (*shape[:-2], min(shape[-2:])), quant)
    return Parts([source, values], None, result(draw, record, form, source))


MOVEMENT: dict[str, Recipe] = {
    "BATCH_TO_SPACE_ND": blocked,
    "BROADCAST_ARGS": broadcast_args,
    "BROADCAST_TO": broadcast_to,
    "DEPTH_TO_SPACE": depth,
    "DYNAMIC_UPDATE_SLICE": updated_slice,
    "EXPAND_DIMS": expanded,
    "FILL": filled,
    "MATRIX_DIAG": one_operand(1, 4),
    "MATRIX_SET_DIAG": diagonal,
    "MIRROR_PAD": mirrored,
    "PAD": padded,
    "PADV2": padded,
    "RANGE": ranged,
    "RANK": one_operand(),
    "RESHAPE": reshaped,
    "SHAPE": sized,
    "SLICE": sliced,
    "SPACE_TO_BATCH_ND": blocked,
    "SPACE_TO_DEPTH": depth,
    "SQUEEZE": squeezed,
    "STRIDED_SLICE": strided,
    "TILE": tiled,
    "TRANSPOSE": transposed,
    "WHERE": one_operand(),
    "ZEROS_LIKE": one_operand(),
}
