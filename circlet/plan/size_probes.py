"""Open sizes of kinds that make each place of an axis of what lies no further behind.

What a run fills of such an axis comes out as if there were no room behind it. How long it is in the
result, the op's own inference tells: it is asked for the largest sizes, and for one more of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.batch_matmul import adjoint
from circlet.ops.fully_connected import FullyConnectedAttrs
from circlet.ops.layout import pad_value
from circlet.ops.operands import known_ints, operand
from circlet.ops.order import CumsumAttrs, only_axis, reversed_axes
from circlet.ops.reduce import constant_axes
from circlet.ops.softmax import SoftmaxAttrs
from circlet.ops.split import split_parts, unpack_axis
from circlet.plan.sizes import (
    GREATEST,
    PRODUCT,
    SUM,
    Number,
    Numbers,
    Size,
    SizeTable,
    bounds_of,
    fewest_of,
)

Value = int | float
Passing = dict[int, dict[int, Value | None]]
"""The axes of each operand that may be open, and what must stand behind the places of each."""
Rule = Callable[[Op], Passing | None]


def probed(op: Op, table: SizeTable) -> list[Numbers | None]:
    """The sizes of the results of an op, as far as it lets open sizes pass; none where it does not.

    Each is that for the bounds, less what it grows by for one more place times the places missing.
    """
    found = passing(op)
    sizes = None if found is None else _open(op, found, table)
    if sizes is None:
        return []
    base = inferred(op, table)
    grown = [inferred(op, table, size) for size in sizes]
    if base is None or any(each is None for each in grown):
        return []
    made: list[Numbers | None] = []
    for index, shape in enumerate(base):
        steps = [each[index] for each in grown if each is not None]
        made.append(_followed(shape, steps, sizes, table))
    return made


def passing(op: Op) -> Passing | None:
    """What an op lets pass; None for kinds that look at all places."""
    rule = _KINDS.get(op.label)
    return None if rule is None else rule(op)


def given_sizes(op: Op, table: SizeTable) -> dict[int, Tensor]:
    """The operands that list sizes, of which some are open, as constants: their bounds."""
    made: dict[int, Tensor] = {}
    for index in (*get(op).shape_inputs, *_NUMBERS.get(op.kind, ())):
        tensor = op.input(index)
        numbers = None if tensor is None else table.numbers.get(tensor)
        if tensor is not None and numbers is not None:
            made[index] = _constant(tensor, bounds_of(numbers))
    return made


def _constant(tensor: Tensor, values: Iterable[int]) -> Tensor:
    array = np.array([*values], tensor.dtype.numpy).reshape(tensor.static_shape)
    return constant(tensor.name, array)


def _open(op: Op, found: Passing, table: SizeTable) -> list[Size] | None:
    """The open sizes of an op's operands; None where one is not known, or may not be open."""
    made: list[Size] = []
    listed = given_sizes(op, table)
    for index, tensor in enumerate(op.inputs):
        sizes = () if tensor is None else table.of(tensor)
        if sizes is None:
            return None
        if index in listed:
            made += [each for each in table.numbers[operand(op, index)] if isinstance(each, Size)]
        axes = [axis for axis, size in enumerate(sizes) if isinstance(size, Size)]
        if not found.get(index, {}).keys() >= {*axes}:
            return None
        made += [size for size in sizes if isinstance(size, Size)]
    return list(dict.fromkeys(made))


def inferred(op: Op, table: SizeTable, longer: Size | None = None) -> list[tuple[int, ...]] | None:
    """The sizes of results at the bounds, of which one is longer by a place; None for a refusal."""

    def bounds(numbers: Numbers) -> tuple[int, ...]:
        fixed = zip(bounds_of(numbers), numbers, strict=True)
        return tuple(bound + (number is longer) for bound, number in fixed)

    listed, inputs = given_sizes(op, table), list[Tensor | None]()
    for index, tensor in enumerate(op.inputs):
        sizes = None if tensor is None else table.of(tensor)
        if tensor is None or sizes is None:
            inputs.append(None)
        elif index in listed:
            inputs.append(_constant(tensor, bounds(table.numbers[tensor])))
        else:
            inputs.append(replace(tensor, shape=bounds(sizes), default_shape=None))
    record, probe = get(op), replace(op, inputs=inputs)
    try:
        if not all(rule.holds(probe) is True for rule in record.rules):
            return None
        shapes = [made.shape for made in record.infer(probe)]
    except CircletError:
        return None
    known = [tuple(size for size in shape if size is not None) for shape in shapes]
    return known if [*map(len, known)] == [*map(len, shapes)] else None


def _followed(
    shape: tuple[int, ...], grown: list[tuple[int, ...]], sizes: list[Size], table: SizeTable
) -> Numbers | None:
    made: list[Number] = []
    for axis, bound in enumerate(shape):
        steps = [(each[axis] - bound, size) for each, size in zip(grown, sizes, strict=True)]
        terms = [(step, size) for step, size in steps if step]
        number = bound if not terms else _linear(bound, terms, table)
        if number is None:
            return None
        made.append(number)
    return tuple(made)


def _linear(bound: int, terms: list[tuple[int, Size]], table: SizeTable) -> Number | None:
    """A size that grows by a step for each place of one open size; None for several of those."""
    ((step, size), *others) = terms
    product = table.joined(PRODUCT, [step, size]) if step > 0 else None
    if others or product is None:
        return None
    (most,) = bounds_of((size,))
    total = table.joined(SUM, [product, bound - step * most])
    if total is None or fewest_of(total) >= 0:
        return total
    return table.joined(GREATEST, [0, total])


