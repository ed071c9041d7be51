"""RESIZE_BILINEAR; its nearest neighbour is movement."""

from __future__ import annotations

import numpy as np

from circlet.backends.opencl.emission import Constant, Emission
from circlet.backends.opencl.lowering import c_type, lowers, take
from circlet.ir import DType, Op
from circlet.ops.operands import known_ints, operand
from circlet.ops.resize import fixed_samples, real_samples

_FIXED = (DType.INT8, DType.INT16)


@lowers("RESIZE_BILINEAR")
def _resize(op: Op, emission: Emission) -> None:
    data, result = operand(op, 0), op.outputs[0]
    take(known_ints(op.input(1)) is not None, "the sizes are computed in the run")
    _, height, width, channels = data.static_shape
    windows = result.static_shape[1:3]
    is_fixed = data.dtype in _FIXED
    mode = 2 if is_fixed else int(data.dtype is not DType.FLOAT32)
    weight = "long" if is_fixed else "float"
    types = {"A_T": c_type(data.dtype), "WEIGHT_T": weight, "MODE": mode}
    tables = [
        table
        for size, count in zip((height, width), windows, strict=True)
        for table in _samples(op, size, count, is_fixed=is_fixed)
    ]
    sizes = [result.elements, height, width, channels, *windows]
    arguments = [emission.value(data), result, *tables, *sizes]
    emission.per_element(emission.template("resize", types), arguments, result.elements)


def _samples(op: Op, size: int, count: int, *, is_fixed: bool) -> tuple[Constant, Constant]:
    """Pairs of places, and the weights of the second ones."""

    def places() -> np.ndarray:
        low, high, _ = (fixed_samples if is_fixed else real_samples)(op, size, count)
        return np.stack([low, high], axis=-1).astype(np.int32)

    def weights() -> np.ndarray:
        if is_fixed:
            return fixed_samples(op, size, count)[2].astype(np.int64)
        return real_samples(op, size, count)[2]

    return Constant("places", places), Constant("weights", weights)
