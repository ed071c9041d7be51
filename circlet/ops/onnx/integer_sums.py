"""What kernels ask of MatMulInteger and NhwcConvInteger: weights of int8, and one zero point each.

NhwcConvInteger is ConvInteger, but for images and results of [batch, height, width, channels].
"""

from __future__ import annotations

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ops.geometry import SAME_UPPER, Padding, Window, Window2D
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import operand

MATMUL, CONV = (f"CUSTOM:{PREFIX}{kind}Integer" for kind in ("MatMul", "NhwcConv"))
_WEIGHTS = {MATMUL: (2, 1), CONV: (4, 0)}  # their rank, and the axis of units
_TOP = 0x80


def signed_weights(
    kind: str, weights: Tensor, zeros: Tensor | None
) -> tuple[np.ndarray, int] | None:
    """Constant weights of bytes as int8, and what is still to be taken off each.

    That is 0 where all of them are int8 less their zero points; None where they are not, and units
    have zero points of their own.
    """
    stored, (rank, axis) = weights.data, _WEIGHTS[kind]
    if stored is None or not stored.size or stored.ndim != rank or weights.sparsity is not None:
        return None
    if stored.dtype not in (np.int8, np.uint8) or (zeros is not None and zeros.data is None):
        return None
    zero = np.zeros(1, np.int8) if zeros is None or zeros.data is None else zeros.data
    if zero.size not in (1, stored.shape[axis]):
        return None
    sizes = [1] * rank
    sizes[axis] = -1
    centred = np.subtract(stored, zero.reshape(sizes), dtype=np.int16, casting="unsafe")
    if centred.min() >= -128 and centred.max() <= 127:
        return centred.astype(np.int8), 0
    if zero.min() != zero.max():
        return None
    first = int(zero.flat[0])
    return (
        (stored, first)
        if stored.dtype == np.int8
        else ((stored ^ _TOP).view(np.int8), first - _TOP)
    )


def signed_weights_of(op: Op) -> tuple[np.ndarray, int] | None:
    """The weights of an op as `signed_weights` gives them."""
    return signed_weights(op.label, operand(op, 1), op.input(3))


def has_one_zero(zero: Tensor | None) -> bool:
    """Whether all rows, or the whole image, have one zero point."""
    return zero is None or (zero.has_rank and zero.shape in ((), (1,)))


def image_window_of(op: Op) -> Window2D:
    """The windows of an NhwcConvInteger."""
    attrs, (_, _, *taps) = attributes(op), operand(op, 1).static_shape
    top, left, bottom, right = attrs.get("pads") or (0,) * 4
    is_same = attrs.get("auto_pad", "NOTSET") == SAME_UPPER
    padding: Padding = SAME_UPPER if is_same else ((top, bottom), (left, right))
    steps = (attrs.get(name) or (1, 1) for name in ("strides", "dilations"))
    return Window2D(padding, *map(Window, taps, *steps))
