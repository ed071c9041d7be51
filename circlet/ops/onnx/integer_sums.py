"""What kernels ask of MatMulInteger: weights around 0, and one zero point of the rows."""

from __future__ import annotations

import numpy as np

from circlet.ir import Op, Tensor
from circlet.ops.operands import operand

_CENTRES = {np.dtype(np.int8): 0, np.dtype(np.uint8): 128}


def is_centred(weights: Tensor, zeros: Tensor | None) -> bool:
    """Whether weights are a constant matrix of bytes whose zero points make int8 of them."""
    if weights.data is None or len(weights.shape) != 2 or not weights.elements:
        return False
    if weights.sparsity is not None or weights.data.dtype not in _CENTRES:
        return False
    if zeros is not None and zeros.data is None:
        return False
    found = np.zeros(1) if zeros is None or zeros.data is None else zeros.data
    return bool((found == _CENTRES[weights.data.dtype]).all())


def centred_weights(op: Op) -> np.ndarray | None:
    """The weights [depth, units] as int8 less their zero points; None where those are others."""
    weights = operand(op, 1)
    if not is_centred(weights, op.input(3)):
        return None
    stored = np.asarray(weights.data)
    return stored if stored.dtype == np.int8 else (stored ^ 0x80).view(np.int8)


def has_one_zero(op: Op) -> bool:
    """Whether all rows have the same zero point."""
    zero = op.input(2)
    return zero is None or (zero.has_rank and zero.shape in ((), (1,)))
