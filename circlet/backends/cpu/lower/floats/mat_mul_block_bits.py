"""com.microsoft.MatMulNBits: float rows over 4- or 8-bit weights with a scale for each block."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.lower.floats.block_bits import (
    BLOCK,
    WHOLE_DIGITS,
    BlockProduct,
    BlockWeights,
    rounded_digits,
)
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import LOWERINGS, Context, Lowering
from circlet.ir import DType, Op
from circlet.ops.onnx import nbits
from circlet.ops.onnx.nbits import BitSizes, bit_sizes, elements, zero_points
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import operand
from circlet.target.targets import Target


def _refuses(op: Op, target: Target) -> str | None:
    tensors = [*(t for t in op.inputs if t is not None), *op.outputs]
    if any(None in t.shape for t in tensors) or op.outputs[0].elements == 0:
        return "a size is open, or 0"
    floats = (nbits.X, nbits.SCALES, nbits.BIAS)
    given = [op.input(at) for at in floats]
    if any(t is not None and t.dtype is not DType.FLOAT32 for t in (*given, *op.outputs)):
        return "not float32"
    sizes = bit_sizes(attributes(op))
    if sizes.bits not in (4, 8) or sizes.block % BLOCK:
        return "neither 4 nor 8 bits, or blocks that are no multiples of 32"
    if op.input(nbits.GROUPS) is not None:
        return "inputs that share scales are not side by side"
    constants = [op.input(at) for at in range(nbits.WEIGHTS, nbits.BIAS + 1)]
    if any(t is not None and t.data is None for t in constants):
        return "weights, scales or biases are computed"
    zeros = op.input(nbits.ZEROS)
    stored = [operand(op, nbits.WEIGHTS), *([] if zeros is None else [zeros])]
    return None if all(t.dtype is DType.UINT8 for t in stored) else "weights are not UINT8"


def _lower(op: Op, context: Context) -> None:
    attrs = attributes(op)
    sizes = bit_sizes(attrs)
    is_rounded = attrs.get("accuracy_level", 0) == nbits.INT8_ACCURACY
    product = BlockProduct(
        rows=operand(op, nbits.X).elements // sizes.depth,
        units=sizes.rows,
        depth=sizes.depth,
        block=sizes.block,
        bits=sizes.bits,
        digits=rounded_digits(sizes.bits, context.target) if is_rounded else WHOLE_DIGITS,
    )
    source = source_ref(context, operand(op, nbits.X))
    product.lower(op, context, source, lambda: _weights(op, sizes))


def _weights(op: Op, sizes: BitSizes) -> BlockWeights:
    bias, zeros = op.input(nbits.BIAS), op.input(nbits.ZEROS)
    stored = np.asarray(operand(op, nbits.WEIGHTS).data).reshape(sizes.rows, sizes.row_bytes)
    scales = np.asarray(operand(op, nbits.SCALES).data, np.float32)
    points = zero_points(sizes, None if zeros is None else zeros.data).astype(np.int16)
    biases = np.zeros(sizes.rows, np.float32)
    if bias is not None:
        biases[:] = np.asarray(bias.data).reshape(-1)
    return BlockWeights(
        values=elements(stored, sizes.bits, sizes.depth),
        scales=scales.reshape(sizes.rows, sizes.blocks),
        offsets=(points - (1 << (sizes.bits - 1))).astype(np.int8),
        biases=biases,
    )


LOWERINGS.add(Lowering(f"CUSTOM:{PREFIX}{nbits.KIND}", "mat_mul_block_bits", _refuses, _lower))
