"""What moves elements: sizes, orders of axes, parts put together and around."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.formats.onnx.writing import Written, writes
from circlet.formats.onnx.written_graph import (
    NotWrittenError,
    Value,
    channels_first,
    identity,
    is_quantised,
)
from circlet.ir import DType, Tensor
from circlet.ops.blocks import DepthAttrs
from circlet.ops.facts import ShapeAttrs
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.operands import known_ints
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.shape import ReshapeAttrs
from circlet.ops.split import PackAttrs

_PADDED_TYPES = frozenset((DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.INT64))


@writes("RESHAPE")
def _reshape(op: Written) -> None:
    data, result = op[0], op.result
    source = op.graph.row_major(data)
    if data.dtype is DType.COMPLEX64:
        op.give_stored(op.reshape(source, [*op.sizes(result), 2]))
        return
    if result.has_rank and None not in result.shape:
        op.give_stored(op.reshape(source, result.static_shape))
        return
    known = known_ints(op.op.input(1)) or op.attrs(ReshapeAttrs).new_shape
    if op.op.input(1) is None or known_ints(op.op.input(1)) is not None:
        op.give_stored(op.reshape(source, known))
        return
    op.give_stored(op.node("Reshape", [source, op.whole(op[1])], allowzero=1))


@writes("EXPAND_DIMS", "SQUEEZE")
def _ones(op: Written) -> None:
    data, result = op[0], op.result
    source = op.graph.row_major(data)
    if result.has_rank and None not in result.shape:
        op.give_stored(op.reshape(source, result.static_shape))
    elif op.op.kind == "EXPAND_DIMS":
        axes = op.axes(op.known(1, "axes"), len(data.shape) + 1)
        op.give_stored(op.node("Unsqueeze", [op.value(data), op.ints(axes)]))
    else:
        from circlet.ops.shape import SqueezeAttrs

        axes = op.axes(op.attrs(SqueezeAttrs).squeeze_dims, len(data.shape))
        given = [op.value(data), *([op.ints(axes)] if axes else [])]
        op.give_stored(op.node("Squeeze", given))


@writes("TRANSPOSE")
def _transpose(op: Written) -> None:
    """No node: the result is the operand in another order."""
    op.graph.alias(op[0], op.result, op.known(1, "axes"))


@writes("CONCATENATION")
def _concatenation(op: Written) -> None:
    attrs, operands = op.attrs(ConcatenationAttrs), op.inputs
    order = op.order(operands)
    (axis,) = op.axes([attrs.axis], len(op.result.shape))
    same = attrs.activation == "NONE" and all(_is_stored_as(t, op.result) for t in operands)
    values = [(op.value if same else op.real)(tensor, order) for tensor in operands]
    made = op.node("Concat", values, axis=order.index(axis))
    if same:
        op.give_stored(made, order)
    else:
        op.finish(made, attrs.activation, order)


def _is_stored_as(tensor: Tensor, other: Tensor) -> bool:
    """Whether stored values mean the same for both."""
    if not is_quantised(other) or other.quant is None:
        return not is_quantised(tensor)
    return other.quant.same_as(tensor.quant)


@writes("PACK")
def _pack(op: Written) -> None:
    (axis,) = op.axes([op.attrs(PackAttrs).axis], len(op.result.shape))
    same = all(_is_stored_as(tensor, op.result) for tensor in op.inputs)
    values = [(op.value if same else op.real)(tensor) for tensor in op.inputs]
    parts = [op.node("Unsqueeze", [value, op.ints([axis])]) for value in values]
    (op.give_stored if same else op.give)(op.node("Concat", parts, axis=axis))


def _zero_of(tensor: Tensor) -> np.ndarray:
    zero = (
        int(tensor.quant.zero_point.reshape(-1)[0]) if is_quantised(tensor) and tensor.quant else 0
    )
    return np.array(zero, tensor.dtype.numpy)


@writes("PAD", "PADV2")
def _pad(op: Written) -> None:
    data = op[0]
    is_stored = data.dtype in _PADDED_TYPES
    border = op[2] if op.op.kind == "PADV2" else None
    if border is not None and is_quantised(data) and not _is_stored_as(border, data):
        is_stored = False
    get, zero = (op.value, _zero_of(data)) if is_stored else (op.real, np.zeros((), np.float32))
    if data.dtype is DType.BOOL:
        raise NotWrittenError("BOOL is not padded")
    fill = op.constant(zero) if border is None else op.reshape(get(border), [])
    amounts = op.op.input(1)
    assert amounts is not None
    if known_ints(amounts) is None:
        flat = op.reshape(op.node("Transpose", [op.whole(amounts)], perm=[1, 0]), [-1])
        made, order = op.node("Pad", [get(data), flat, fill], mode="constant"), None
    else:
        order = op.order([data])
        pads = _pads(op.known(1, "paddings"), order)
        made = op.node("Pad", [get(data, order), op.ints(pads), fill], mode="constant")
    (op.give_stored if is_stored else op.give)(made, order)


def _pads(amounts: Sequence[int], order: Sequence[int]) -> list[int]:
    pairs = [(amounts[2 * axis], amounts[2 * axis + 1]) for axis in order]
    return [before for before, _ in pairs] + [after for _, after in pairs]


@writes("MIRROR_PAD")
def _mirror_pad(op: Written) -> None:
    """Rows that repeat the border are picked by their places; ONNX only mirrors without it."""
    data, order = op[0], op.order([op[0]])
    amounts = op.known(1, "paddings")
    if op.attrs(MirrorPadAttrs).mode == "REFLECT" and data.dtype in _PADDED_TYPES:
        pads = op.ints(_pads(amounts, order))
        op.give_stored(op.node("Pad", [op.value(data, order), pads], mode="reflect"), order)
        return
    kind = "reflect" if op.attrs(MirrorPadAttrs).mode == "REFLECT" else "symmetric"
    value = op.value(data, order)
    for axis, size in enumerate(op.sizes(data)):
        pair = (amounts[2 * axis], amounts[2 * axis + 1])
        if any(pair):
            places = np.pad(np.arange(size), pair, kind)  # type: ignore[call-overload]
            value = op.node("Gather", [value, op.ints(places)], axis=order.index(axis))
    op.give_stored(value, order)


@writes("TILE")
def _tile(op: Written) -> None:
    op.give_stored(op.node("Tile", [op.value(op[0]), op.whole(op[1])]))


@writes("BROADCAST_TO")
def _broadcast_to(op: Written) -> None:
    op.give_stored(op.node("Expand", [op.value(op[0]), op.whole(op[1])]))


@writes("BROADCAST_ARGS")
def _broadcast_args(op: Written) -> None:
    """Sizes that both fit: the other's where one has 1, or none."""
    lists = [op.value(op[0]), op.value(op[1])]
    counts = [op.sizes(tensor)[0] for tensor in (op[0], op[1])]
    dtype = op.result.dtype.numpy
    for index, count in enumerate(counts):
        if count < max(counts):
            ones = op.constant(np.ones(max(counts) - count), dtype)
            lists[index] = op.node("Concat", [ones, lists[index]], axis=0)
    is_one = op.node("Equal", [lists[0], op.constant(1, dtype)])
    op.give_stored(op.node("Where", [is_one, lists[1], lists[0]]))


