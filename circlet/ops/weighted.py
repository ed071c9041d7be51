"""What follows a weighted sum in each family of types: bias, requantisation, activation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from circlet.ir import DType, Op, Tensor
from circlet.ops.hybrid import quantise_rows
from circlet.ops.opdef import Arrays, Rule
from circlet.ops.operands import operand, present
from circlet.ops.parts import by_rows, centred, matmul
from circlet.ops.requantization import requantization_of
from circlet.ops.requantize import (
    INT32_MAX,
    INT32_MIN,
    activate_float,
    activation_of,
    activation_range,
    multiply_by_quantized_multiplier,
    multiply_rounding_once,
    multiply_wide,
    quantize_multipliers,
    scalar_quant,
    wrap_int32,
)

_STEPS = 16  # of a sum that is requantised
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]
_TYPES = (  # of the data and the result, the weights, and a bias
    ("FLOAT32", "FLOAT32", "FLOAT32"),
    ("UINT8", "UINT8", "INT32"),
    ("INT8", "INT8", "INT32"),
    ("INT16", "INT8", "INT64"),
    ("INT16", "INT8", "INT32"),
    ("FLOAT32", "INT8", "FLOAT32"),
)


def weighted_forms(form: str, *more: tuple[str, str, str]) -> tuple[str, ...]:
    """Forms as `OpDef.dtypes` has them of a kind that sums by weights, with a bias and without.

    Args:
        form: With `{data}`, `{weights}` and `{bias}` in it.
        more: Types of data, weights and bias beside the usual ones.
    """
    return tuple(
        form.format(data=data, weights=weights, bias=bias)
        for data, weights, wide in (*_TYPES, *more)
        for bias in (wide, "_")
    )


def real_factors(data: Tensor, weights: Tensor, output: Tensor) -> npt.NDArray[np.float64]:
    """Factors from accumulator to output steps in double precision, one per weight scale."""
    assert weights.quant is not None
    scales = weights.quant.scale.astype(np.float64)
    return np.float64(scalar_quant(data)[0]) * scales / np.float64(scalar_quant(output)[0])


def single_factors(data: Tensor, weights: Tensor, output: Tensor) -> npt.NDArray[np.float32]:
    """Factors from accumulator to output steps, every operation in single precision."""
    assert weights.quant is not None
    with np.errstate(over="ignore", under="ignore"):
        product = np.float32(scalar_quant(data)[0]) * weights.quant.scale.astype(np.float32)
        return np.asarray(product / np.float32(scalar_quant(output)[0]), np.float32)


def scaled_to_even(
    total: npt.NDArray[np.int64], data: Tensor, weights: Tensor, output: Tensor
) -> npt.NDArray[np.int64]:
    """Output steps of sums as ONNX Runtime scales them: by one float product, halves to even."""
    scaled = wrap_int32(total).astype(np.float32) * single_factors(data, weights, output)
    return np.rint(np.clip(scaled, INT32_MIN, INT32_MAX)).astype(np.int64)


def output_factors(data: Tensor, weights: Tensor, output: Tensor) -> npt.NDArray[np.float64]:
    """Real factors from accumulator to output steps, one per weight scale.

    For uint8 the product of the scales is rounded to float32 first, as TFLite does it.
    """
    assert weights.quant is not None
    scale, scales = scalar_quant(data)[0], weights.quant.scale
    output_scale = np.float64(scalar_quant(output)[0])
    if data.dtype is DType.UINT8:
        with np.errstate(over="ignore"):
            return (scale * scales).astype(np.float64) / output_scale
    return real_factors(data, weights, output)


def largest_factor(data: Tensor, weights: Tensor, output: Tensor) -> float:
    """The largest of `output_factors`."""
    assert weights.quant is not None
    scale, output_scale = scalar_quant(data)[0], float(scalar_quant(output)[0])
    if data.dtype is DType.UINT8:
        with np.errstate(over="ignore"):
            return float(scale * weights.quant.largest_scale) / output_scale
    return float(scale) * float(weights.quant.largest_scale) / output_scale


def factor_in_reach(data: int = 0, weights: int = 1) -> Rule:
    """Rule: quantised output steps are not finer than a 32-bit register can hold."""

    def holds(op: Op) -> bool:
        source, filters = operand(op, data), operand(op, weights)
        if not source.dtype.is_integer:
            return True
        factor = largest_factor(source, filters, op.outputs[0])
        return factor < (2.0**7 if source.dtype is DType.INT16 else 2.0**30)

    message = "the output scale is too small for the inputs'"
    return Rule("factor_in_reach", holds, message, sized=False)


def convolution_is_asymmetric(op: Op) -> bool:
    """Whether a hybrid convolution gives its float rows a zero point.

    CONV_2D does where its weights have several scales; DEPTHWISE_CONV_2D and TRANSPOSE_CONV
    always do.
    """
    weights = operand(op, 1)
    several = weights.quant is not None and weights.quant.is_per_channel
    return several or op.kind in ("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")


def evaluate_weighted(
    op: Op,
    arrays: Arrays,
    product: Product,
    *,
    operands: tuple[int, int] = (0, 1),
) -> list[np.ndarray]:
    """A convolution over [data, weights, bias] of any family; `product` sums over windows.

    Beside floats the bytes of uint8 weights count as int8, as in `evaluate_fully_connected`.
    """
    data, weights = operand(op, operands[0]), operand(op, operands[1])
    x, w = present(arrays[0]), present(arrays[1])
    bias = arrays[2] if len(arrays) > 2 else None
    if w.dtype == np.float32:
        return [_float_output(op, product(x, w), bias)]
    if x.dtype == np.float32:
        return [_hybrid_convolution(op, weights, (x, w.view(np.int8), bias), product)]
    weight_zero = scalar_quant(weights)[1] if data.dtype is DType.UINT8 else 0
    total = _integer_sums(data, weight_zero, (x, w, bias), product)
    return [_stored(op, total, (data, weights))]


def has_float_weights_as_bytes(op: Op) -> bool:
    """Whether an op over float activations has its weights as uint8."""
    return operand(op, 0).dtype is DType.FLOAT32 and operand(op, 1).dtype is DType.UINT8


def real_weights(weights: Tensor, stored: np.ndarray, axis: int) -> npt.NDArray[np.float32]:
    """The real values of uint8 weights, whose scales may be one for each index along `axis`.

    Where all zero points are 0 no weight could be negative: then the bytes count as int8, as
    converters stored them that had no int8 yet.
    """
    assert weights.quant is not None
    scale, zero = weights.quant.scale.astype(np.float32), weights.quant.zero_point
    sizes = [1] * stored.ndim
    sizes[axis] = scale.size
    if not zero.any():
        return stored.view(np.int8) * scale.reshape(sizes)
    return (stored.astype(np.float32) - zero.astype(np.float32).reshape(sizes)) * scale.reshape(
        sizes
    )


def evaluate_fully_connected(op: Op, arrays: Arrays, *, asymmetric: bool) -> np.ndarray:
    """Rows [rows, depth] times weights [units, depth], of any family.

    Beside float rows the bytes of uint8 weights count as int8, as the reference reads them;
    `asymmetric` gives such rows a zero point.
    """
    data, weights = operand(op, 0), operand(op, 1)
    x, w = present(arrays[0]), present(arrays[1])
    bias = arrays[2] if len(arrays) > 2 else None
    if w.dtype == np.float32:
        return _float_output(op, _matmul(x, w), bias)
    if x.dtype == np.float32:
        return _hybrid_rows(op, weights, (x, w.view(np.int8), bias), asymmetric)
    total = _integer_sums(data, scalar_quant(weights)[1], (x, w, bias), _matmul)
    return _stored(op, total, (data, weights))


def _integer_sums(
    data: Tensor,
    weight_zero: int,
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    product: Product,
) -> npt.NDArray[np.int64]:
    """Sums of products and bias; int16 values and their weights have zero points of 0."""
    if data.dtype is DType.INT16:
        return _sixteen_bit_sums(arrays, product)
    return integer_sum(data, weight_zero, arrays, product)


def _stored(op: Op, total: npt.NDArray[np.int64], operands: tuple[Tensor, Tensor]) -> np.ndarray:
    """Sums as the op stores them, some rows at a time."""
    (stored,) = by_rows(
        lambda rows: [_integer_output(op, _requantised(op, rows, operands))], total, _STEPS
    )
    return stored


def _requantised(
    op: Op, total: npt.NDArray[np.int64], operands: tuple[Tensor, Tensor]
) -> npt.NDArray[np.int64]:
    """Output steps of sums, by the op's policy."""
    policy, tensors = requantization_of(op), (*operands, op.outputs[0])
    wraps = policy.accumulator_bits == 32
    if policy.rounding == "float":
        return _float_requantise(wrap_int32(total) if wraps else total, real_factors(*tensors))
    if policy.rounding == "even":
        return scaled_to_even(total, *tensors)
    mantissa, shift = quantize_multipliers(output_factors(*tensors))
    if not wraps:
        return multiply_wide(total, mantissa, shift)
    single = policy.rounding == "single"
    multiply = multiply_rounding_once if single else multiply_by_quantized_multiplier
    return multiply(wrap_int32(total), mantissa, shift)


