"""Outputs that are one run of their input's elements, so that they need no memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from circlet.ir import Op, Tensor
from circlet.ops.fused import RESHAPES
from circlet.ops.slicing import Range, slices_of_slice
from circlet.ops.split import split_parts, unpack_axis
from circlet.ops.strided_slice import slices_of_strided_slice

_SLICES = {"SLICE": slices_of_slice, "STRIDED_SLICE": slices_of_strided_slice}
_SPLITS = ("SPLIT", "SPLIT_V")
_PARTS = frozenset({*RESHAPES, *_SLICES, *_SPLITS, "UNPACK"})


def run_of(op: Op, result: Tensor) -> tuple[Tensor, int] | None:
    """The input whose elements an output repeats in one run, and the number of its first one.

    None for ops that compute or rearrange, or whose output is spread over the input.
    """
    if op.kind not in _PARTS:
        return None
    index = next(i for i, tensor in enumerate(op.outputs) if tensor is result)
    source = op.input(1 if op.kind == "SPLIT" else 0)
    if source is None:
        return None
    start = _start(op, source, index)
    return None if start is None else (source, start)


def channels_of(op: Op, result: Tensor) -> tuple[Tensor, int] | None:
    """The input of whose innermost axis an output is a run, and the number of its first element."""
    if op.kind not in _PARTS:
        return None
    index = next(i for i, tensor in enumerate(op.outputs) if tensor is result)
    source = op.input(1 if op.kind == "SPLIT" else 0)
    if source is None or len(source.shape) != len(result.shape):
        return None
    first = _first_channel(op, source.static_shape, index)
    whole = source.static_shape[:-1] == result.static_shape[:-1]
    return None if first is None or not whole else (source, first)


def _first_channel(op: Op, shape: tuple[int, ...], index: int) -> int | None:
    if op.kind in _SLICES:
        slices = _SLICES[op.kind](op)
        if slices is None or not slices.ranges:
            return None
        *outer, last = slices.ranges
        return last.start if last.step == 1 and all(part.step == 1 for part in outer) else None
    if op.kind in _SPLITS:
        parts = split_parts(op)
        is_last = parts is not None and parts.axis == len(shape) - 1
        return parts.starts[index] if parts is not None and is_last else None
    return None


def _start(op: Op, source: Tensor, index: int) -> int | None:
    shape = source.static_shape
    if op.kind in RESHAPES:
        return 0
    if op.kind in _SLICES:
        slices = _SLICES[op.kind](op)
        return None if slices is None else _start_of_ranges(slices.ranges, shape)
    if op.kind == "UNPACK":
        return _start_along(shape, unpack_axis(op), index)
    if op.kind in _SPLITS:
        parts = split_parts(op)
        return None if parts is None else _start_along(shape, parts.axis, parts.starts[index])
    return None


def _start_along(shape: tuple[int, ...], axis: int, first: int) -> int | None:
    return first * prod(shape[axis + 1 :]) if prod(shape[:axis]) == 1 else None


def _start_of_ranges(ranges: Sequence[Range], shape: tuple[int, ...]) -> int | None:
    """One element of each outer axis, a run of one axis, all of the inner ones."""
    start, is_inside = 0, False
    for axis, (part, size) in enumerate(zip(ranges, shape, strict=True)):
        is_whole = (part.start, part.step, part.count) == (0, 1, size)
        if is_inside and not is_whole:
            return None
        is_inside |= part.count != 1
        if part.count != 1 and part.step != 1:
            return None
        start += part.start * prod(shape[axis + 1 :])
    return start
