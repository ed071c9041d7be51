"""Operations that move elements: sizes, slices, joins, paddings, transpositions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from circlet.formats.nnapi.call import Call, NotLoweredError
from circlet.formats.nnapi.operations.scales import requantised
from circlet.formats.nnapi.table import lowers
from circlet.ir import Shape, Tensor
from circlet.ops.layout import ConcatenationAttrs
from circlet.ops.quantize import CastAttrs
from circlet.ops.repeat import MirrorPadAttrs
from circlet.ops.shape import ReshapeAttrs, SqueezeAttrs
from circlet.ops.split import PackAttrs, SplitAttrs, UnpackAttrs
from circlet.ops.strided_slice import StridedSliceAttrs
from circlet.words import counted


@lowers("RESHAPE")
def _reshape(call: Call) -> None:
    call.result("RESHAPE", [call[0], as_list(call, call[1])], ReshapeAttrs())


@lowers("SQUEEZE")
def _squeeze(call: Call) -> None:
    """Every axis of size 1 goes where none are named; of a run, what is declared says which."""
    given, declared = call.optional(1), call.output().shape
    if given is not None and given.data is None and declared and None not in declared:
        sizes = tuple(size or 0 for size in declared)
        call.result("RESHAPE", [call[0], call.const(sizes, "i4")], ReshapeAttrs(sizes))
        return
    axes = call.wholes(1) if call.optional(1) else ()
    never_scalar(call, "SQUEEZE", [call[0]], SqueezeAttrs(axes))


@lowers("EXPAND_DIMS")
def _expand_dims(call: Call) -> None:
    call.result("EXPAND_DIMS", [call[0], call[1]])


@lowers("TRANSPOSE")
def _transpose(call: Call) -> None:
    """Axes are reversed where no order is given."""
    order = call.optional(1)
    if order is None or order.static_shape == (0,):
        order = call.const(list(reversed(range(_rank(call, call[0])))), "i4")
    call.result("TRANSPOSE", [call[0], as_list(call, order)])


@lowers("SLICE", "TILE")
def _with_lists(call: Call) -> None:
    lists = [as_list(call, call[index]) for index in range(1, len(call))]
    call.result(call.kind, [call[0], *lists])


@lowers("STRIDED_SLICE")
def _strided_slice(call: Call) -> None:
    begin, end, shrink = (call.whole(index) for index in (4, 5, 6))
    attrs = StridedSliceAttrs(begin, end, shrink_axis_mask=shrink)
    lists = [as_list(call, call[index]) for index in (1, 2, 3)]
    never_scalar(call, "STRIDED_SLICE", [call[0], *lists], attrs)


@lowers("PAD")
def _pad(call: Call) -> None:
    call.result("PAD", [call[0], call[1]])


@lowers("PAD_V2")
def _pad_with(call: Call) -> None:
    """The element is an INT32 for a quantised input, as it is stored."""
    value, data = call[2], call[0]
    if value.dtype is not data.dtype:
        value = _stored_as(call, value, data)
    call.result("PADV2", [data, call[1], value])


def _stored_as(call: Call, value: Tensor, data: Tensor) -> Tensor:
    if value.data is None:
        attrs = CastAttrs(value.dtype.name, data.dtype.name)
        return call.op("CAST", [value], attrs, data.dtype, data.quant)
    stored = call.const(value.data.astype(data.dtype.numpy))
    stored.quant = data.quant
    return stored


@lowers("CONCATENATION")
def _concatenation(call: Call) -> None:
    """The axis comes last; each part is brought to the scale of the result."""
    scale = call.output().quant
    parts = [requantised(call, call[index], scale) for index in range(len(call) - 1)]
    call.result("CONCATENATION", parts, ConcatenationAttrs(call.whole(len(call) - 1)))


def _check_parts(call: Call, count: int) -> None:
    if count != len(call.outputs):
        has = counted(len(call.outputs), "output")
        raise call.wrong(f"it splits into {counted(count, 'part')} and has {has}")


@lowers("SPLIT", "SPLIT_EX")
def _split(call: Call) -> None:
    count = call.whole(2)
    _check_parts(call, count)
    call.many("SPLIT", [call[1], call[0]], _outputs(call), SplitAttrs(count))


@lowers("SPLIT_V_EX")
def _split_unevenly(call: Call) -> None:
    count = call.whole(3)
    _check_parts(call, count)
    sizes, axis = _declared_sizes(call) or (as_list(call, call[1]), call[2])
    call.many("SPLIT_V", [call[0], sizes, axis], _outputs(call), SplitAttrs(count))


def _declared_sizes(call: Call) -> tuple[Tensor, Tensor] | None:
    """Sizes and axis as the outputs declare them, which are what counts, as in ONE.

    None where these do not say along which one axis they differ from the input.
    """
    whole, parts = call[0].shape, [tensor.shape for tensor in _outputs(call)]
    if None in whole or any(len(part) != len(whole) or None in part for part in parts):
        return None
    axes = [axis for axis in range(len(whole)) if _splits(whole, parts, axis)]
    if len(axes) != 1:
        return None
    sizes = [part[axes[0]] or 0 for part in parts]
    return call.const(sizes, "i4"), call.const(axes[0], "i4")


def _splits(whole: Shape, parts: Sequence[Shape], axis: int) -> bool:
    total = sum(part[axis] or 0 for part in parts)
    rest = whole[:axis] + whole[axis + 1 :]
    return total == whole[axis] and all(part[:axis] + part[axis + 1 :] == rest for part in parts)


@lowers("PACK_EX")
def _pack(call: Call) -> None:
    """The count and the axis come behind the parts."""
    parts = [call[index] for index in range(len(call) - 2)]
    attrs = PackAttrs(call.whole(len(call) - 2), call.whole(len(call) - 1))
    call.result("PACK", parts, attrs)


@lowers("PACK")
def _pack_along(call: Call) -> None:
    """The axis comes first."""
    parts = [call[index] for index in range(1, len(call))]
    call.result("PACK", parts, PackAttrs(len(parts), call.whole(0)))


@lowers("MIRROR_PAD")
def _mirror_pad(call: Call) -> None:
    mode = call.whole(2)
    if mode not in (0, 1):
        raise call.wrong("a way of mirroring is unknown", f"mode {mode}")
    modes = ("REFLECT", "SYMMETRIC")
    call.result("MIRROR_PAD", [call[0], call[1]], MirrorPadAttrs(modes[mode]))


@lowers("UNPACK_EX")
def _unpack(call: Call) -> None:
    call.many("UNPACK", [call[0]], _outputs(call), UnpackAttrs(call.whole(1), call.whole(2)))


@lowers("REVERSE", "REVERSE_EX")
def _reverse(call: Call) -> None:
    call.result("REVERSE_V2", [call[0], as_list(call, call[1])])


@lowers("BROADCAST_TO_EX")
def _broadcast(call: Call) -> None:
    call.result("BROADCAST_TO", [call[0], as_list(call, call[1])])


def never_scalar(
    call: Call,
    kind: str,
    inputs: Sequence[Tensor | None],
    attrs: object = None,
    **changes: Any,
) -> None:
    """As `Call.result`, but a scalar gets one dimension: there are no tensors without."""
    like = call.output()
    if like.has_rank and like.shape != (1,):
        call.result(kind, inputs, attrs, **changes)
        return
    made = call.op(kind, inputs, attrs, like.dtype, like.quant, **changes)
    if made.has_rank and not made.shape:
        call.result("RESHAPE", [made, call.const([1], "i4")], ReshapeAttrs((1,)))
        return
    call.ops.pop()
    call.result(kind, inputs, attrs, **changes)


def as_list(call: Call, tensor: Tensor) -> Tensor:
    """A scalar, or what may be one, as a list; others as they are."""
    if tensor.has_rank and tensor.shape:
        return tensor
    return call.op("RESHAPE", [tensor, call.const([-1], "i4")], ReshapeAttrs((-1,)))


def as_scalar(call: Call, tensor: Tensor) -> Tensor:
    """A tensor of one element as a scalar."""
    if tensor.has_rank and not tensor.shape:
        return tensor
    return call.op("RESHAPE", [tensor, call.const([], "i4")], ReshapeAttrs())


def _outputs(call: Call) -> Sequence[Tensor]:
    return [call.output(index) for index in range(len(call.outputs))]


def _rank(call: Call, tensor: Tensor) -> int:
    if not tensor.has_rank:
        raise NotLoweredError(f"the number of dimensions of {tensor.name} is not known")
    return len(tensor.shape)
