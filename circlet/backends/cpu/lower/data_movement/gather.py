"""Ops that read or write where indices point, which may be computed at run time."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from circlet.backends.cpu.lower.copy import copy_loops, element_bytes, not_copyable
from circlet.backends.cpu.lower.data_movement.slices import copy_from
from circlet.backends.cpu.lower.views import (
    TASK_BYTES,
    Loops,
    Sizes,
    outer_fields,
    row_tasks,
    source_ref,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    TensorRef,
)
from circlet.ir import DType, Op, Tensor
from circlet.ops.gather import gather_axes, is_hybrid_lookup, row_scales
from circlet.ops.operands import known_ints, operand
from circlet.ops.order import one_hot_axis
from circlet.ops.segments import JOINS, start_of
from circlet.ops.strided_slice import moving_axis
from circlet.target.targets import Target

_AXES = 6
_LEAST_COLUMNS = 64


def _dense_strides(shape: Sizes) -> Sizes:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _leading(values: Sizes) -> list[int]:
    """Values in the leading entries of a parameter array, 1 behind them."""
    return [*values, *(1,) * (_AXES - len(values))]


def _not_movable(op: Op) -> str | None:
    tensors = (*(t for t in op.inputs if t is not None), *op.outputs)
    return next((reason for t in tensors if (reason := not_copyable(t))), None)


def _add(
    kind: str, lower: Callable[[Op, Context], None], refuses: Callable[[Op], str | None]
) -> None:
    def refuse(op: Op, target: Target) -> str | None:
        return refuses(op) or _not_movable(op)

    LOWERINGS.add(Lowering(kind, kind.lower(), refuse, lower))


def _gather(
    op: Op,
    context: Context,
    tensors: tuple[Tensor, Tensor],
    outer: tuple[int, int, int],
    indexed: tuple[Sizes, Sizes],
) -> None:
    """Emit the kernel.

    `tensors` are the data and the indices, `outer` how many outer positions there are, how many of
    them share indices, and how many elements one is long; `indexed` sizes and strides, in elements,
    of the axes that an index vector names.
    """
    (data, indices), (sizes, strides), result = tensors, indexed, op.outputs[0]
    size, (positions, shared, length) = element_bytes(data), outer
    count = indices.elements // len(sizes) * shared // positions
    run = result.elements // (positions * count)
    fields, tasks = row_tasks(positions * count, run * size)
    params: dict[str, ParamValue] = {
        **fields,
        "count": count,
        "shared": shared,
        "depth": len(sizes),
        "run_bytes": run * size,
        "outer_bytes": length * size,
        "sizes": _leading(sizes),
        "strides": _leading(tuple(stride * size for stride in strides)),
    }
    operands = (source_ref(context, data), source_ref(context, indices), TensorRef(result))
    single = size if run == len(sizes) == 1 and size in (1, 2, 4, 8) else 0
    kernel = Kernel("gather.h", "gather", (element_bytes(indices), single))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _lower_gather(op: Op, context: Context) -> None:
    data, indices = operand(op, 0), operand(op, 1)
    axis, batch = gather_axes(op)
    shape = data.static_shape
    outer, run = prod(shape[:axis]), prod(shape[axis + 1 :])
    place = known_ints(indices)
    if place is not None and len(place) == 1:  # a slice, whose runs one loop copies
        loops = Loops((outer, run), ((shape[axis] * run, 1), (run, 1)))
        copy_from(op, context, data, TensorRef(op.outputs[0]), loops, place[0] * run)
        return
    positions = (outer, prod(shape[batch:axis]), shape[axis] * run)
    _gather(op, context, (data, indices), positions, ((shape[axis],), (run,)))


_add("GATHER", _lower_gather, lambda op: None)


def _lower_gather_nd(op: Op, context: Context) -> None:
    data, indices = operand(op, 0), operand(op, 1)
    shape, depth = data.static_shape, indices.static_shape[-1]
    strides = _dense_strides(shape)[:depth]
    _gather(op, context, (data, indices), (1, 1, 0), (shape[:depth], strides))


_add("GATHER_ND", _lower_gather_nd, lambda op: None)


def _lower_embedding_lookup(op: Op, context: Context) -> None:
    ids, table, result = operand(op, 0), operand(op, 1), op.outputs[0]
    rows, run = table.static_shape[0], prod(table.static_shape[1:])
    if not is_hybrid_lookup(op):
        _gather(op, context, (table, ids), (1, 1, 0), ((rows,), (run,)))
        return
    params: dict[str, ParamValue] = {"ids": ids.elements, "rows": rows, "run": run}
    scales = context.constant(row_scales(op, rows))
    operands = (source_ref(context, ids), source_ref(context, table), scales, TensorRef(result))
    kernel = Kernel("gather.h", "embedding_lookup")
    context.call(op, kernel, params, operands, (result,), tasks=ids.elements)


_add("EMBEDDING_LOOKUP", _lower_embedding_lookup, lambda op: None)


def _lower_hashtable(op: Op, context: Context) -> None:
    ids, keys, values = inputs = [operand(op, index) for index in range(3)]
    run_bytes = prod(values.static_shape[1:]) * element_bytes(values)
    params: dict[str, ParamValue] = {"keys": keys.elements, "run_bytes": run_bytes}
    operands = [*(source_ref(context, each) for each in inputs), *map(TensorRef, op.outputs)]
    kernel = Kernel("gather.h", "hashtable_lookup")
    context.call(op, kernel, params, operands, op.outputs, tasks=ids.elements)


_add("HASHTABLE_LOOKUP", _lower_hashtable, lambda op: None)


def _lower_slice_at(op: Op, context: Context) -> None:
    source, starts, result, axis = operand(op, 0), operand(op, 1), op.outputs[0], moving_axis(op)
    assert axis is not None
    shape, size = source.static_shape, element_bytes(source)
    run_bytes = prod(shape[axis + 1 :]) * size
    fields, tasks = row_tasks(prod(shape[:axis]), run_bytes)
    params: dict[str, ParamValue] = {
        **fields,
        "run_bytes": run_bytes,
        "size": shape[axis],
        "position": axis,
    }
    operands = (source_ref(context, source), source_ref(context, starts), TensorRef(result))
    kernel = Kernel("gather.h", "slice_at", (element_bytes(starts),))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _refuses_slice_at(op: Op, target: Target) -> str | None:
    if moving_axis(op) is None:
        return "takes more than one position from a computed start"
    return _not_movable(op)


LOWERINGS.add(
    Lowering("STRIDED_SLICE", "slice_at", _refuses_slice_at, _lower_slice_at, rank=Rank.DENSE)
)


def _refuses_sizes(index: int) -> Callable[[Op], str | None]:
    def refuses(op: Op) -> str | None:
        return "the sizes are not constant" if known_ints(op.input(index)) is None else None

    return refuses


def _lower_scatter_nd(op: Op, context: Context) -> None:
    indices, updates, result = operand(op, 0), operand(op, 1), op.outputs[0]
    shape, depth, size = result.static_shape, indices.static_shape[-1], element_bytes(result)
    params: dict[str, ParamValue] = {
        "rows": indices.elements // depth,
        "depth": depth,
        "run": prod(shape[depth:]),
        "bytes": result.elements * size,
        "sizes": _leading(shape[:depth]),
        "strides": _leading(_dense_strides(shape)[:depth]),
    }
    operands = (source_ref(context, indices), source_ref(context, updates), TensorRef(result))
    kernel = Kernel("gather.h", "scatter_nd", (size, int(result.dtype is DType.FLOAT32)))
    context.call(op, kernel, params, operands, (result,))


_add("SCATTER_ND", _lower_scatter_nd, _refuses_sizes(2))


def _lower_segments(op: Op, context: Context) -> None:
    data, ids, result = operand(op, 0), operand(op, 1), op.outputs[0]
    rows = ids.elements
    run = data.elements // rows
    chunk = max(_LEAST_COLUMNS, TASK_BYTES // (rows * element_bytes(data)))
    params: dict[str, ParamValue] = {
        "rows": rows,
        "run": run,
        "chunk": chunk,
        "segments": result.elements // run,
    }
    start = context.constant(start_of(op))
    operands = (source_ref(context, data), source_ref(context, ids), start, TensorRef(result))
    join = f"SEGMENT_{JOINS[op.kind].name.upper()}"
    kernel = Kernel("gather.h", "segment_reduce", (join, int(data.dtype is DType.FLOAT32)))
    context.call(op, kernel, params, operands, (result,), tasks=-(-run // chunk))


def _refuses_count(op: Op) -> str | None:
    """SEGMENT_SUM's ids, and the others' number of segments, say how many there are."""
    known = known_ints(op.input(1 if op.kind == "SEGMENT_SUM" else 2)) is not None
    return None if known else "how many segments come out is known only when it has run"


for _kind in JOINS:
    _add(_kind, _lower_segments, _refuses_count)


def _lower_sparse(op: Op, context: Context) -> None:
    indices, values, filler, result = (*(operand(op, i) for i in (0, 2, 3)), op.outputs[0])
    shape = result.static_shape
    params: dict[str, ParamValue] = {
        "rows": indices.elements // len(shape),
        "depth": len(shape),
        "elements": result.elements,
        "value_step": int(values.elements > 1),
        "sizes": _leading(shape),
        "strides": _leading(_dense_strides(shape)),
    }
    operands = (*(source_ref(context, t) for t in (indices, values, filler)), TensorRef(result))
    arguments = (element_bytes(indices), element_bytes(result))
    kernel = Kernel("gather.h", "sparse_to_dense", arguments)
    context.call(op, kernel, params, operands, (result,))


_add("SPARSE_TO_DENSE", _lower_sparse, _refuses_sizes(1))


def _lower_update(op: Op, context: Context) -> None:
    data, update, starts = (operand(op, index) for index in range(3))
    result, shape, part = op.outputs[0], op.outputs[0].static_shape, update.static_shape
    if not context.shares(data, result):
        whole = Loops((result.elements,), ((1,), (1,)))
        copy_loops(op, context, source_ref(context, data), TensorRef(result), whole)
    size = element_bytes(result)
    strides = tuple(stride * size for stride in _dense_strides(shape))
    fields, tasks = row_tasks(prod(part[:-1]), part[-1] * size)
    before = [0] * (_AXES - len(shape))
    params: dict[str, ParamValue] = {
        **fields,
        "run_bytes": part[-1] * size,
        "axes": len(shape),
        "last_start": [*before, *(n - m for n, m in zip(shape, part, strict=True))],
        "strides": [*before, *strides],
        "sizes": outer_fields(part[:-1], _AXES),
        "row_strides": [*before, 0, *strides[:-1], 0],
    }
    operands = (source_ref(context, update), source_ref(context, starts), TensorRef(result))
    kernel = Kernel("gather.h", "dynamic_update_slice", (element_bytes(starts),))
    context.call(op, kernel, params, operands, (result,), tasks=tasks)


def _refuses_update(op: Op) -> str | None:
    return None if op.outputs[0].static_shape else "a scalar has no slices"


_add("DYNAMIC_UPDATE_SLICE", _lower_update, _refuses_update)


def _lower_one_hot(op: Op, context: Context) -> None:
    indices, on, off, result = (*(operand(op, i) for i in (0, 2, 3)), op.outputs[0])
    axis = one_hot_axis(op, len(indices.static_shape))
    depth, inner = result.static_shape[axis], prod(result.static_shape[axis + 1 :])
    rows, size = prod(result.static_shape[:axis]), element_bytes(result)
    fields, tasks = row_tasks(rows, depth * inner * size)
    chunk = min(depth, max(1, TASK_BYTES // (inner * size)))
    params: dict[str, ParamValue] = {**fields, "depth": depth, "chunk": chunk, "inner": inner}
    operands = (*(source_ref(context, t) for t in (indices, on, off)), TensorRef(result))
    kernel = Kernel("gather.h", "one_hot", (element_bytes(indices), size))
    context.call(op, kernel, params, operands, (result,), tasks=tasks * -(-depth // chunk))


_add("ONE_HOT", _lower_one_hot, _refuses_sizes(1))
