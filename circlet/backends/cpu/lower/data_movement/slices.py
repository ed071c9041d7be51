"""Ops that are strided copies: slices, parts, repeats, reversals, blocks, fixed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import copy_loops, element_bytes
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    Loops,
    Sizes,
    broadcast_strides,
    layout_of,
    merged,
    source_ref,
    strides_of,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Lowering,
    Ref,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops import get
from circlet.ops.blocks import block_size
from circlet.ops.operands import known_ints, operand
from circlet.ops.order import reversed_axes
from circlet.ops.slicing import Slices, slices_of_slice
from circlet.ops.split import pack_axis, split_parts, unpack_axis
from circlet.ops.strided_slice import slices_of_strided_slice
from circlet.target.targets import Target

_MOST_AXES = 8
_MOST_CALLS = 1024  # that one op is unrolled to


def strides_in(context: Context, tensor: Tensor) -> Sizes:
    """A tensor's strides in the layout that the compiler chose."""
    return strides_of(tensor, layout_of(context, tensor))


def shifted(context: Context, tensor: Tensor, elements: int) -> Ref:
    """The address of an element counted from a tensor's first one, along its strides."""
    ref = source_ref(context, tensor)
    if isinstance(ref, TensorRef):
        return TensorRef(tensor, elements)
    return ref._replace(offset=ref.offset + elements * element_bytes(tensor))


def copy_from(
    op: Op, context: Context, source: Tensor, target: TensorRef, loops: Loops, start: int = 0
) -> None:
    """Copy by loops over source and target, from `start` elements into the source.

    More axes than kernels take become one call for each index of the outermost axis.
    """
    loops = merged(loops)
    if len(loops.sizes) <= MAX_AXES:
        copy_loops(op, context, shifted(context, source, start), target, loops)
        return
    (step, advance), sizes = (row[0] for row in loops.strides), loops.sizes
    inner = Loops(sizes[1:], tuple(row[1:] for row in loops.strides))
    for index in range(sizes[0]):
        shifted_target = TensorRef(target.tensor, target.offset + index * advance)
        copy_from(op, context, source, shifted_target, inner, start + index * step)


def not_movable(tensor: Tensor) -> str | None:
    """Why strided copies do not take a tensor, or None."""
    if tensor.dtype.bits not in (8, 16, 32, 64):
        return f"elements of type {tensor.dtype.name} are not whole bytes"
    if len(tensor.static_shape) > _MOST_AXES:
        return f"rank {len(tensor.static_shape)} is above {_MOST_AXES}"
    return "a size is 0" if tensor.elements == 0 else None


def _not_unrolled(sizes: Sizes) -> str | None:
    """Why `copy_from` does not take loops of these sizes, or None."""
    real = [size for size in sizes if size != 1]
    calls = prod(real[:-MAX_AXES])
    return f"it would be {calls} kernel calls" if calls > _MOST_CALLS else None


def _operands_not_movable(op: Op) -> str | None:
    tensors = (*(t for t in op.inputs if t is not None), *op.outputs)
    return next((reason for t in tensors if (reason := not_movable(t))), None)


def _add(
    kind: str,
    refuses: Callable[[Op], str | None],
    lower: Callable[[Op, Context], None],
    name: str = "",
) -> None:
    def refuse(op: Op, target: Target) -> str | None:
        result = op.outputs[0]
        return refuses(op) or not_movable(result) or _not_unrolled(result.static_shape)

    row = name or kind.lower()
    LOWERINGS.add(
        Lowering(
            kind,
            row,
            refuse,
            lower,
            strided_inputs=True,
            strided_any_rank=True,
            strided_output=True,
        )
    )


_SLICES: dict[str, Callable[[Op], Slices | None]] = {
    "SLICE": slices_of_slice,
    "STRIDED_SLICE": slices_of_strided_slice,
}


def _refuses_slice(op: Op) -> str | None:
    slices = _SLICES[op.kind](op)
    if slices is None:
        return "begin, end or size is not constant"
    pairs = zip(slices.ranges, operand(op, 0).static_shape, strict=True)
    return None if all(part.fits(size) for part, size in pairs) else "it reaches outside its input"


