"""What follows weighted sums: bias, requantisation and activation as arguments of kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.backends.opencl.emission import Argument, Constant, Emission, elements_of
from circlet.backends.opencl.lowering import c_type, take
from circlet.ir import DType, Op, Tensor
from circlet.ops.requantization import requantization_of
from circlet.ops.requantize import (
    FLOAT_ACTIVATION_RANGES,
    activation_of,
    activation_range,
    quantize_multipliers,
    scalar_quant,
)
from circlet.ops.weighted import output_factors, real_factors, single_factors

EIGHT_BIT = frozenset({DType.INT8, DType.UINT8})
_FACTOR_TYPES = {"double": "int2", "single": "int2", "float": "double", "even": "float"}
_LOADS = {"LOAD_B4(i)": "TO_ACC4(vload4(0, b + (i)))", "LOAD_B1(i)": "(ACC)b[i]"}
Spread = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Sums:
    """How a kernel reads operands, and what it makes of sums.

    Attributes:
        defines: Macros of types and of arithmetic.
        arguments: Bias, and what requantisation or activation need; behind a, b and c.
    """

    defines: dict[str, object]
    arguments: tuple[Argument | int | float, ...]


def padded_to(values: np.ndarray, multiple: int) -> np.ndarray:
    """Values with zeros behind the last axis, whose size is then a multiple."""
    missing = -values.shape[-1] % multiple
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])


def sums_of(
    op: Op, emission: Emission, operands: tuple[Tensor, Tensor, Tensor | None], spread: Spread
) -> Sums:
    """The sums of an op over [data, weights, bias].

    Args:
        spread: Makes one value for each filter into the values that the kernel reads.

    Raises:
        NotTakenError: Types or policies that no kernel computes.
    """
    data, weights, bias = operands
    take(bias is None or bias.is_constant, "the bias is computed in the run")
    if data.dtype is DType.FLOAT32:
        take(weights.dtype is DType.FLOAT32, f"float rows meet {weights.dtype.name} weights")
        return _real(op, emission, operands, spread)
    take(data.dtype in EIGHT_BIT, f"does not take {data.dtype.name}")
    take(weights.dtype in EIGHT_BIT, f"{data.dtype.name} meets {weights.dtype.name} weights")
    take(op.outputs[0].dtype in EIGHT_BIT, f"gives {op.outputs[0].dtype.name}")
    return _stored(op, emission, operands, spread)


def rounds_to_half(emission: Emission, weights: Tensor) -> bool:
    """Whether constant float weights are stored as float16, which kernels widen."""
    return emission.precision == "f16" and weights.dtype is DType.FLOAT32 and weights.is_constant


def weights_of(
    emission: Emission, weights: Tensor, pack: Callable[[np.ndarray], np.ndarray]
) -> Constant:
    """Constant weights as kernels read them, rounded where the precision allows it."""
    is_half = rounds_to_half(emission, weights)

    def build() -> np.ndarray:
        packed = pack(elements_of(weights))
        if not is_half:
            return packed
        largest = np.finfo(np.float16).max
        return np.clip(packed, -largest, largest).astype(np.float16)

    return Constant(weights.name, build)


def float_defines() -> dict[str, object]:
    """Macros of float32 arithmetic."""
    types = {"A_T": "float", "B_T": "float", "C_T": "float", "ACC": "float", "ACC4": "float4"}
    zeros = {"A_ZERO": "0.0f", "B_ZERO": "0.0f", "INTEGER": 0}
    return {
        **types,
        **zeros,
        **_LOADS,
        "TO_ACC4(x)": "(x)",
        "MULTIPLY_ADD(x, y, z)": "MAD(x, y, z)",
    }


def half_weights() -> dict[str, object]:
    """Macros that differ where weights are stored as float16."""
    loads = {"LOAD_B4(i)": "vload_half4(0, b + (i))", "LOAD_B1(i)": "vload_half(i, b)"}
    return {"B_T": "half", **loads}


def integer_defines(data: DType, weights: DType, result: DType, rounding: str) -> dict[str, object]:
    """Macros of sums of bytes."""
    types = {"A_T": c_type(data), "B_T": c_type(weights), "C_T": c_type(result)}
    return {
        **types,
        "ACC": "int",
        "ACC4": "int4",
        "A_ZERO": "a_zero",
        "B_ZERO": "b_zero",
        "INTEGER": 1,
        **_LOADS,
        "TO_ACC4(x)": "convert_int4(x)",
        "MULTIPLY_ADD(x, y, z)": "((x) * (y) + (z))",
        "FACTOR_T": _FACTOR_TYPES[rounding],
        "REQUANTIZED(x, y)": f"requantized_{rounding}(x, y)",
    }


def _real(
    op: Op, emission: Emission, operands: tuple[Tensor, Tensor, Tensor | None], spread: Spread
) -> Sums:
    low, high = FLOAT_ACTIVATION_RANGES[activation_of(op)]
    bias = _bias(op, operands[2], np.float32, spread)
    halves = half_weights() if rounds_to_half(emission, operands[1]) else {}
    return Sums({**float_defines(), **halves}, (bias, float(low), float(high)))


def _stored(
    op: Op, emission: Emission, operands: tuple[Tensor, Tensor, Tensor | None], spread: Spread
) -> Sums:
    data, weights, bias = operands
    policy, result = requantization_of(op), op.outputs[0]
    take(policy.accumulator_bits == 32, "sums have 64 bits")
    take(policy.rounding != "float" or emission.facts.has_double, "the device has no float64")
    reads_zero = data.dtype is DType.UINT8 or op.kind == "FULLY_CONNECTED"
    low, high = activation_range(activation_of(op), result)
    factors = Constant(
        op.name,
        lambda: spread_factors(_factors(policy.rounding, data, weights, result), op, spread),
    )
    defines = integer_defines(data.dtype, weights.dtype, result.dtype, policy.rounding)
    zeros = scalar_quant(data)[1], scalar_quant(weights)[1] if reads_zero else 0
    bounds = scalar_quant(result)[1], low, high
    return Sums(defines, (_bias(op, bias, np.int32, spread), factors, *zeros, *bounds))


def spread_factors(factors: np.ndarray, op: Op, spread: Spread) -> np.ndarray:
    """Factors, one for all filters or one for each, as the kernel reads them."""
    filters = op.outputs[0].static_shape[-1]
    columns = factors.reshape(len(factors), -1)
    each = [np.broadcast_to(column, filters) for column in columns.T]
    return np.ascontiguousarray(np.stack([spread(column) for column in each], axis=-1))


def _factors(rounding: str, data: Tensor, weights: Tensor, result: Tensor) -> np.ndarray:
    if rounding == "float":
        return real_factors(data, weights, result)
    if rounding == "even":
        return single_factors(data, weights, result)
    return multipliers(output_factors(data, weights, result))


def multipliers(factors: np.ndarray) -> np.ndarray:
    """Mantissas and shifts of real factors, side by side."""
    return np.stack(quantize_multipliers(factors), axis=-1).astype(np.int32)


def _bias(op: Op, bias: Tensor | None, dtype: type[np.generic], spread: Spread) -> Constant:
    filters = op.outputs[0].static_shape[-1]
    take(bias is None or bias.dtype.bits == 32, "the bias has no 32 bits")

    def build() -> np.ndarray:
        values = np.zeros(filters, dtype) if bias is None else elements_of(bias).reshape(-1)
        return np.ascontiguousarray(spread(values.astype(dtype)))

    return Constant(op.name, build)
