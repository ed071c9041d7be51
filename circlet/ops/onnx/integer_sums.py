"""What kernels ask of MatMulInteger and NhwcConvInteger: weights of int8, and one zero point each.

NhwcConvInteger is ConvInteger, but for images and results of [batch, height, width, channels].
"""

from __future__ import annotations

from math import prod

import numpy as np

from circlet.errors import GraphError
from circlet.ir import Op, Tensor
from circlet.ops.geometry import SAME_UPPER, Padding, Window, Window2D
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import operand

MATMUL, CONV = (f"CUSTOM:{PREFIX}{kind}Integer" for kind in ("MatMul", "NhwcConv"))
_WEIGHTS = {MATMUL: (2, 1), CONV: (4, 0)}  # their rank, and the axis of units
_TOP = 0x80


def has_signed_weights(kind: str, weights: Tensor, zeros: Tensor | None) -> bool:
    """Whether weights are constant bytes that `signed_weights` makes int8 of.

    Units may have zero points of their own where int8 holds what is left of all weights.
    """
    stored, (rank, axis) = weights.data, _WEIGHTS[kind]
    if stored is None or not stored.size or stored.ndim != rank or weights.sparsity is not None:
        return False
    if stored.dtype not in (np.int8, np.uint8) or (zeros is not None and zeros.data is None):
        return False
    zero = _zero_points(zeros)
    if zero.size not in (1, stored.shape[axis]):
        return False
    return bool(zero.min() == zero.max()) or _fits(stored, zero, axis)


def signed_weights(op: Op) -> tuple[np.ndarray, int]:
    """The weights as int8, and what is still to be taken off each: 0 where int8 holds the rest."""
    stored, (_, axis) = np.asarray(operand(op, 1).data), _WEIGHTS[op.label]
    zero = _zero_points(op.input(3))
    if _fits(stored, zero, axis):
        wrapped = stored.view(np.uint8) - _along(zero, stored.ndim, axis).view(np.uint8)
        return wrapped.view(np.int8), 0
    first = int(zero.flat[0])
    return (
        (stored, first)
        if stored.dtype == np.int8
        else ((stored ^ _TOP).view(np.int8), first - _TOP)
    )


def _zero_points(zeros: Tensor | None) -> np.ndarray:
    return np.zeros(1, np.int8) if zeros is None or zeros.data is None else zeros.data


def _along(zero: np.ndarray, rank: int, axis: int) -> np.ndarray:
    sizes = [1] * rank
    sizes[axis] = -1
    return np.ascontiguousarray(zero).reshape(sizes)


def _fits(stored: np.ndarray, zero: np.ndarray, axis: int) -> bool:
    """Whether all weights less their zero points are int8."""
    if stored.dtype == np.int8 and not zero.any():
        return True
    others = tuple(each for each in range(stored.ndim) if each != axis)
    ends = (end(axis=others, keepdims=True).astype(np.int16) for end in (stored.min, stored.max))
    least, most = (end - _along(zero, stored.ndim, axis).astype(np.int16) for end in ends)
    return bool(least.min() >= -128 and most.max() <= 127)


def has_one_zero(zero: Tensor | None) -> bool:
    """Whether all rows, or the whole image, have one zero point."""
    return zero is None or (zero.has_rank and zero.shape in ((), (1,)))


def fits_zero_points(shape: tuple[int, ...], zeros: tuple[int, ...], *, left: bool) -> bool:
    """Whether zero points of these sizes are one, or one for each row on the left of a product.

    On the right they are those of columns. A list is of the rows of every matrix; where they have
    as many axes as the matrices, with one of size 1 for the depth, each matrix has its own.
    """
    if prod(zeros) == 1:
        return True
    axis, depth = (-2, -1) if left else (-1, -2)
    if len(zeros) == 1:
        return len(shape) > 1 and zeros == (shape[axis],)
    if len(zeros) != len(shape) or zeros[depth] != 1:
        return False
    return all(each in (1, size) for each, size in zip(zeros, shape, strict=True))


def check_zero_points(
    shape: tuple[int, ...], zeros: tuple[int, ...], *, left: bool, where: str = ""
) -> None:
    """GraphError where zero points are not those of a matrix."""
    if not fits_zero_points(shape, zeros, left=left):
        what = f"zero points are not of the matrix or its {'rows' if left else 'columns'}"
        raise GraphError(what, where=where, why=f"those of {shape} are {zeros}")


def image_window_of(op: Op) -> Window2D:
    """The windows of an NhwcConvInteger."""
    attrs, (_, _, *taps) = attributes(op), operand(op, 1).static_shape
    top, left, bottom, right = attrs.get("pads") or (0,) * 4
    is_same = attrs.get("auto_pad", "NOTSET") == SAME_UPPER
    padding: Padding = SAME_UPPER if is_same else ((top, bottom), (left, right))
    steps = (attrs.get(name) or (1, 1) for name in ("strides", "dilations"))
    return Window2D(padding, *map(Window, taps, *steps))