def _lower_slice(op: Op, context: Context) -> None:
    source, result, slices = operand(op, 0), op.outputs[0], _SLICES[op.kind](op)
    assert slices is not None
    strides = strides_in(context, source)
    rows = list(zip(slices.ranges, strides, strict=True))
    sizes = slices.counts
    kept = result if len(sizes) == len(result.static_shape) else None
    target = strides_in(context, result)
    if kept is None or kept.static_shape != sizes:
        target = _through(sizes, result.static_shape, target)
    loops = Loops(sizes, (tuple(part.step * stride for part, stride in rows), target))
    start = sum(part.start * stride for part, stride in rows)
    copy_from(op, context, source, TensorRef(result), loops, start)


def _through(sizes: Sizes, shape: Sizes, strides: Sizes) -> Sizes:
    """Strides along axes of `sizes` of a tensor whose shape differs from them by axes of size 1."""
    real = iter([stride for size, stride in zip(shape, strides, strict=True) if size != 1])
    return tuple(1 if size == 1 else next(real) for size in sizes)


for _kind in _SLICES:
    _add(_kind, _refuses_slice, _lower_slice)


def _part_loops(context: Context, data: Tensor, part: Tensor, axis: int, drops: bool) -> Loops:
    """Loops over a part of `data` along an axis, which `part` lacks where it was dropped."""
    whole, own = strides_in(context, data), strides_in(context, part)
    if drops:
        whole = (*whole[:axis], *whole[axis + 1 :])
    return Loops(part.static_shape, (whole, own))


def _refuses_split(op: Op) -> str | None:
    if split_parts(op) is None:
        return "the axis or the sizes are not constant"
    return next((reason for t in op.outputs if (reason := not_movable(t))), None)


def _lower_split(op: Op, context: Context) -> None:
    data, parts = operand(op, 1 if op.kind == "SPLIT" else 0), split_parts(op)
    assert parts is not None
    stride = strides_in(context, data)[parts.axis]
    for part, start in zip(op.outputs, parts.starts, strict=True):
        loops = _part_loops(context, data, part, parts.axis, drops=False)
        copy_from(op, context, data, TensorRef(part), loops, start * stride)


for _kind in ("SPLIT", "SPLIT_V"):
    _add(_kind, _refuses_split, _lower_split)


def _lower_unpack(op: Op, context: Context) -> None:
    data, axis = operand(op, 0), unpack_axis(op)
    stride = strides_in(context, data)[axis]
    for index, part in enumerate(op.outputs):
        loops = _part_loops(context, data, part, axis, drops=True)
        copy_from(op, context, data, TensorRef(part), loops, index * stride)


_add("UNPACK", _operands_not_movable, _lower_unpack)


def _lower_pack(op: Op, context: Context) -> None:
    result, axis = op.outputs[0], pack_axis(op)
    strides = strides_in(context, result)
    rest = (*strides[:axis], *strides[axis + 1 :])
    for index in range(len(op.inputs)):
        part = operand(op, index)
        loops = Loops(part.static_shape, (strides_in(context, part), rest))
        copy_from(op, context, part, TensorRef(result, index * strides[axis]), loops)


_add("PACK", _operands_not_movable, _lower_pack)


def _refuses_reverse(op: Op) -> str | None:
    return "the axes are not constant" if reversed_axes(op) is None else None


def _lower_reverse(op: Op, context: Context) -> None:
    source, result, axes = operand(op, 0), op.outputs[0], reversed_axes(op) or ()
    strides = strides_in(context, source)
    reversed_strides = tuple(
        -stride if axis in axes else stride for axis, stride in enumerate(strides)
    )
    start = sum((source.static_shape[axis] - 1) * strides[axis] for axis in axes)
    loops = Loops(result.static_shape, (reversed_strides, strides_in(context, result)))
    copy_from(op, context, source, TensorRef(result), loops, start)


_add("REVERSE_V2", _refuses_reverse, _lower_reverse)


def _refuses_repeat(op: Op) -> str | None:
    return "the sizes are not constant" if known_ints(op.input(1)) is None else None


def _lower_tile(op: Op, context: Context) -> None:
    source, result = operand(op, 0), op.outputs[0]
    sizes, times = source.static_shape, known_ints(op.input(1)) or ()
    own, target = strides_in(context, source), strides_in(context, result)
    rows = list(zip(sizes, own, target, strict=True))
    loops = Loops(
        tuple(n for pair in zip(times, sizes, strict=True) for n in pair),
        (
            tuple(step for _, stride, _ in rows for step in (0, stride)),
            tuple(step for size, _, stride in rows for step in (size * stride, stride)),
        ),
    )
    copy_from(op, context, source, TensorRef(result), loops)


