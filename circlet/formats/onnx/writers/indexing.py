"""Elements by their places, and places of elements."""

from __future__ import annotations

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import NotWrittenError, Value, is_quantised
from circlet.ir import DType, Tensor
from circlet.ops.gather import gather_axes
from circlet.ops.order import CumsumAttrs, OneHotAttrs

_INDICES = (DType.INT32, DType.INT64)
_UNIQUE = (DType.FLOAT32, DType.INT8, DType.INT64)  # what ONNX Runtime has kernels of
_SORTED = (DType.FLOAT32, DType.INT32, DType.INT64)


def _places(op: Written, index: int) -> Value:
    tensor = op[index]
    return op.value(tensor) if tensor.dtype in _INDICES else op.cast(op.value(tensor), DType.INT64)


@writes("GATHER")
def _gather(op: Written) -> None:
    axis, batch = gather_axes(op.op)
    data, indices = op[0], op[1]
    if not batch:
        op.give_stored(op.node("Gather", [op.value(data), _places(op, 1)], axis=axis))
        return
    if axis != batch:
        raise NotWrittenError("it picks behind axes that indices do not share")
    wide = op.node("Unsqueeze", [op.whole(indices), op.ints([-1])])
    op.give_stored(op.node("GatherND", [op.value(data), wide], batch_dims=batch))


@writes("GATHER_ND")
def _gather_nd(op: Written) -> None:
    op.give_stored(op.node("GatherND", [op.value(op[0]), op.whole(op[1])]))


@writes("EMBEDDING_LOOKUP")
def _embedding_lookup(op: Written) -> None:
    table = op[1]
    get = op.value if table.dtype is op.result.dtype else op.real
    op.give_stored(op.node("Gather", [get(table), _places(op, 0)], axis=0))


@writes("ONE_HOT")
def _one_hot(op: Written) -> None:
    dtype = op.result.dtype
    on, off = (op.reshape(op.value(tensor), [1]) for tensor in (op[2], op[3]))
    values = op.node("Concat", [off, on], axis=0)
    if dtype is not DType.FLOAT32:  # ONNX Runtime knows only this type and INT64
        values = op.cast(values, DType.INT64)
    given = [op.whole(op[0]), op.reshape(op.whole(op[1]), []), values]
    made = op.node("OneHot", given, axis=op.attrs(OneHotAttrs).axis)
    wide = dtype in (DType.FLOAT32, DType.INT64)
    op.give_stored(made if wide else op.cast(made, dtype))


@writes("ARG_MAX", "ARG_MIN")
def _arg(op: Written) -> None:
    kind = "ArgMax" if op.op.kind == "ARG_MAX" else "ArgMin"
    (axis,) = op.axes(op.known(1, "axes"), len(op[0].shape))
    made = op.node(kind, [_ordered(op, op[0])], axis=axis, keepdims=0)
    op.give_stored(made if op.result.dtype is DType.INT64 else op.cast(made, op.result.dtype))


def _ordered(op: Written, tensor: Tensor) -> Value:
    """Values whose order is that of the stored ones, in a type that runtimes sort."""
    if is_quantised(tensor) or tensor.dtype in _SORTED:
        return op.real(tensor)
    return op.cast(op.value(tensor), DType.INT32)


@writes("TOPK_V2")
def _top_k(op: Written) -> None:
    count = op.reshape(op.whole(op[1]), [1])
    values, places = op.many("TopK", [_ordered(op, op[0]), count], 2, axis=-1)
    first = op.result
    if is_quantised(first) or first.dtype in _SORTED:
        op.give(values)
    else:
        op.give_stored(op.cast(values, first.dtype))
    op.give_stored(op.cast(places, op.op.outputs[1].dtype), index=1)


@writes("SCATTER_ND")
def _scatter_nd(op: Written) -> None:
    """Updates of one place are added, to zeros."""
    zero = np.zeros(1, op.result.dtype.numpy)
    empty = op.node("ConstantOfShape", [op.whole(op[2])], value=zero)
    given = [empty, op.whole(op[0]), op.value(op[1])]
    op.give_stored(op.node("ScatterND", given, reduction="add"))


@writes("CUMSUM")
def _cumsum(op: Written) -> None:
    attrs = op.attrs(CumsumAttrs)
    axis = op.reshape(op.whole(op[1]), [])
    exclusive, reverse = int(attrs.exclusive), int(attrs.reverse)
    op.give(op.node("CumSum", [op.real(op[0]), axis], exclusive=exclusive, reverse=reverse))


@writes("WHERE")
def _where(op: Written) -> None:
    places = op.node("NonZero", [op.value(op[0])])
    op.give_stored(op.node("Transpose", [places], perm=[1, 0]))


@writes("UNIQUE")
def _unique(op: Written) -> None:
    kind, dtype = op.result.dtype, op.op.outputs[1].dtype
    given = op.value(op[0])
    if kind not in _UNIQUE:
        given = op.cast(given, DType.INT64)
    values, _, places = op.many("Unique", [given], 3, sorted=0)
    op.give_stored(values if kind in _UNIQUE else op.cast(values, kind))
    op.give_stored(places if dtype is DType.INT64 else op.cast(places, dtype), index=1)


@writes("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(op: Written) -> None:
    """The places of the update, moved to where it starts, which is kept inside."""
    whole, part = op.sizes(op[0]), op.sizes(op[1])
    most = op.ints([a - b for a, b in zip(whole, part, strict=True)])
    start = op.node("Min", [op.node("Max", [op.whole(op[2]), op.ints(0)]), most])
    grid = op.ints(np.moveaxis(np.indices(part), 0, -1))
    given = [op.value(op[0]), op.node("Add", [grid, start]), op.value(op[1])]
    op.give_stored(op.node("ScatterND", given))


@writes("MATRIX_DIAG", "MATRIX_SET_DIAG")
def _matrix_diag(op: Written) -> None:
    rows, columns = op.sizes(op.result)[-2:]
    flags = op.constant(np.eye(rows, columns, dtype=np.bool_))
    if op.op.kind == "MATRIX_DIAG":
        line, other = op[0], op.constant(0, op.result.dtype.numpy)
    else:
        line, other = op[1], op.value(op[0])
    value = op.value(line)
    if rows > columns:
        raise NotWrittenError("its diagonals are shorter than its rows are many")
    wide = op.node("Unsqueeze", [value, op.ints([-1])])
    op.give_stored(op.node("Where", [flags, wide, other]))
