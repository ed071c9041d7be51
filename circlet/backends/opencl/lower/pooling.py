"""AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""

from __future__ import annotations

from circlet.backends.opencl.emission import Emission
from circlet.backends.opencl.lowering import c_type, lowers, take
from circlet.ir import DType, Op
from circlet.ops.operands import QUANTISED, limits, operand
from circlet.ops.pool import Pool2DAttrs, pool_window_of
from circlet.ops.requantize import FLOAT_ACTIVATION_RANGES, activation_of, activation_range

_MODES = {"AVERAGE_POOL_2D": 0, "MAX_POOL_2D": 1, "L2_POOL_2D": 2}


@lowers(*_MODES)
def _pool(op: Op, emission: Emission) -> None:
    data, result = operand(op, 0), op.outputs[0]
    is_float = data.dtype is DType.FLOAT32
    take(is_float or data.dtype in QUANTISED, f"does not take {data.dtype.name}")
    _, height, width, channels = data.static_shape
    (top, _), (left, _) = pool_window_of(op).pads(height, width)
    attrs = op.attributes(Pool2DAttrs)
    kernel = emission.template(
        "pool",
        {
            "A_T": c_type(data.dtype),
            "ACC": "float" if is_float else "int",
            "INTEGER": int(not is_float),
            "MODE": _MODES[op.kind],
            "LOWEST": "-INFINITY" if is_float else limits(data.dtype)[0],
            "MAXIMUM": "v_max_f32" if is_float else "max",
        },
    )
    bounds: tuple[float, float] | tuple[int, int] = (
        activation_range(activation_of(op), result)
        if (not is_float)
        else FLOAT_ACTIVATION_RANGES[activation_of(op)]
    )
    count = result.elements
    sizes = [count, height, width, channels, *attrs.kernel_shape, *attrs.strides]
    arguments = [emission.value(data), result, *map(type(bounds[0]), bounds), *sizes]
    emission.per_element(kernel, [*arguments, top, left, *result.static_shape[1:3]], count)
