"""Ops that cut a tensor into parts along an axis, or join equal parts along a new one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    count,
    infer_ranked,
    known_ints,
    operand,
    present,
    when_ranked,
)
from circlet.ops.slicing import ints
from circlet.ops.view import Range, View, view_along
from circlet.words import counted

_MOST_PARTS = 1 << 16


def from_front(axis: int, rank: int) -> int:
    """An axis counted from the front; out of range stays out of range."""
    return axis + rank if axis < 0 else axis


@dataclass(frozen=True)
class SplitAttrs:
    """How many parts a SPLIT or SPLIT_V makes."""

    num_splits: int = 0


@dataclass(frozen=True)
class Parts:
    """Where the outputs of a splitting op start along `axis` of its data, and their sizes."""

    axis: int
    sizes: tuple[int | None, ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """First index of each part; all sizes must be known."""
        return tuple(accumulate((size or 0 for size in self.sizes[:-1]), initial=0))


def split_parts(op: Op) -> Parts | None:
    """The parts of a SPLIT or SPLIT_V; None until a run."""
    is_even = op.kind == "SPLIT"
    data, axes = operand(op, 1 if is_even else 0), known_ints(op.input(0 if is_even else 2))
    if axes is None or len(axes) != 1:
        return None
    axis = from_front(axes[0], len(data.shape))
    if not 0 <= axis < len(data.shape):
        return None
    if is_even:
        return Parts(axis, _even(data.shape[axis], len(op.outputs)))
    sizes = op.input(1)
    if sizes is None or sizes.data is None or not sizes.dtype.is_integer:
        return None
    stored = np.asarray(sizes.data, np.int64).tobytes()
    return _uneven(axis, data.shape[axis], stored)


@lru_cache(maxsize=8)
def _uneven(axis: int, whole: int | None, stored: bytes) -> Parts:
    """The parts of stored sizes; each output of an op asks for those of all."""
    sizes = tuple(np.frombuffer(stored, np.int64).tolist())
    return Parts(axis, resolved_sizes(whole, sizes))


def _even(whole: int | None, parts: int) -> tuple[int | None, ...]:
    return (None if whole is None else whole // parts,) * parts


def resolved_sizes(whole: int | None, sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """Sizes of a SPLIT_V with the one -1 replaced by what the others leave."""
    if whole is None:
        return tuple(None if size == -1 else size for size in sizes)
    rest = whole - sum(size for size in sizes if size != -1)
    return tuple(rest if size == -1 else size for size in sizes)


def _split_data(op: Op) -> Tensor:
    return operand(op, 1 if op.kind == "SPLIT" else 0)


def _infer_split(op: Op) -> list[TensorType]:
    data, parts = _split_data(op), split_parts(op)
    if parts is None:
        return [TensorType(data.dtype, (None,) * len(data.shape)) for _ in op.outputs]
    return [
        TensorType(data.dtype, (*data.shape[: parts.axis], size, *data.shape[parts.axis + 1 :]))
        for size in parts.sizes
    ]


def _split_view(op: Op, index: int) -> View | None:
    parts, source = split_parts(op), 1 if op.kind == "SPLIT" else 0
    if parts is None:
        return None
    size = parts.sizes[index]
    start = index * (size or 0) if op.kind == "SPLIT" else parts.starts[index]
    return view_along(source, operand(op, source).shape, parts.axis, Range(start, size))


def _axis_is_one_integer(op: Op) -> bool:
    axis = operand(op, 0 if op.kind == "SPLIT" else 2)
    return axis.dtype == DType.INT32 and count(axis.shape) in (1, None)


def _counts_agree(op: Op) -> bool:
    return 1 <= op.attributes(SplitAttrs).num_splits == len(op.outputs)


def _axis_exists(op: Op) -> bool:
    axes = known_ints(op.input(0 if op.kind == "SPLIT" else 2))
    return axes is None or split_parts(op) is not None or op.kind == "SPLIT_V"


def _parts_fit(op: Op) -> bool:
    parts = split_parts(op)
    if parts is None:
        return op.kind == "SPLIT" or known_ints(op.input(1)) is None or not _axis_known(op)
    whole = _split_data(op).shape[parts.axis]
    known = [size for size in parts.sizes if size is not None]
    if whole is None or len(known) != len(parts.sizes):
        return True
    return len(known) == len(op.outputs) and min(known) >= 0 and sum(known) == whole


def _axis_known(op: Op) -> bool:
    return known_ints(op.input(2)) is not None


def _evaluate_split(op: Op, inputs: Arrays) -> list[np.ndarray]:
    axes, data = ints(inputs[0]), present(inputs[1])
    axis, parts = _evaluated_axis(op, axes, data), len(op.outputs)
    if data.shape[axis] % parts:
        raise _does_not_split(op, f"{data.shape[axis]} elements, {counted(parts, 'part')}")
    return [part.copy() for part in np.split(data, parts, axis)]


def _evaluate_split_v(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, wanted, axes = present(inputs[0]), tuple(ints(inputs[1])), ints(inputs[2])
    axis = _evaluated_axis(op, axes, data)
    sizes = [size or 0 for size in resolved_sizes(data.shape[axis], wanted)]
    fits = len(sizes) == len(op.outputs) and min(sizes) >= 0 and sum(sizes) == data.shape[axis]
    if not fits or wanted.count(-1) > 1:
        raise _does_not_split(op, f"{data.shape[axis]} elements, sizes {list(wanted)}")
    return [part.copy() for part in np.split(data, np.cumsum(sizes)[:-1], axis)]


def _evaluated_axis(op: Op, axes: list[int], data: np.ndarray) -> int:
    axis = from_front(axes[0], data.ndim) if len(axes) == 1 else -1
    if not 0 <= axis < data.ndim:
        raise _does_not_split(op, f"there is no axis {axes} in {list(data.shape)}")
    return axis


def _does_not_split(op: Op, why: str) -> GraphError:
    return GraphError(f"{op.label} cannot cut its input so", where=op.name, why=why)


def _one_rest(op: Op) -> bool:
    sizes = known_ints(op.input(1)) or ()
    return sizes.count(-1) <= 1 and all(size >= -1 for size in sizes)


_SPLIT_RULES = (
    Rule("parts", _counts_agree, "num_splits must be the number of outputs"),
    Rule("axis-input", _axis_is_one_integer, "the axis must be one INT32"),
    when_ranked("axis", _axis_exists, "the axis must exist"),
)

register(
    OpDef(
        kind="SPLIT",
        attrs=SplitAttrs,
        arity=(2, 2),
        required=2,
        outputs=None,
        dtypes=("INT32 * -> *",),
        infer=infer_ranked(_infer_split),
        evaluate=_evaluate_split,
        view=_split_view,
        shape_inputs=(0,),
        rules=(
            *_SPLIT_RULES,
            when_ranked("even", _parts_fit, "the parts must divide the axis without a rest"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)

register(
    OpDef(
        kind="SPLIT_V",
        attrs=SplitAttrs,
        arity=(3, 3),
        required=3,
        outputs=None,
        dtypes=("* INT32 INT32 -> *", "* INT64 INT32 -> *"),
        infer=infer_ranked(_infer_split),
        evaluate=_evaluate_split_v,
        view=_split_view,
        shape_inputs=(1, 2),
        rules=(
            *_SPLIT_RULES,
            Rule("rest", _one_rest, "at most one size may be -1, and none less"),
            when_ranked("sizes", _parts_fit, "one size per output, together the axis"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class UnpackAttrs:
    """The axis to take apart and its size."""

    num: int = 0
    axis: int = 0


def unpack_axis(op: Op) -> int:
    """The axis an UNPACK takes apart, counted from the front."""
    return from_front(op.attributes(UnpackAttrs).axis, len(operand(op, 0).shape))


def _infer_unpack(op: Op) -> list[TensorType]:
    data, axis = operand(op, 0), unpack_axis(op)
    shape = (*data.shape[:axis], *data.shape[axis + 1 :])
    return [TensorType(data.dtype, shape) for _ in range(_unpack_count(op))]


def _unpack_count(op: Op) -> int:
    return min(max(op.attributes(UnpackAttrs).num, 0), _MOST_PARTS)


def _unpack_view(op: Op, index: int) -> View | None:
    return view_along(0, operand(op, 0).shape, unpack_axis(op), Range(index, 1))


def _unpacks_all(op: Op) -> bool:
    shape, axis = operand(op, 0).shape, unpack_axis(op)
    return 0 <= axis < len(shape) and shape[axis] in (_unpack_count(op), None)


def _evaluate_unpack(op: Op, inputs: Arrays) -> list[np.ndarray]:
    data, parts = present(inputs[0]), _unpack_count(op)
    axis = from_front(op.attributes(UnpackAttrs).axis, data.ndim)
    if not 0 <= axis < data.ndim or data.shape[axis] != parts:
        raise _does_not_split(op, f"{list(data.shape)} has no axis {axis} of size {parts}")
    return [np.take(data, index, axis) for index in range(parts)]


register(
    OpDef(
        kind="UNPACK",
        attrs=UnpackAttrs,
        arity=(1, 1),
        outputs=None,
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_unpack),
        evaluate=_evaluate_unpack,
        view=_unpack_view,
        rules=(
            Rule(
                "parts",
                lambda op: len(op.outputs) == _unpack_count(op),
                "num must be the number of outputs",
            ),
            when_ranked("axis", _unpacks_all, "the axis must exist and have `num` elements"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class PackAttrs:
    """The new axis and how many parts lie along it."""

    values_count: int = 0
    axis: int = 0


def pack_axis(op: Op) -> int:
    """The axis a PACK makes, counted from the front."""
    return from_front(op.attributes(PackAttrs).axis, len(operand(op, 0).shape) + 1)


def _infer_pack(op: Op) -> list[TensorType]:
    first, axis = operand(op, 0), pack_axis(op)
    sizes = _common(op)
    return [TensorType(first.dtype, (*sizes[:axis], len(op.inputs), *sizes[axis:]))]


def _common(op: Op) -> Shape:
    """Sizes of the parts, each known where some part knows it."""
    shapes = [tensor.shape for tensor in op.inputs if tensor is not None]
    columns = zip(*shapes, strict=True)
    return tuple(next((size for size in column if size is not None), None) for column in columns)


def _parts_given(op: Op) -> bool:
    parts = [tensor for tensor in op.inputs if tensor is not None]
    return len(parts) == len(op.inputs) and len({tensor.dtype for tensor in parts}) == 1


def _same_sizes(op: Op) -> bool:
    shapes = [operand(op, index).shape for index in range(len(op.inputs))]
    if len({len(shape) for shape in shapes}) != 1:
        return False
    if not 0 <= pack_axis(op) <= len(shapes[0]):
        return False
    return all(len(set(column) - {None}) <= 1 for column in zip(*shapes, strict=True))


def _same_scales(op: Op) -> bool:
    quant = op.outputs[0].quant
    if op.outputs[0].dtype not in QUANTISED or quant is None:
        return True
    return all(quant.same_as(operand(op, index).quant) for index in range(len(op.inputs)))


def _evaluate_pack(op: Op, inputs: Arrays) -> list[np.ndarray]:
    parts = [present(part) for part in inputs]
    axis = from_front(op.attributes(PackAttrs).axis, parts[0].ndim + 1)
    if len({part.shape for part in parts}) != 1 or not 0 <= axis <= parts[0].ndim:
        raise GraphError("the parts of PACK differ in size, or lack the axis", where=op.name)
    return [np.stack(parts, axis)]


register(
    OpDef(
        kind="PACK",
        attrs=PackAttrs,
        arity=(1, _MOST_PARTS),
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_pack),
        evaluate=_evaluate_pack,
        rules=(
            Rule("parts", _parts_given, "all parts must be given and have one element type"),
            when_ranked("sizes", _same_sizes, "the axis must exist and all sizes must be equal"),
            Rule("scales", _same_scales, "all parts must share the output's scale"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)
