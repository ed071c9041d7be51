"""Verifier rules of operators with weights and windows, as small factories of `Rule`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from circlet.ir import Op, Shape, Tensor
from circlet.ops.geometry import SAME_UPPER
from circlet.ops.opdef import Rule
from circlet.ops.operands import QUANTISED, limits, operand
from circlet.words import counted

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
_MOST = 1 << 16


def rank_is(index: int, rank: int, name: str) -> Rule:
    """Rule: input `index` has exactly `rank` dimensions, where the file says how many."""

    def holds(op: Op) -> bool:
        tensor = operand(op, index)
        return len(tensor.shape) == rank or not tensor.has_rank

    return Rule(f"{name}_rank", holds, f"the {name} must have {counted(rank, 'dimension')}")


def has_last_axis(index: int) -> Rule:
    """Rule: input `index` is no scalar, where the file says how many dimensions it has."""

    def holds(op: Op) -> bool:
        tensor = operand(op, index)
        return not tensor.has_rank or len(tensor.shape) > 0

    return Rule("last-axis", holds, "the input needs a last axis")


def image_shape(tensor: Tensor) -> Shape:
    """The four sizes of an image tensor, all unknown where its rank is."""
    return tensor.shape if tensor.has_rank else (None,) * 4


def one_of(field: str, allowed: Sequence[str]) -> Rule:
    """Rule: an enum attribute has one of the values that the kernels define."""
    return Rule(
        f"{field}_known",
        lambda op: getattr(op.attrs, field) in allowed,
        f"{field} must be one of {', '.join(allowed)}",
        sized=False,
    )


def at_least(fields: Sequence[str], least: int, most: int = 1 << 16) -> Rule:
    """Rule: every named whole-number attribute lies in [least, most]."""
    return Rule(
        f"{'_'.join(fields)}_in_range",
        lambda op: all(least <= getattr(op.attrs, field) <= most for field in fields),
        f"{', '.join(fields)} must be between {least} and {most}",
        sized=False,
    )


def steps(rank: int, *fields: str) -> Rule:
    """Rule: each of the named tuples has `rank` whole numbers, 1 to 65536."""

    def holds(op: Op) -> bool:
        given = [vars(op.attrs)[field] for field in fields]
        return all(len(each) == rank and 1 <= min(each) <= max(each) <= _MOST for each in given)

    message = f"{', '.join(fields)} must have {rank} elements, 1 to {_MOST}"
    return Rule(f"{'_'.join(fields)}_in_range", holds, message, sized=False)


def padding(rank: int) -> Rule:
    """Rule: padding is SAME_UPPER, or amounts before and after each of `rank` axes."""

    def holds(op: Op) -> bool:
        given = vars(op.attrs)["padding"]
        if not isinstance(given, tuple):
            return bool(given == SAME_UPPER)
        pairs = all(isinstance(pads, tuple) and len(pads) == 2 for pads in given)
        return pairs and len(given) == rank and all(0 <= n <= _MOST for p in given for n in p)

    message = f"padding must be {SAME_UPPER}, or two amounts, 0 to {_MOST}, for each axis"
    return Rule("padding_known", holds, message, sized=False)


def known_sizes(index: int, name: str) -> Rule:
    """Rule: every size of input `index` is known before a run."""
    return Rule(
        f"{name}_sizes_known",
        lambda op: operand(op, index).has_rank and None not in operand(op, index).shape,
        f"every size of the {name} must be known",
    )


def not_empty(*indices: int, images: int | None = None) -> Rule:
    """Rule: the named inputs, where given, have no dimension of size 0.

    Of input `images` there may be none, that is, its first dimension may be 0.
    """

    def holds(op: Op) -> bool:
        shapes = [tensor.shape for index in indices if (tensor := op.input(index)) is not None]
        if images is not None:
            shapes.append(operand(op, images).shape[1:])
        return all(0 not in shape for shape in shapes)

    return Rule("operands_not_empty", holds, "no operand may have a dimension of size 0")


def bias_fits(index: int, channels: Callable[[Op], int | None]) -> Rule:
    """Rule: a bias, where given, has one element per output channel."""

    def holds(op: Op) -> bool:
        bias, wanted = op.input(index), channels(op)
        if bias is None or wanted is None or None in bias.shape:
            return True
        return bias.elements == wanted

    return Rule("bias_size", holds, "the bias must have one element per output channel")


def weights_quantised(index: int, axis: int, channels: Callable[[Op], int | None]) -> Rule:
    """Rule: quantised weights have one scale, or one per channel along `axis`."""

    def holds(op: Op) -> bool:
        return _weights_fit(operand(op, index), axis, channels(op))

    return Rule(
        "weights_quantised",
        holds,
        f"quantised weights need positive scales: one, or one per channel along dimension {axis}",
        sized=False,
    )


def _weights_fit(weights: Tensor, axis: int, channels: int | None) -> bool:
    quant = weights.quant
    if weights.dtype not in QUANTISED:
        return True
    if quant is None or not quant.is_affine or quant.zero_point.size != quant.scale.size:
        return False
    low, high = limits(weights.dtype)
    least, most = quant.zero_point_range
    fits = not quant.is_per_channel or (quant.axis == axis and channels in (None, quant.scale.size))
    return quant.is_positive and low <= least and most <= high and fits
