"""Copies by tables of offsets: MIRROR_PAD, SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from circlet.backends.cpu.lower.copy import element_bytes, fill_pattern, not_copyable
from circlet.backends.cpu.lower.data_movement.slices import strides_in
from circlet.backends.cpu.lower.views import outer_fields, row_tasks, source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    TensorRef,
)
from circlet.ir import Op
from circlet.ops.blocks import Blocks, blocks_of
from circlet.ops.layout import pad_value, paddings
from circlet.ops.operands import operand
from circlet.ops.repeat import MirrorPadAttrs
from circlet.target.targets import Target

_AXES = 6
_FILL = -1


@dataclass(frozen=True)
class AxisOffsets:
    """Offsets, in elements, that each position of one axis adds: source (-1 fills) and result."""

    source: np.ndarray
    result: np.ndarray

    @property
    def table(self) -> np.ndarray:
        """Pairs in the order of positions."""
        return np.stack([self.source, self.result], axis=1).astype(np.int64)


def _scaled(table: np.ndarray, size: int) -> np.ndarray:
    return np.where(table < 0, _FILL, table * size)


def copy_indirect(op: Op, context: Context, axes: list[AxisOffsets], run: int) -> None:
    """Move or fill runs of `run` elements at every combination of the axes' positions."""
    source, result = operand(op, 0), op.outputs[0]
    size, tables = (
        element_bytes(result),
        [_scaled(axis.table, element_bytes(result)) for axis in axes],
    )
    unmoved = np.zeros((1, 2), np.int64)
    tables = [unmoved] * (_AXES - len(tables)) + tables
    sizes = [len(table) for table in tables]
    fields, tasks = row_tasks(prod(sizes[:-1]), sizes[-1] * run * size)
    params: dict[str, ParamValue] = {
        **fields,
        "run_bytes": run * size,
        "pattern": fill_pattern(result, pad_value(op)),
        "sizes": outer_fields(tuple(sizes), _AXES),
        "first": [sum(sizes[:axis]) for axis in range(_AXES)],
    }
    operands = (
        source_ref(context, source),
        TensorRef(result),
        context.constant(np.concatenate(tables)),
    )
    kernel = Kernel("copy.h", "copy_indirect")
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _refuses_mirror(op: Op, target: Target) -> str | None:
    if paddings(op) is None:
        return "the paddings are not constant"
    return not_copyable(op.outputs[0])


def _mirrored(op: Op, axis: int) -> np.ndarray:
    """Source index of each index of the result along an axis."""
    mode = "symmetric" if op.attributes(MirrorPadAttrs).mode == "SYMMETRIC" else "reflect"
    size, pad = operand(op, 0).static_shape[axis], (paddings(op) or ())[axis]
    return np.pad(np.arange(size), pad, mode)  # type: ignore[call-overload]


def _lower_mirror(op: Op, context: Context) -> None:
    source, result, amounts = operand(op, 0), op.outputs[0], paddings(op) or ()
    own, target = strides_in(context, source), strides_in(context, result)
    shape = result.static_shape
    whole = bool(shape) and amounts[-1] == (0, 0)
    axes = [
        AxisOffsets(_mirrored(op, axis) * own[axis], np.arange(shape[axis]) * target[axis])
        for axis in range(len(shape) - whole)
    ]
    copy_indirect(op, context, axes, shape[-1] if whole else 1)


LOWERINGS.add(
    Lowering(
        "MIRROR_PAD",
        "mirror_pad",
        _refuses_mirror,
        _lower_mirror,
        strided_inputs=True,
        strided_output=True,
    )
)


def _refuses_blocks(op: Op, target: Target) -> str | None:
    if blocks_of(op) is None:
        return "the blocks or their padding are not constant"
    return not_copyable(op.outputs[0])


def _block_offsets(op: Op, context: Context, blocks: Blocks) -> list[AxisOffsets]:
    """One axis for the images, and one per spatial axis, of the side without blocks."""
    to_batch = op.kind == "SPACE_TO_BATCH_ND"
    source, result = operand(op, 0), op.outputs[0]
    plain, batched = (source, result) if to_batch else (result, source)
    own, other = strides_in(context, plain), strides_in(context, batched)
    images = np.arange(plain.static_shape[0])
    axes = [(images * own[0], images * other[0])]
    for axis, block in enumerate(blocks.sizes, start=1):
        size, start = plain.static_shape[axis], blocks.amounts[axis - 1][0]
        count = batched.static_shape[axis] * block if to_batch else size
        position = np.arange(count) if to_batch else np.arange(count) + start
        inside = position - start
        plain_offset = np.where((inside >= 0) & (inside < size), inside * own[axis], _FILL)
        image = position % block * prod(blocks.sizes[axis:]) * plain.static_shape[0]
        axes.append((plain_offset, position // block * other[axis] + image * other[0]))
    return [AxisOffsets(*(pair if to_batch else pair[::-1])) for pair in axes]


def _lower_blocks(op: Op, context: Context) -> None:
    blocks = blocks_of(op)
    assert blocks is not None
    axes = _block_offsets(op, context, blocks)
    copy_indirect(op, context, axes, op.outputs[0].static_shape[-1])


for _kind in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
    LOWERINGS.add(
        Lowering(
            _kind,
            _kind.lower(),
            _refuses_blocks,
            _lower_blocks,
            strided_inputs=True,
            strided_output=True,
        )
    )
