"""Constants broadcast along short rows, repeated until rows are long enough for vectors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from circlet.ir import Tensor

_SHORT = 64
_MOST_ELEMENTS = 1 << 14


def repeat_constant(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A constant of one row as several rows of the result, or the tensor itself.

    Loops over a result of three channels would otherwise have three elements, since the constant
    starts again with each pixel.
    """
    own = tensor.static_shape
    if tensor.data is None or not own or not shape or prod(own) != own[-1] or own[-1] == 1:
        return tensor
    rows, axis = shape[-1], len(shape) - 1
    while rows < _SHORT and axis > 0:
        axis -= 1
        rows *= shape[axis]
    if own[-1] != shape[-1] or axis == len(shape) - 1 or rows > _MOST_ELEMENTS:
        return tensor
    data = np.broadcast_to(np.asarray(tensor.data).reshape(-1), shape[axis:])
    return replace(tensor, shape=shape[axis:], data=np.ascontiguousarray(data), default_shape=None)
