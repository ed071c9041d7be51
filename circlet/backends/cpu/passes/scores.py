"""What stands between a product and its softmax, as one factor and one mask."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from circlet.ir import DType, Op, Tensor
from circlet.ir.builder import constant
from circlet.ops.arithmetic import AddAttrs, MulAttrs
from circlet.ops.elementwise import broadcast_shape
from circlet.ops.operands import is_reshape
from circlet.ops.shape import ReshapeAttrs

Parts = tuple[Op, ...]
_ALREADY: tuple[list[str], ...] = ([], ["ADD"], ["MUL"], ["MUL", "ADD"])


@dataclass(frozen=True)
class _Added:
    """What is added to scores of some sizes, after they were multiplied with a factor."""

    mask: Tensor
    shape: tuple[int, ...]
    factor: float = 1.0


def factor_of(op: Op) -> Tensor | None:
    """The constant that a MUL or DIV multiplies with or divides by: a number but 0."""
    operands = {"MUL": op.inputs, "DIV": op.inputs[1:]}.get(op.kind, [])
    constants = [t for t in operands if t is not None and t.data is not None and t.elements == 1]
    return constants[0] if len(constants) == 1 and np.all(constants[0].data) else None


def scale_of(op: Op) -> float | None:
    """What an op multiplies all scores with; None where it does something else."""
    factor = factor_of(op)
    if factor is None:
        return None
    number = float(np.asarray(factor.data).reshape(-1)[0])
    return 1 / number if op.kind == "DIV" else number


def may_have_one_mask(before: Parts) -> bool:
    """Whether `with_one_mask` takes ops, choices among them as the additions that they will be.

    Sizes that masks are added to may differ in axes only that the masks are equal along.
    """
    if _roles(before) in _ALREADY:
        return True
    added, shape = _collected(before)[1], before[-1].outputs[0].static_shape
    return bool(added) and all(_spreads_alike(each, shape) for each in added)


def with_one_mask(before: Parts) -> tuple[Parts, list[Op]]:
    """A product and what follows it as product, factor and mask, and new ops that make the mask.

    Masks that are added one after the other are one, and factors behind a mask are its, too.

    Args:
        before: From a BATCH_MATMUL to what a softmax reads: reshapes, factors, additions.
    """
    if _roles(before) in _ALREADY:
        return before, []
    scale, added = _collected(before)
    last, made = before[-1], list[Op]()
    masks = [_scaled(each, last, made) for each in added]
    mask = masks[0]
    for other in masks[1:]:
        mask = _computed("ADD", mask, other, last, made)
    return _canonical(before, scale, mask), made


def _roles(before: Parts) -> list[str]:
    steps = [op for op in before[1:] if not is_reshape(op)]
    return ["ADD" if factor_of(op) is None else "MUL" for op in steps]


def _collected(before: Parts) -> tuple[float, list[_Added]]:
    """The product of all factors, and what is added, each with the factors behind it.

    Of a choice it is the condition, which comes first and has the sizes of the mask.
    """
    scale, added, scores = 1.0, list[_Added](), before[0].outputs[0]
    for op in before[1:]:
        factor = scale_of(op)
        if factor is not None:
            scale *= factor
            added = [replace(each, factor=each.factor * factor) for each in added]
        elif not is_reshape(op):
            mask = next(t for t in op.inputs if t is not None and t is not scores)
            added.append(_Added(mask, op.outputs[0].static_shape))
        scores = op.outputs[0]
    return scale, added


def _spreads_alike(added: _Added, shape: tuple[int, ...]) -> bool:
    """Whether a mask is spread over scores of other sizes as over those that it is added to."""
    own = added.mask.static_shape
    leading = next((i for i, size in enumerate(own) if size != 1), len(own))
    kept = len(own) - leading
    return not kept or (len(shape) >= kept and shape[-kept:] == added.shape[-kept:])


def _scaled(added: _Added, last: Op, made: list[Op]) -> Tensor:
    """A mask times its factor; for scores of other sizes without leading axes of one element."""
    mask, shape = added.mask, added.mask.static_shape
    is_moved = added.shape != last.outputs[0].static_shape
    while is_moved and len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if mask.data is not None:
        mask = constant(mask.name, mask.data.reshape(shape))
    elif shape != mask.shape:
        kept = Tensor(mask.name, mask.dtype, shape)
        made.append(_reshape(mask, kept, last))
        mask = kept
    if added.factor == 1:
        return mask
    factor = constant(f"{mask.name}/factor", np.float32(added.factor))
    return _computed("MUL", mask, factor, last, made)


def _computed(kind: str, left: Tensor, right: Tensor, last: Op, made: list[Op]) -> Tensor:
    """A sum or product of two masks: a constant, or what a new op makes."""
    name = f"{last.outputs[0].name}/mask"
    if left.data is not None and right.data is not None:
        with np.errstate(all="ignore"):
            both = left.data + right.data if kind == "ADD" else left.data * right.data
        return constant(name, both)
    shape = broadcast_shape(left.static_shape, right.static_shape)
    assert shape is not None  # both are spread over the same scores
    result = Tensor(name, DType.FLOAT32, shape)
    attrs = AddAttrs() if kind == "ADD" else MulAttrs()
    made.append(Op(kind, [left, right], [result], attrs, last.origin))
    return result


def _canonical(before: Parts, scale: float, mask: Tensor) -> Parts:
    """The product, a reshape where sizes change, the factor unless it is 1, and the sum."""
    product, last = before[0], before[-1]
    parts, scores = [product], product.outputs[0]
    shape, name = last.outputs[0].static_shape, last.outputs[0].name
    if scores.static_shape != shape:
        wide = Tensor(f"{name}/scores", DType.FLOAT32, shape)
        parts.append(_reshape(scores, wide, last))
        scores = wide
    if scale != 1:
        factor, scaled = constant(f"{name}/factor", np.float32(scale)), scores.like()
        parts.append(Op("MUL", [scores, factor], [scaled], MulAttrs(), last.origin))
        scores = scaled
    return *parts, Op("ADD", [scores, mask], last.outputs, AddAttrs(), last.origin)


def _reshape(source: Tensor, result: Tensor, last: Op) -> Op:
    attrs = ReshapeAttrs(result.static_shape)
    return Op("RESHAPE", [source], [result], attrs, last.origin)
