"""Copies by tables of offsets: pads by elements of edges, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

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
from circlet.ops.onnx.movement import pad_amounts
from circlet.ops.onnx.record import attributes
from circlet.ops.operands import operand
from circlet.ops.repeat import MirrorPadAttrs
from circlet.target.targets import Target

_AXES = 6
_FILL = -1
_Mode = Literal["edge", "reflect", "symmetric", "wrap"]
_ONNX_MODES: tuple[_Mode, ...] = ("edge", "reflect", "wrap")


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


def _runs(table: np.ndarray, run_bytes: int) -> np.ndarray:
    """Neighbouring entries that move, or fill, one run of bytes as one: with each run's bytes."""
    source, result = table[:, 0], table[:, 1]
    is_next = np.diff(result) == run_bytes
    is_next &= np.where(source[1:] < 0, source[:-1] < 0, np.diff(source) == run_bytes)
    is_next &= (source[:-1] < 0) == (source[1:] < 0)
    starts = np.flatnonzero(np.concatenate([[True], ~is_next]))
    counts = np.diff(np.append(starts, len(table)))
    return np.column_stack([table[starts], counts * run_bytes])


def copy_indirect(op: Op, context: Context, axes: list[AxisOffsets], run: int) -> None:
    """Move or fill runs of `run` elements at every combination of the axes' positions."""
    source, result = operand(op, 0), op.outputs[0]
    size = element_bytes(result)
    tables = [_scaled(axis.table, size) for axis in axes]
    unmoved = np.zeros((1, 2), np.int64)
    tables = [unmoved] * (_AXES - len(tables)) + tables
    line_bytes = len(tables[-1]) * run * size
    tables[-1] = _runs(tables[-1], run * size)
    sizes = [len(table) for table in tables]
    fields, tasks = row_tasks(prod(sizes[:-1]), line_bytes)
    params: dict[str, ParamValue] = {
        **fields,
        "pattern": fill_pattern(result, pad_value(op)),
        "sizes": outer_fields(tuple(sizes), _AXES),
        "first": [sum(sizes[:axis]) for axis in range(_AXES)],
    }
    operands = (
        source_ref(context, source),
        TensorRef(result),
        context.constant(np.concatenate([table.reshape(-1) for table in tables])),
    )
    kernel = Kernel("copy.h", "copy_indirect")
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _refuses_mirror(op: Op, target: Target) -> str | None:
    if paddings(op) is None:
        return "the paddings are not constant"
    return not_copyable(op.outputs[0])


def _lower_edges(op: Op, context: Context, amounts: Sequence[tuple[int, int]], mode: _Mode) -> None:
    """Pad every axis by its own elements, in the order of a mode of `numpy.pad`, or cut it."""
    source, result = operand(op, 0), op.outputs[0]
    own, target = strides_in(context, source), strides_in(context, result)
    shape = result.static_shape
    whole = bool(shape) and tuple(amounts[-1]) == (0, 0)
    axes = []
    for axis in range(len(shape) - whole):
        (before, behind), size = amounts[axis], source.static_shape[axis]
        kept = np.arange(max(0, -before), size - max(0, -behind))
        taken = np.pad(kept, (max(0, before), max(0, behind)), mode)
        axes.append(AxisOffsets(taken * own[axis], np.arange(shape[axis]) * target[axis]))
    copy_indirect(op, context, axes, shape[-1] if whole else 1)


def _lower_mirror(op: Op, context: Context) -> None:
    is_symmetric = op.attributes(MirrorPadAttrs).mode == "SYMMETRIC"
    _lower_edges(op, context, paddings(op) or (), "symmetric" if is_symmetric else "reflect")


def _onnx_amounts(op: Op) -> list[tuple[int, int]] | None:
    """What an ONNX Pad adds to each axis; None where a run computes it."""
    pads, axes = op.input(1), op.input(3)
    if any(tensor is not None and not tensor.is_constant for tensor in (pads, axes)):
        return None
    known = [None if tensor is None else tensor.data for tensor in (pads, axes)]
    table = pad_amounts(attributes(op), len(operand(op, 0).static_shape), *known)
    return [(int(before), int(after)) for before, after in table]


def _refuses_onnx(op: Op, target: Target) -> str | None:
    amounts, mode = _onnx_amounts(op), attributes(op).get("mode", "constant")
    if amounts is None:
        return "the paddings are not constant"
    if mode not in _ONNX_MODES:
        return f"{mode} is no mode of elements of the edges"
    return not_copyable(op.outputs[0]) or not_copyable(operand(op, 0))


def _lower_onnx(op: Op, context: Context) -> None:
    _lower_edges(op, context, _onnx_amounts(op) or [], attributes(op).get("mode"))


for _kind, _refuses, _lower in (
    ("MIRROR_PAD", _refuses_mirror, _lower_mirror),
    ("CUSTOM:onnx.Pad", _refuses_onnx, _lower_onnx),
):
    LOWERINGS.add(
        Lowering(
            _kind,
            "pad_edges",
            _refuses,
            _lower,
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
