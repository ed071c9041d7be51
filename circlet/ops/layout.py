"""Ops that move elements: PAD, PADV2, TRANSPOSE, CONCATENATION."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Shape, Tensor
from circlet.ops.functions import round_half_away
from circlet.ops.opdef import Arrays, OpDef, QuantRule, Rule, TensorType, register
from circlet.ops.operands import (
    QUANTISED,
    count,
    holds_only,
    infer_ranked,
    is_affine,
    known_ints,
    limits,
    operand,
    present,
    scale_of,
    when_ranked,
    zero_of,
)
from circlet.ops.requantize import activation_of

_INDEX_TYPES = (DType.INT32, DType.INT64)


def paddings(op: Op) -> tuple[tuple[int, int], ...] | None:
    """(before, after) per axis of a PAD; None where they are computed at run time."""
    values = known_ints(op.input(1))
    if values is None or len(values) % 2:
        return None
    return tuple(zip(values[::2], values[1::2], strict=True))


def _infer_pad(op: Op) -> list[TensorType]:
    source, amounts = operand(op, 0), paddings(op)
    if amounts is None or len(amounts) != len(source.shape):
        return [TensorType(source.dtype, (None,) * len(source.shape))]
    sizes = zip(source.shape, amounts, strict=True)
    shape = tuple(None if n is None else n + before + after for n, (before, after) in sizes)
    return [TensorType(source.dtype, shape)]


def _paddings_are_pairs(op: Op) -> bool:
    amounts, rank = operand(op, 1), len(operand(op, 0).shape)
    if amounts.dtype not in _INDEX_TYPES:
        return False
    return len(amounts.shape) == 2 and amounts.shape[0] in (rank, None) and amounts.shape[1] == 2


def _paddings_not_negative(op: Op) -> bool:
    return all(value >= 0 for value in known_ints(op.input(1)) or ())


def _fill_is_scalar(op: Op) -> bool:
    fill = op.input(2)
    return fill is None or (fill.dtype == operand(op, 0).dtype and count(fill.shape) in (1, None))


def _fill_shares_scale(op: Op) -> bool:
    fill, source = op.input(2), operand(op, 0)
    if fill is None or source.dtype not in QUANTISED or source.quant is None:
        return True
    return source.quant.same_as(fill.quant)


def pad_value(op: Op) -> int:
    """What PAD without a value operand fills with: the zero point, or 0."""
    result = op.outputs[0]
    return zero_of(result) if result.dtype in QUANTISED and is_affine(result) else 0


def _evaluate_pad(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source, amounts = present(inputs[0]), present(inputs[1]).reshape(-1, 2)
    if len(amounts) != source.ndim or (amounts < 0).any():
        raise GraphError(f"paddings {amounts.tolist()} do not fit {source.shape}", where=op.name)
    fill = inputs[2] if len(inputs) > 2 else None
    if fill is not None and fill.size != 1:
        raise GraphError(f"one value to fill with is needed, not {fill.size}", where=op.name)
    value = pad_value(op) if fill is None else fill.reshape(-1)[0]
    return [np.pad(source, amounts, constant_values=value) if source.ndim else source]


def _fill_storable(op: Op) -> bool:
    low_high = limits(op.outputs[0].dtype) if op.outputs[0].dtype in QUANTISED else None
    return low_high is None or low_high[0] <= pad_value(op) <= low_high[1]


_PAD_RULES = (
    when_ranked("paddings", _paddings_are_pairs, "the paddings must be one integer pair per axis"),
    Rule("not-negative", _paddings_not_negative, "paddings must not be negative"),
    Rule("fill", _fill_is_scalar, "the value to fill with must be one element of the input's type"),
    Rule("zero-point", _fill_storable, "the zero point must be a value of the type"),
    Rule("fill-scale", _fill_shares_scale, "the value must share the input's scale"),
)

for _kind, _most, _fill in (("PAD", 2, ""), ("PADV2", 3, " *")):
    register(
        OpDef(
            kind=_kind,
            arity=(2, _most),
            required=2,
            dtypes=tuple(f"* {sizes}{_fill} -> *" for sizes in ("INT32", "INT64")),
            infer=infer_ranked(_infer_pad),
            evaluate=_evaluate_pad,
            identity=holds_only(1, 0),
            shape_inputs=(1,),
            rules=_PAD_RULES,
            quant=QuantRule(same_as_input=True),
        )
    )


def permutation(op: Op) -> tuple[int, ...] | None:
    """Source axis of each output axis, counted from the front; None until a run."""
    values, rank = known_ints(op.input(1)), len(operand(op, 0).shape)
    if values is None:
        return None
    return tuple(axis + rank if axis < 0 else axis for axis in values)


def _infer_transpose(op: Op) -> list[TensorType]:
    source, order = operand(op, 0), permutation(op)
    if order is None or not _is_permutation(op):
        return [TensorType(source.dtype, (None,) * len(source.shape))]
    return [TensorType(source.dtype, tuple(source.shape[axis] for axis in order))]


def _keeps_order(op: Op) -> bool:
    order = known_ints(op.input(1))
    return order is not None and order == tuple(range(len(order)))


def _is_permutation(op: Op) -> bool:
    order = permutation(op)
    return order is None or sorted(order) == list(range(len(operand(op, 0).shape)))


def _evaluate_transpose(op: Op, inputs: Arrays) -> list[np.ndarray]:
    source = present(inputs[0])
    order = [int(axis) % max(source.ndim, 1) for axis in present(inputs[1]).reshape(-1)]
    if sorted(order) != list(range(source.ndim)):
        raise GraphError(f"{order} does not permute {source.ndim} axes", where=op.name)
    return [source.transpose(order).copy()]


register(
    OpDef(
        kind="TRANSPOSE",
        arity=(2, 2),
        required=2,
        dtypes=("* INT32 -> *",),
        infer=infer_ranked(_infer_transpose),
        evaluate=_evaluate_transpose,
        identity=_keeps_order,
        shape_inputs=(1,),
        rules=(
            when_ranked("permutation", _is_permutation, "the permutation must hold each axis once"),
        ),
        quant=QuantRule(same_as_input=True),
    )
)


@dataclass(frozen=True)
class ConcatenationAttrs:
    """The axis along which inputs follow each other."""

    axis: int = 0
    activation: str = "NONE"


def concatenation_axis(op: Op) -> int:
    """The axis counted from the front."""
    axis = op.attributes(ConcatenationAttrs).axis
    return axis + len(operand(op, 0).shape) if axis < 0 else axis


def _infer_concatenation(op: Op) -> list[TensorType]:
    axis, shapes = concatenation_axis(op), [tensor.shape for tensor in _parts(op)]
    if not _ranks_equal(op):
        raise GraphError("the parts differ in rank, or lack the axis", where=op.name)
    sizes = [_join(shapes, position, axis) for position in range(len(shapes[0]))]
    return [TensorType(operand(op, 0).dtype, tuple(sizes))]


def _join(shapes: list[Shape], position: int, axis: int) -> int | None:
    sizes = [shape[position] for shape in shapes]
    known = [size for size in sizes if size is not None]
    if position == axis:
        return sum(known) if len(known) == len(sizes) else None
    return known[0] if known else None


def _parts_present(op: Op) -> bool:
    return all(tensor is not None for tensor in op.inputs)


def _parts_have_one_type(op: Op) -> bool:
    return len({tensor.dtype for tensor in _parts(op)}) == 1


def _parts(op: Op) -> list[Tensor]:
    return [tensor for tensor in op.inputs if tensor is not None]


def _ranks_equal(op: Op) -> bool:
    rank = len(operand(op, 0).shape)
    in_range = 0 <= concatenation_axis(op) < rank
    return in_range and all(len(tensor.shape) == rank for tensor in _parts(op))


def _other_sizes_equal(op: Op) -> bool:
    axis, shapes = concatenation_axis(op), [tensor.shape for tensor in _parts(op)]
    return all(
        len({shape[position] for shape in shapes} - {None}) <= 1
        for position in range(len(shapes[0]))
        if position != axis
    )


def _rescales_only_uint8(op: Op) -> bool:
    result = op.outputs[0]
    if result.dtype not in QUANTISED or result.quant is None:
        return True
    if result.dtype == DType.UINT8:
        return is_affine(result) and all(is_affine(tensor) for tensor in _parts(op))
    return all(result.quant.same_as(tensor.quant) for tensor in _parts(op))


def _evaluate_concatenation(op: Op, inputs: Arrays) -> list[np.ndarray]:
    parts = [
        _rescaled(present(part), tensor, op.outputs[0])
        for part, tensor in zip(inputs, _parts(op), strict=True)
    ]
    try:
        return [np.concatenate(parts, op.attributes(ConcatenationAttrs).axis)]
    except ValueError as error:
        raise GraphError("the parts do not fit together", where=op.name, why=str(error)) from None


def _rescaled(part: np.ndarray, source: Tensor, result: Tensor) -> np.ndarray:
    """A uint8 part on the output's scale, in the float32 arithmetic of the reference kernel."""
    if result.dtype != DType.UINT8 or result.quant is None or result.quant.same_as(source.quant):
        return part
    scale = np.float32(scale_of(source)) * (np.float32(1) / np.float32(scale_of(result)))
    bias = np.float32(-zero_of(source)) * scale
    whole = round_half_away(part.astype(np.float32) * scale + bias).astype(np.int64)
    return np.clip(whole + zero_of(result), 0, 255).astype(np.uint8)


register(
    OpDef(
        kind="CONCATENATION",
        attrs=ConcatenationAttrs,
        arity=(1, 1 << 16),
        dtypes=("* -> *",),
        infer=infer_ranked(_infer_concatenation),
        evaluate=_evaluate_concatenation,
        identity=lambda op: len(op.inputs) == 1,
        joins=concatenation_axis,
        rules=(
            Rule("parts", _parts_present, "no part may be omitted"),
            Rule("types", _parts_have_one_type, "all parts must have one element type"),
            Rule(
                "activation",
                lambda op: activation_of(op) == "NONE",
                "a fused activation is not defined for this kind",
            ),
            when_ranked("axis", _ranks_equal, "the axis must exist and all ranks must be equal"),
            when_ranked("sizes", _other_sizes_equal, "sizes beside the axis must be equal"),
            Rule("scales", _rescales_only_uint8, "all parts must share the output's scale"),
        ),
    )
)
