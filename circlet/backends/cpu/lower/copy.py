"""Copies between layouts, border fills and padding: the calls of `copy.h`."""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.backends.cpu import costs
from circlet.backends.cpu.abi import LINE_BYTES
from circlet.backends.cpu.layout import Layout
from circlet.backends.cpu.lower.views import (
    MAX_AXES,
    TASK_BYTES,
    Loops,
    layout_of,
    merged,
    outer_fields,
    row_fields,
    source_ref,
    stride_fields,
    strides_of,
)
from circlet.backends.cpu.lowering import (
    Context,
    Kernel,
    KernelCall,
    ParamValue,
    Ref,
    TensorRef,
)
from circlet.ir import Op, Tensor
from circlet.ops.operands import QUANTISED, is_affine, zero_of

_COLUMN_BLOCK = 64
_LANES = 16
_PAGE_BYTES = 4096
_WAYS = 8  # lines of a set of a first-level cache
_THROUGH = 2  # for `transpose` of `copy_elements`: through a tile, as copy.h defines it
_TILE_BYTES = 32 * (128 * 4 + LINE_BYTES)
_NEAR_BYTES = 8 << 20  # of source and result, which caches hold: beyond, tiles take longer
_SHORT_RUN = 8  # of rows
_STEPS = (2, 3, 4)  # of elements: more leave too few of a vector to keep


def element_bytes(tensor: Tensor) -> int:
    """Bytes of one element."""
    return tensor.dtype.bits // 8


def not_copyable(tensor: Tensor) -> str | None:
    """Why the copy kernels do not take a tensor, or None."""
    if tensor.dtype.bits not in (8, 16, 32, 64):
        return f"elements of type {tensor.dtype.name} are not whole bytes"
    if len(tensor.static_shape) > MAX_AXES - 1:
        return f"rank {len(tensor.static_shape)} is above {MAX_AXES - 1}"
    return "a size is 0" if tensor.elements == 0 else None