def _sixteen_bit_sums(
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None], product: Product
) -> npt.NDArray[np.int64]:
    x, w, bias = arrays
    total = product(centred(x, 0), centred(w, 0)).astype(np.int64)
    return total if bias is None else total + bias.reshape(-1)


def centred_int16(data: int = 0) -> Rule:
    """Rule: int16 activations and results have zero points of 0."""

    def holds(op: Op) -> bool:
        source, result = operand(op, data), op.outputs[0]
        return (
            source.dtype is not DType.INT16
            or scalar_quant(source)[1] == scalar_quant(result)[1] == 0
        )

    return Rule("int16-centred", holds, "int16 values need zero points of 0")


def integer_sum(
    data: Tensor,
    weight_zero: int,
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    product: Product,
) -> npt.NDArray[np.int64]:
    """The int32 accumulator of an integer product, bias included, held in int64.

    TFLite's int8 convolutions do not read the weights' zero point (it is 0 by its rules).
    """
    x, w, bias = arrays
    total = product(centred(x, scalar_quant(data)[1]), centred(w, weight_zero))
    whole = total.astype(np.int64)
    return wrap_int32(whole if bias is None else whole + bias.reshape(-1))


def _matmul(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return matmul(rows, weights.T)


def _float_output(op: Op, total: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    biased = total if bias is None else total + bias.reshape(-1)
    return activate_float(biased.astype(np.float32), activation_of(op))


def _integer_output(op: Op, steps: npt.NDArray[np.int64]) -> np.ndarray:
    output = op.outputs[0]
    low, high = activation_range(activation_of(op), output)
    stored = np.clip(steps + scalar_quant(output)[1], low, high)
    return stored.astype(output.dtype.numpy)


def _float_requantise(
    total: npt.NDArray[np.int64], factors: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Accumulators times real factors, rounded to nearest."""
    scaled = np.clip(total.astype(np.float64) * factors, INT32_MIN, INT32_MAX)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int64)


def _hybrid_convolution(
    op: Op,
    weights: Tensor,
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    product: Product,
) -> np.ndarray:
    x, w, bias = arrays
    assert weights.quant is not None
    rows = quantise_rows(x.reshape(x.shape[0], -1), asymmetric=convolution_is_asymmetric(op))
    total = product(rows.values.reshape(x.shape), w.astype(np.float64)).astype(np.float32)
    scaled = total * weights.quant.scale * rows.scales.reshape(-1, 1, 1, 1)
    return _float_output(op, scaled, bias)


def _hybrid_rows(
    op: Op,
    weights: Tensor,
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    asymmetric: bool,
) -> np.ndarray:
    x, w, bias = arrays
    assert weights.quant is not None
    rows = quantise_rows(x, asymmetric=asymmetric)
    total = _matmul(rows.values, w.astype(np.float64)).astype(np.float32)
    return _float_output(op, total * rows.scales[:, None] * weights.quant.scale, bias)
