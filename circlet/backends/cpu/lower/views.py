"""Operands as loops: strides per axis, merged axes, and the fields of `rows.h` families."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from circlet.backends.cpu.layout import Layout, dense
from circlet.backends.cpu.lowering import ConstantRef, Context, ParamValue, TensorRef
from circlet.ir import Tensor

MAX_AXES = 7
TASK_BYTES = 1 << 15  # Much longer than claiming a task takes, and still in a first-level cache.
_LINE = 64  # Elements: tasks start where vectors of every width do.

Sizes = tuple[int, ...]


class Loops(NamedTuple):
    """Sizes of nested loops, outermost first, and each operand's stride along each of them."""

    sizes: Sizes
    strides: tuple[Sizes, ...]

    def scaled(self, *factors: int) -> Loops:
        """Each operand's strides times its factor."""
        rows = zip(self.strides, factors, strict=True)
        return Loops(self.sizes, tuple(tuple(s * factor for s in row) for row, factor in rows))


def layout_of(context: Context, tensor: Tensor) -> Layout:
    """A tensor's layout; constants are dense."""
    return dense(tensor) if tensor.is_constant else context.layout(tensor)


def image_strides(prefix: str, layout: Layout, size: int = 1) -> dict[str, ParamValue]:
    """The fields of `strides.h` of an image, times the bytes of an element where it wants bytes."""
    return {
        f"{prefix}_batch": layout.batch_stride * size,
        f"{prefix}_row": layout.row_stride * size,
        f"{prefix}_pixel": layout.pixel_stride * size,
    }


def source_ref(context: Context, tensor: Tensor) -> TensorRef | ConstantRef:
    """The address of an input; a constant is placed among the packed constants."""
    if tensor.data is None:
        return TensorRef(tensor)
    return context.stored(tensor)


def strides_of(tensor: Tensor, layout: Layout) -> Sizes:
    """Elements between neighbours along each axis of the tensor's own shape."""
    shape = tensor.static_shape
    if len(shape) == 4:
        return layout.batch_stride, layout.row_stride, layout.pixel_stride, 1
    outer = [layout.pixel_stride * prod(shape[i + 1 : -1]) for i in range(len(shape) - 1)]
    return (*outer, 1) if shape else ()


def broadcast_strides(strides: Sizes, sizes: Sizes, target: Sizes) -> Sizes:
    """Strides of an operand that is broadcast to `target`: 0 along the axes it lacks."""
    lacking = len(target) - len(sizes)
    own = (0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True))
    return (0,) * lacking + tuple(own)


def merged(loops: Loops) -> Loops:
    """The same iteration space in as few loops as possible, at least one."""
    # Two neighbouring axes are one where in every operand a step of the outer one is as long as the
    # whole inner one; axes of size 1 have no steps. Few long loops leave most elements to vectors.
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in loops.strides]
    for axis, size in enumerate(loops.sizes):
        if size == 1:
            continue
        steps = [row[axis] for row in loops.strides]
        if sizes and all(row[-1] == s * size for row, s in zip(strides, steps, strict=True)):
            sizes[-1] *= size
            for row, step in zip(strides, steps, strict=True):
                row[-1] = step
            continue
        sizes.append(size)
        for row, step in zip(strides, steps, strict=True):
            row.append(step)
    if not sizes:
        return Loops((1,), tuple((1,) for _ in strides))
    return Loops(tuple(sizes), tuple(tuple(row) for row in strides))


def with_inner(loops: Loops, allowed: Sequence[int]) -> Loops:
    """The loops with an innermost one whose strides are all allowed: a loop of 1 if need be."""
    if all(row[-1] in allowed for row in loops.strides):
        return loops
    return Loops((*loops.sizes, 1), tuple((*row, 1) for row in loops.strides))


def element_loops(context: Context, tensors: Sequence[Tensor], shape: Sizes) -> Loops:
    """Merged loops over `shape` for operands that broadcast to it; inner strides are 0 or 1."""
    strides = tuple(
        broadcast_strides(
            strides_of(tensor, layout_of(context, tensor)), tensor.static_shape, shape
        )
        for tensor in tensors
    )
    return with_inner(merged(Loops(shape, strides)), (0, 1))


def outer_fields(sizes: Sizes, count: int) -> list[int]:
    """Outer sizes in the last entries of a parameter array, 1 before them."""
    return [1] * (count - len(sizes)) + list(sizes)


def stride_fields(strides: Sizes) -> list[int]:
    """Strides in the last entries of a parameter array, 0 before them."""
    return [0] * (MAX_AXES - len(strides)) + list(strides)


def row_tasks(rows: int, row_bytes: int) -> tuple[dict[str, ParamValue], int]:
    """The fields of kernels whose tasks are whole rows, and the number of tasks."""
    per_task = max(1, TASK_BYTES // max(1, row_bytes))
    return {"rows": rows, "rows_per_task": per_task}, -(-rows // per_task)


def row_fields(sizes: Sizes, inner_bytes: int) -> tuple[dict[str, ParamValue], int]:
    """The fields of `struct row_loops`, which cut loops into tasks, and the number of tasks.

    `inner_bytes` is the work of one element of the inner loop.
    """
    rows, inner = prod(sizes[:-1]), sizes[-1]
    task = max(_LINE, TASK_BYTES // inner_bytes // _LINE * _LINE)
    chunk = task if inner > 2 * task else inner  # rows of up to two tasks are not cut
    rows_per_task = 1 if chunk < inner else max(1, task // inner)
    fields: dict[str, ParamValue] = {
        "rows_count": rows,
        "rows_per_task": rows_per_task,
        "rows_inner": inner,
        "rows_chunk": chunk,
        "rows_sizes": outer_fields(sizes[:-1], MAX_AXES - 1),
    }
    return fields, -(-rows // rows_per_task) * -(-inner // chunk)