@writes("FILL")
def _fill(op: Written) -> None:
    op.give_stored(op.node("Expand", [op.value(op[1]), op.whole(op[0])]))


@writes("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _blocks(op: Written) -> None:
    kind = "SpaceToDepth" if op.op.kind == "SPACE_TO_DEPTH" else "DepthToSpace"
    order, size = channels_first(4), op.attrs(DepthAttrs).block_size
    if op.result.dtype is DType.FLOAT32 or is_quantised(op.result):
        op.give(op.node(kind, [op.real(op[0], order)], blocksize=size), order)
        return
    number, rows, columns, depth = op.sizes(op[0])
    if kind == "SpaceToDepth":
        cut = [number, rows // size, size, columns // size, size, depth]
    else:
        cut = [number, rows, columns, size, size, depth // size**2]
    perm = [0, 1, 3, 2, 4, 5]
    made = op.node("Transpose", [op.reshape(op.value(op[0]), cut)], perm=perm)
    op.give_stored(op.reshape(made, op.sizes(op.result)))


@writes("SPACE_TO_BATCH_ND")
def _space_to_batch(op: Written) -> None:
    """Padded, cut into blocks, whose places go in front."""
    data, blocks = op[0], op.known(1, "sizes of blocks")
    amounts, count = op.known(2, "paddings"), len(blocks)
    pairs = [(0, 0), *zip(amounts[::2], amounts[1::2], strict=True)]
    pairs += [(0, 0)] * (len(data.shape) - len(pairs))
    pads = op.ints([before for before, _ in pairs] + [after for _, after in pairs])
    is_stored = data.dtype in _PADDED_TYPES
    value = op.value(data) if is_stored else op.real(data)
    if any(map(any, pairs)):
        fill = op.constant(_zero_of(data) if is_stored else np.float32(0))
        value = op.node("Pad", [value, pads, fill], mode="constant")
    sizes = [s + a + b for s, (a, b) in zip(op.sizes(data), pairs, strict=True)]
    spatial, rest = sizes[1 : count + 1], sizes[count + 1 :]
    cut = [x for s, b in zip(spatial, blocks, strict=True) for x in (s // b, b)]
    value = op.reshape(value, [sizes[0], *cut, *rest])
    places, parts = [2 + 2 * i for i in range(count)], [1 + 2 * i for i in range(count)]
    others = range(2 * count + 1, 2 * count + 1 + len(rest))
    value = op.node("Transpose", [value], perm=[*places, 0, *parts, *others])
    made = op.reshape(value, op.sizes(op.result))
    (op.give_stored if is_stored else op.give)(made)


@writes("BATCH_TO_SPACE_ND")
def _batch_to_space(op: Written) -> None:
    """Blocks from the front back to their places, less what is cropped."""
    data, blocks = op[0], op.known(1, "sizes of blocks")
    crops, count = op.known(2, "crops"), len(blocks)
    sizes = op.sizes(data)
    batch = sizes[0] // prod(blocks)
    value = op.reshape(op.value(data), [*blocks, batch, *sizes[1:]])
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    others = range(2 * count + 1, count + len(sizes))
    value = op.node("Transpose", [value], perm=[count, *pairs, *others])
    whole = [s * b for s, b in zip(sizes[1:], blocks, strict=False)]
    value = op.reshape(value, [batch, *whole, *sizes[count + 1 :]])
    if any(crops):
        starts = op.ints(crops[::2])
        ends = op.ints([n - after for n, after in zip(whole, crops[1::2], strict=True)])
        value = op.node("Slice", [value, starts, ends, op.ints(range(1, count + 1))])
    op.give_stored(value)


@writes("SHAPE")
def _shape(op: Written) -> None:
    data = op[0]
    made: Value = op.node("Shape", [op.value(data)])
    op.give_stored(_as(op, made, DType(op.attrs(ShapeAttrs).out_type)))


def _as(op: Written, value: Value, dtype: DType) -> Value:
    return value if dtype is DType.INT64 else op.cast(value, dtype)


@writes("RANK")
def _rank(op: Written) -> None:
    if not op[0].has_rank:
        raise NotWrittenError("the number of dimensions is open")
    op.give_stored(op.constant(len(op[0].shape), op.result.dtype.numpy), identity(0))


@writes("RANGE")
def _range(op: Written) -> None:
    scalars = [
        op.value(t) if not t.shape else op.reshape(op.value(t), []) for t in (op[0], op[1], op[2])
    ]
    op.give_stored(op.node("Range", scalars))