def _refuses_tile(op: Op) -> str | None:
    times = known_ints(op.input(1))
    pairs = zip(times or (), operand(op, 0).static_shape, strict=False)
    return _refuses_repeat(op) or _not_unrolled(tuple(n for pair in pairs for n in pair))


_add("TILE", _refuses_tile, _lower_tile)


def _copy_broadcast(op: Op, context: Context, source: Tensor) -> None:
    """Copy a source over the axes of the result that it lacks."""
    result = op.outputs[0]
    shape = result.static_shape
    strides = broadcast_strides(strides_in(context, source), source.static_shape, shape)
    loops = Loops(shape, (strides, strides_in(context, result)))
    copy_from(op, context, source, TensorRef(result), loops)


_add(
    "BROADCAST_TO",
    _refuses_repeat,
    lambda op, context: _copy_broadcast(op, context, operand(op, 0)),
)


def _refuses_fill(op: Op) -> str | None:
    return "the sizes are not constant" if known_ints(op.input(0)) is None else None


def _lower_fill(op: Op, context: Context) -> None:
    value, result = operand(op, 1), op.outputs[0]
    shape = result.static_shape
    loops = Loops(shape, ((0,) * len(shape), strides_in(context, result)))
    copy_from(op, context, value, TensorRef(result), loops)


_add("FILL", _refuses_fill, _lower_fill)


def _copy_constant(op: Op, context: Context, values: np.ndarray, strides: Sequence[int]) -> None:
    result = op.outputs[0]
    loops = Loops(result.static_shape, (tuple(strides), strides_in(context, result)))
    copy_loops(op, context, context.constant(values), TensorRef(result), loops)


def _lower_zeros(op: Op, context: Context) -> None:
    rank = len(op.outputs[0].static_shape)
    _copy_constant(op, context, np.zeros(8, np.uint8), (0,) * rank)


_add("ZEROS_LIKE", lambda op: None, _lower_zeros)


def _refuses_fact(op: Op) -> str | None:
    if op.kind == "RANGE" and not all(t is not None and t.is_constant for t in op.inputs):
        return "start, limit or delta is not constant"
    return None


def _lower_fact(op: Op, context: Context) -> None:
    """Sizes are fixed by now, so the values are constants."""
    any_values = (np.broadcast_to(np.uint8(0), t.static_shape) for t in _given(op))
    known = [t.data if op.kind == "RANGE" else next(any_values) for t in _given(op)]
    (values,) = get(op).evaluate(op, known)
    shape = op.outputs[0].static_shape
    _copy_constant(op, context, values, [prod(shape[axis + 1 :]) for axis in range(len(shape))])


def _given(op: Op) -> list[Tensor]:
    return [tensor for tensor in op.inputs if tensor is not None]


for _kind in ("SHAPE", "RANK", "RANGE"):
    _add(_kind, _refuses_fact, _lower_fact)


def _split_axis(stride: int, block: int) -> tuple[int, int]:
    """Strides over blocks of an axis, and within one."""
    return stride * block, stride


def _lower_depth(op: Op, context: Context) -> None:
    """Six loops: image, block row, row of the block, block column, column of the block, depth."""
    source, result, side = operand(op, 0), op.outputs[0], block_size(op)
    to_depth = op.kind == "SPACE_TO_DEPTH"
    wide, deep = (source, result) if to_depth else (result, source)
    n, height, width, _ = deep.static_shape
    channels = wide.static_shape[3]
    batch, row, pixel, _ = strides_in(context, wide)
    space = (batch, *_split_axis(row, side), *_split_axis(pixel, side), 1)
    batch, row, pixel, _ = strides_in(context, deep)
    depth = (batch, row, side * channels, pixel, channels, 1)
    sizes = (n, height, side, width, side, channels)
    loops = Loops(sizes, (space, depth) if to_depth else (depth, space))
    copy_from(op, context, source, TensorRef(result), loops)


for _kind in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"):
    _add(_kind, _operands_not_movable, _lower_depth)
