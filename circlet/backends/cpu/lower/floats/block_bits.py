"""com.microsoft.MatMulNBits: float rows over 4- or 8-bit weights with a scale for each block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.floats.tiles import registers_of
from circlet.backends.cpu.lower.integers.q8 import dot_is_signed, has_pairs
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    Packed,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.onnx import nbits
from circlet.ops.onnx.nbits import BitSizes, bit_sizes, elements, zero_points
from circlet.ops.onnx.record import PREFIX, attributes
from circlet.ops.operands import operand
from circlet.target.targets import Target

BLOCK = 32
_SCALE_BYTES = 12  # of a block of inputs: a step, a sum, a correction
_VECTORS = 2
_FEW_REGISTERS = 16
_ROWS = {True: {1: 8, 2: 4, 3: 4}, False: {1: 4, 2: 3, 3: 2}}  # rows at a time, by digits
_WHOLE_DIGITS = 3


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
    digits = _rounded_digits(sizes.bits, context.target) if is_rounded else _WHOLE_DIGITS
    lanes, blocks = context.vector_bytes // 4, -(-sizes.depth // BLOCK)
    rows = operand(op, nbits.X).elements // sizes.depth
    split = context.temporary(op, rows * blocks * BLOCK * digits)
    steps = context.temporary(op, rows * blocks * _SCALE_BYTES)
    context.call(
        op,
        Kernel("block_bits.h", "block_bits_split", (sizes.bits, digits)),
        {"depth": sizes.depth},
        (source_ref(context, operand(op, nbits.X)), split, steps),
        (split.tensor, steps.tensor),
        tasks=rows,
    )
    packed, zeros = _packed(op, context, sizes, lanes)
    weights, scales, biases = packed.refs[:3]
    has_many = registers_of(context.target, context.vector_bytes).count > _FEW_REGISTERS
    together = _rows_at_once(rows, _ROWS[has_many][digits])
    arguments = (sizes.bits, digits, int(packed.fact), together, _VECTORS)
    context.call(
        op,
        Kernel("block_bits.h", "block_bits", arguments),
        {
            "rows": rows,
            "blocks": blocks,
            "units": sizes.rows,
            "per_scale": sizes.block // BLOCK,
        },
        (split, weights, scales, biases, TensorRef(op.outputs[0]), steps, zeros),
        op.outputs,
        tasks=-(-sizes.rows // (_VECTORS * lanes)),
    )


def _rounded_digits(bits: int, target: Target) -> int:
    """Digits of an input of 8 bits: those that meet 8-bit weights in pairs have 7."""
    return 2 if has_pairs(target) and bits == 8 else 1


def _rows_at_once(rows: int, most: int) -> int:
    """As many as the kernel holds, or fewer where the last ones would be computed twice."""
    return -(-rows // -(-rows // most))


def _packed(op: Op, context: Context, sizes: BitSizes, lanes: int) -> tuple[Packed, Ref]:
    """Weights, scales and biases, whether zero points differ from the middle, and those."""
    signed = dot_is_signed(context.target)

    def pack() -> tuple[list[np.ndarray], bool]:
        made = _arrays(op, sizes, lanes, is_signed=signed)
        return made, len(made) > _WHOLE_DIGITS

    packed = context.packed(op, f"blocks of {lanes} lanes", pack)
    return packed, packed.refs[-1] if packed.fact else NoRef()


def _arrays(op: Op, sizes: BitSizes, lanes: int, *, is_signed: bool) -> list[np.ndarray]:
    bias, zeros = op.input(nbits.BIAS), op.input(nbits.ZEROS)
    shape = sizes.rows, sizes.blocks
    stored = np.asarray(operand(op, nbits.WEIGHTS).data).reshape(sizes.rows, sizes.row_bytes)
    scales = np.asarray(operand(op, nbits.SCALES).data, np.float32).reshape(shape)
    points = zero_points(sizes, None if zeros is None else zeros.data).astype(np.int16)
    offsets = (points - (1 << (sizes.bits - 1))).astype(np.int8)
    biases = np.zeros(sizes.rows, np.float32)
    if bias is not None:
        biases[:] = np.asarray(bias.data).reshape(-1)
    made = [
        _pack(stored, sizes, lanes, is_signed=is_signed),
        _spread(scales, lanes),
        np.pad(biases, (0, -sizes.rows % (_VECTORS * lanes))),
    ]
    return [*made, _spread(offsets, lanes)] if offsets.any() else made


def _pack(
    stored: npt.NDArray[np.uint8], sizes: BitSizes, lanes: int, *, is_signed: bool
) -> npt.NDArray[np.uint8]:
    """[tasks, blocks, vectors, bits, lanes, 4] bytes: of an output, 4 inputs.

    Two inputs of 4 bits that are 16 apart share a byte.
    """
    units, depth = sizes.rows, -(-sizes.depth // BLOCK) * BLOCK
    width = _VECTORS * lanes
    values = elements(stored, sizes.bits, sizes.depth)
    padded = np.pad(values, ((0, -units % width), (0, depth - sizes.depth)))
    shaped = padded.reshape(-1, _VECTORS, lanes, depth // BLOCK, BLOCK // 4, 4)
    turned = shaped.transpose(0, 3, 1, 4, 2, 5)
    if sizes.bits == 8:
        return np.ascontiguousarray(turned ^ np.uint8(128) if is_signed else turned)
    half = BLOCK // 8
    return np.ascontiguousarray(turned[:, :, :, :half] | turned[:, :, :, half:] << 4)


def _spread(values: np.ndarray, lanes: int) -> np.ndarray:
    """[units, blocks] as [tasks, blocks, vectors, lanes]."""
    padded = np.pad(values, ((0, -len(values) % (_VECTORS * lanes)), (0, 0)))
    shaped = padded.reshape(-1, _VECTORS, lanes, values.shape[1])
    return np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))


LOWERINGS.add(Lowering(f"CUSTOM:{PREFIX}{nbits.KIND}", "mat_mul_bits", _refuses, _lower))
