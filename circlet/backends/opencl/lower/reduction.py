"""MEAN, SUM, extremes, products and logic along axes; ARG_MAX and ARG_MIN."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from circlet.backends.opencl.emission import Emission
from circlet.backends.opencl.lowering import c_type, lowers, take
from circlet.ir import DType, Op
from circlet.ops.operands import QUANTISED, limits, operand, scale_of, zero_of
from circlet.ops.reduce import constant_axes, mean_multiplier
from circlet.ops.requantize import quantize_multiplier

_MODES = {
    "MEAN": 0,
    "SUM": 1,
    "REDUCE_MAX": 2,
    "REDUCE_ANY": 2,
    "REDUCE_MIN": 3,
    "REDUCE_ALL": 3,
    "REDUCE_PROD": 4,
    "ARG_MAX": 5,
    "ARG_MIN": 6,
}
_MOST_AXES = 3
_ITEMS = 64
_FEW_OUTPUTS = 1 << 12


@lowers(*_MODES)
def _reduce(op: Op, emission: Emission) -> None:
    data, result, axes = operand(op, 0), op.outputs[0], constant_axes(op)
    take(axes is not None, "the axes are computed in the run")
    assert axes is not None
    kept, dropped = _split(data.static_shape, axes)
    take(max(len(kept), len(dropped)) <= _MOST_AXES, "more than three axes lie apart")
    mode, reduced = _MODES[op.kind], prod(size for size, _ in dropped)
    requantises = mode < 2 and data.dtype in QUANTISED
    grouped = mode < 5 and reduced >= _ITEMS and result.elements < _FEW_OUTPUTS
    flags = {"MODE": mode, "REQUANTIZES": int(requantises), "GROUPED": int(grouped)}
    kernel = emission.template("reduce", {**flags, "ITEMS": _ITEMS, **_types(op, mode)})
    numbers = _requantisation(op, reduced, mode) if requantises else []
    numbers += [result.elements, reduced, *_three(kept), *_three(dropped)]
    arguments = [emission.value(data), result, *numbers]
    if grouped:
        emission.launch(kernel, arguments, (result.elements * _ITEMS,), (_ITEMS,))
    else:
        emission.per_element(kernel, arguments, result.elements)


def _split(
    shape: Sequence[int], axes: Sequence[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Sizes and steps of axes that stay and of those that go; neighbours are joined."""
    parts: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    step, before = 1, -1
    for axis in reversed(range(len(shape))):
        number = int(axis in axes)
        if shape[axis] > 1:
            if number == before:
                size, own = parts[number].pop()
                parts[number].append((size * shape[axis], own))
            else:
                parts[number].append((shape[axis], step))
            before = number
        step *= shape[axis]
    return parts[0][::-1], parts[1][::-1]


def _three(axes: Sequence[tuple[int, int]]) -> list[int]:
    padded = [(1, 0)] * (_MOST_AXES - len(axes)) + list(axes)
    return [size for size, _ in padded] + [step for _, step in padded]


def _types(op: Op, mode: int) -> dict[str, object]:
    data, result = operand(op, 0).dtype, op.outputs[0].dtype
    is_float = data is DType.FLOAT32
    take(
        data in QUANTISED or data in (*_PLAIN, DType.BOOL) or is_float, f"does not take {data.name}"
    )
    wide = "float" if is_float else "long"
    starts: dict[int, object] = {0: 0, 1: 0, 4: 1}
    if mode in (2, 3):
        infinite = "-INFINITY" if mode == 2 else "INFINITY"
        starts[mode] = infinite if is_float else _bound(data, mode)
    names = ("v_max_f32", "v_min_f32") if is_float else ("max", "min")
    types = {"A_T": c_type(data), "C_T": c_type(result), "ACC": wide}
    extremes = {"MAXIMUM": names[0], "MINIMUM": names[1]}
    return {**types, **extremes, "START": starts.get(mode, 0)}


_PLAIN = (DType.INT32, DType.INT64)


def _bound(dtype: DType, mode: int) -> str:
    """The start of a largest, or of a least, value."""
    low, high = (0, 1) if dtype is DType.BOOL else limits(dtype)
    if mode == 3:
        return f"{high}l"
    return f"({low + 1}l - 1)"


def _requantisation(op: Op, reduced: int, mode: int) -> list[int]:
    source, result = operand(op, 0), op.outputs[0]
    ratio = quantize_multiplier(scale_of(source) / scale_of(result))
    mantissa, shift = mean_multiplier(op, reduced) if mode == 0 else ratio
    centre = int(np.int64(zero_of(source) * reduced).astype(np.int32))
    return [centre, mantissa, shift, zero_of(result), *limits(result.dtype)]