def _rows_of(*operands: int) -> Rule:
    """The leading axis of some operands."""
    return lambda op: {index: {0: None} for index in operands}


def _axes_but(op: Op, *axes: int, index: int = 0) -> Passing:
    """All axes of an operand but some."""
    rank = len(operand(op, index).shape)
    kept = {*range(rank)} - {axis % rank for axis in axes if rank}
    return {index: dict.fromkeys(kept)}


def _all_axes(op: Op) -> Passing:
    return _axes_but(op)


def _all_but_last(op: Op) -> Passing:
    return _axes_but(op, -1)


def _softmax(op: Op) -> Passing:
    """Of floats, -inf has no share."""
    found = _all_but_last(op)
    is_rising = op.kind != "SOFTMAX" or op.attributes(SoftmaxAttrs).beta > 0
    if operand(op, 0).dtype is DType.FLOAT32 and is_rising:
        found[0][len(operand(op, 0).shape) - 1] = -np.inf
    return found


def _fully_connected(op: Op) -> Passing:
    """Where all axes in front of the depth become rows, the leading one alone stays in order."""
    if op.attributes(FullyConnectedAttrs).keep_num_dims:
        return _all_but_last(op)
    leading = [axis for axis, size in enumerate(operand(op, 0).shape[:-1]) if size != 1]
    return {0: dict.fromkeys(leading[:1])}


def _batch_matmul(op: Op) -> Passing:
    """Where the depth is open, both operands have zeros behind it."""
    ranks = [len(operand(op, index).shape) for index in (0, 1)]
    depths = [-2 if adjoint(op)[0] else -1, -1 if adjoint(op)[1] else -2]
    pairs = enumerate(zip(depths, ranks, strict=True))
    found = {index: _axes_but(op, depth, index=index)[index] for index, (depth, _) in pairs}
    if all(operand(op, index).dtype is DType.FLOAT32 for index in (0, 1)):
        for index, (depth, rank) in enumerate(zip(depths, ranks, strict=True)):
            found[index][depth % rank] = 0
    return found


def _pad(op: Op) -> Passing | None:
    """The places behind the count are padded as well."""
    fill = op.input(2)
    if known_ints(op.input(1)) is None or (fill is not None and fill.data is None):
        return None
    value = pad_value(op) if fill is None else np.asarray(fill.data).reshape(-1)[0].item()
    return {0: dict.fromkeys(range(len(operand(op, 0).shape)), value)}


def _tile(op: Op) -> Passing:
    """What is repeated is as long as it is; how often, a run may say."""
    times = known_ints(op.input(1)) or ()
    return {0: {axis: None for axis, count in enumerate(times) if count == 1}}


def _cumsum(op: Op) -> Passing | None:
    axis = only_axis(op, 1, len(operand(op, 0).shape))
    if axis is None:
        return None
    found = _all_axes(op)
    found[0][axis] = 0 if op.attributes(CumsumAttrs).reverse else None
    return found


def _unlike(
    axes_of: Callable[[Op], Iterable[int] | None], index: int = 0
) -> Callable[..., Passing | None]:
    """All axes of an operand but those that the op looks along."""

    def rule(op: Op) -> Passing | None:
        axes = axes_of(op)
        return None if axes is None else _axes_but(op, *axes, index=index)

    return rule


def _split_axes(op: Op) -> list[int] | None:
    parts = split_parts(op)
    return None if parts is None else [parts.axis]


def _range(op: Op) -> Passing | None:
    """Steps of one from a start that is known."""
    return {} if known_ints(op.input(0)) and known_ints(op.input(2)) == (1,) else None


def _regions(op: Op) -> Passing:
    """Behind the count lie regions of no extent, of the first image."""
    return {index: {0: 0} for index in range(1, len(op.inputs))}


_NUMBERS = {"RANGE": (1,), "TRANSPOSE_CONV": (0,)}  # operands that say sizes in some forms alone
_OF_IMAGES = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "CONV_3D",
    "AVERAGE_POOL_2D",
    "MAX_POOL_2D",
    "L2_POOL_2D",
    "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR",
    "SPACE_TO_DEPTH",
    "DEPTH_TO_SPACE",
    "INSTANCE_NORM",
)
_KINDS: dict[str, Rule] = {
    **dict.fromkeys(_OF_IMAGES, _rows_of(0)),
    "TRANSPOSE_CONV": _rows_of(2),
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), _softmax),
    **dict.fromkeys(
        ("L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION", "RMS_NORM"), _all_but_last
    ),
    **dict.fromkeys(("ZEROS_LIKE", "ONE_HOT"), _all_axes),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    "TILE": _tile,
    "CUMSUM": _cumsum,
    "REVERSE_V2": _unlike(reversed_axes),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _unlike(constant_axes)),
    "SPLIT": _unlike(_split_axes, 1),
    "SPLIT_V": _unlike(_split_axes),
    "UNPACK": _unlike(lambda op: [unpack_axis(op)]),
    "RANGE": _range,
    "CUSTOM:onnx.RoiAlign": _regions,
    "CUSTOM:nnapi.ROI_ALIGN": _regions,
    "CUSTOM:nnapi.ROI_POOLING": _regions,
    "CUSTOM:nnapi.AXIS_ALIGNED_BBOX_TRANSFORM": lambda op: {0: {0: 0}, 1: {0: None}, 2: {0: 0}},
    "CUSTOM:nnapi.HEATMAP_MAX_KEYPOINT": lambda op: {0: {0: 0}, 1: {0: 0}},
}