def fill_pattern(tensor: Tensor, value: int | float) -> int:
    """An element repeated to the eight bytes that the fill kernels write."""
    size = element_bytes(tensor)
    if isinstance(value, int) and tensor.dtype.is_integer:
        element = (value & (1 << tensor.dtype.bits) - 1).to_bytes(size, "little")
    else:
        element = np.asarray(value).astype(tensor.dtype.numpy).tobytes()
    return int.from_bytes(element * (8 // size), "little", signed=True)


def zero_value(tensor: Tensor) -> int:
    """The stored form of real zero."""
    return zero_of(tensor) if tensor.dtype in QUANTISED and is_affine(tensor) else 0


def border_fill(op: Op, tensor: Tensor, layout: Layout) -> KernelCall:
    """The step that fills the border around a tensor with stored zeros."""
    size = element_bytes(tensor)
    params: dict[str, ParamValue] = {
        "height": layout.height,
        "image_bytes": layout.batch_stride * size,
        "row_bytes": layout.row_stride * size,
        "first_bytes": layout.offset * size,
        "inner_bytes": layout.width * layout.pixel_stride * size,
        "pattern": fill_pattern(tensor, zero_value(tensor)),
    }
    start = TensorRef(tensor, -layout.offset)
    kernel = Kernel("copy.h", "fill_border")
    gaps = layout.batch * (layout.height + 1)
    return KernelCall(kernel, params, (start,), gaps, 0, (tensor,), op)


def padded_copy(op: Op, tensor: Tensor, copy: Tensor, context: Context) -> None:
    """Copy a tensor into the middle of its bordered copy."""
    copy_loops(
        op, context, source_ref(context, tensor), TensorRef(copy), _pair(context, tensor, copy)
    )


def copy_loops(
    op: Op, context: Context, source: Ref, target: Ref, loops: Loops, size: int = 0
) -> None:
    """Copy elements by loops whose strides count elements of `size` bytes.

    Elements that the compiler placed where they are to go stay there.
    """
    assert isinstance(target, TensorRef)
    if _is_in_place(context, source, target, loops):
        return
    size = size or element_bytes(target.tensor)
    loops = merged(loops)
    is_rows, loops = _inner_is_contiguous(loops), loops.scaled(size, size)
    if is_rows and (wide := _wide_elements(loops, size)):
        is_rows, loops, size = False, *wide
    is_reversed = loops.strides[0][-1] == -size and loops.strides[1][-1] == size
    call = _rows_call if is_rows else _reversed_call if is_reversed else _elements_call
    call(op, context, (source, target), loops, size, target.tensor)


def _wide_elements(loops: Loops, size: int) -> tuple[Loops, int] | None:
    """Loops of bytes whose rows have the size of an element, as a transpose of such elements."""
    row_bytes = loops.sizes[-1] * size
    rows = Loops(loops.sizes[:-1], tuple(row[:-1] for row in loops.strides))
    if row_bytes not in (2, 4, 8) or len(rows.sizes) < 2:
        return None
    source, result = rows.strides
    is_transpose = min(source[:-1]) == result[-1] == row_bytes
    return (rows, row_bytes) if is_transpose else None


def _is_in_place(context: Context, source: Ref, target: TensorRef, loops: Loops) -> bool:
    """Whether each element would be copied onto itself."""
    if not isinstance(source, TensorRef) or not context.shares(source.tensor, target.tensor):
        return False
    # One buffer, one start, and equal steps: every element is where it is to go.
    first, last = (context.layout(ref.tensor).offset + ref.offset for ref in (source, target))
    coalesced = merged(loops)
    return first == last and coalesced.strides[0] == coalesced.strides[1]


def _pair(context: Context, source: Tensor, target: Tensor) -> Loops:
    strides = (
        strides_of(source, layout_of(context, source)),
        strides_of(target, layout_of(context, target)),
    )
    return Loops(target.static_shape, strides)


def _inner_is_contiguous(loops: Loops) -> bool:
    return all(row[-1] == 1 for row in loops.strides)


def _long_axis_last(loops: Loops) -> Loops:
    """Loops whose last one over rows is long: the kernel finds its place anew where that ends."""
    outer = len(loops.sizes) - 1
    long = [axis for axis in range(outer) if loops.sizes[axis] >= _SHORT_RUN]
    if not long or loops.sizes[outer - 1] >= _SHORT_RUN:
        return loops
    order = [axis for axis in range(outer + 1) if axis != long[-1]]
    order.insert(outer - 1, long[-1])
    sizes, *strides = (tuple(row[axis] for axis in order) for row in (loops.sizes, *loops.strides))
    return Loops(sizes, tuple(strides))


def _rows_call(
    op: Op, context: Context, refs: tuple[Ref, Ref], loops: Loops, size: int, written: Tensor
) -> None:
    """Rows of contiguous bytes."""
    loops = _long_axis_last(loops)
    sizes = (*loops.sizes[:-1], loops.sizes[-1] * size)
    params, tasks = row_fields(sizes, 1)
    params["source"], params["result"] = (stride_fields((*row[:-1], 1)) for row in loops.strides)
    context.call(op, Kernel("copy.h", "copy_rows"), params, refs, (written,), tasks=tasks)


def _reversed_call(
    op: Op, context: Context, refs: tuple[Ref, Ref], loops: Loops, size: int, written: Tensor
) -> None:
    """Rows of elements that lie backwards in the source."""
    params, tasks = row_fields(loops.sizes, size)
    params["source"], params["result"] = (stride_fields(row) for row in loops.strides)
    kernel = Kernel("copy.h", "copy_reversed", (size,))
    context.call(op, kernel, params, refs, (written,), tasks=tasks)


def _task_blocks(columns: int, inner: int, size: int) -> tuple[int, int]:
    """Columns and inner elements of a task: about as many elements of each task."""
    elements = TASK_BYTES // size
    column_block = _even_block(columns, max(_COLUMN_BLOCK, elements // inner))
    return column_block, _even_block(inner, max(_COLUMN_BLOCK, elements // column_block))


def _even_block(count: int, limit: int) -> int:
    """Of the fewest blocks of at most about `limit`: their size, in whole registers."""
    if count <= limit:
        return count
    each = -(-count // -(-count // limit))
    return -(-each // _LANES) * _LANES


def _rows_meet(stride: int, rows: int) -> bool:
    """Whether the lines of rows that a task writes are too many for sets of a first-level cache."""
    return costs.most_in_a_set(min(rows, _COLUMN_BLOCK), stride, LINE_BYTES) > _WAYS


def _elements_call(
    op: Op, context: Context, refs: tuple[Ref, Ref], loops: Loops, size: int, written: Tensor
) -> None:
    """Single elements, in tiles of the two axes that are contiguous on one side each."""
    if len(loops.sizes) == 1:
        loops = Loops((1, *loops.sizes), tuple((0, *row) for row in loops.strides))
    # A tile has the result's innermost axis, and the axis along which the source's steps are least:
    # what a cache line holds, of either, is used while it is there.
    source, result = loops.strides
    inner = len(loops.sizes) - 1
    column = min(range(inner), key=lambda axis: source[axis])
    outer = [axis for axis in range(inner) if axis != column]
    sizes = tuple(loops.sizes[axis] for axis in outer)
    columns, count = loops.sizes[column], loops.sizes[inner]
    column_block, inner_block = _task_blocks(columns, count, size)
    params: dict[str, ParamValue] = {
        "rows": prod(sizes),
        "columns": columns,
        "column_block": column_block,
        "inner": count,
        "inner_block": inner_block,
        "sizes": outer_fields(sizes, MAX_AXES - 1),
        "source": stride_fields((*(source[axis] for axis in outer), source[inner])),
        "result": stride_fields((*(result[axis] for axis in outer), result[inner])),
        "column_source": source[column],
        "column_result": result[column],
    }
    tasks = prod(sizes) * -(-columns // column_block) * -(-count // inner_block)
    transpose, scratch = int(source[column] == result[inner] == size), 0
    is_near = 2 * written.elements * size <= _NEAR_BYTES
    is_near = is_near and source[inner] <= _PAGE_BYTES + LINE_BYTES
    has_blocks = transpose and size == 4 and count >= _LANES
    if has_blocks and is_near and _rows_meet(result[column], columns):
        transpose, scratch = _THROUGH, _TILE_BYTES
    is_stepped = result[inner] == size and source[inner] in [size * step for step in _STEPS]
    step = source[inner] // size if is_stepped else 0
    kernel = Kernel("copy.h", "copy_elements", (size, transpose, step))
    context.call(op, kernel, params, refs, (written,), tasks=tasks, scratch_bytes=scratch)
