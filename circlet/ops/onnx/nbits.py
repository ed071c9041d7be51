"""The record of com.microsoft.MatMulNBits: rows times weights of a few bits, scaled by blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import Op, Tensor
from circlet.ops.onnx.record import OnnxAttrs, attributes, onnx_kind, stated
from circlet.ops.opdef import Cost, TensorType, moves_bytes
from circlet.ops.operands import operand, ranked
from circlet.words import counted

KIND = "com.microsoft.MatMulNBits"
X, WEIGHTS, SCALES, ZEROS, GROUPS, BIAS = range(6)
INT8_ACCURACY = 4  # the `accuracy_level` that lets inputs be rounded to 8 bits

Array = np.ndarray
Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


class BitSizes(NamedTuple):
    """What the attributes say of the weights: [rows, depth], each row in blocks.

    Attributes:
        bits: Of a weight.
        block: Inputs that share a scale.
    """

    rows: int
    depth: int
    bits: int
    block: int

    @property
    def blocks(self) -> int:
        """Of a row; the last may be longer than what is left of it."""
        return -(-self.depth // self.block)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of weights."""
        return self.blocks * self.block * self.bits // 8

    @property
    def zero_bytes(self) -> int:
        """Bytes of the zero points of a row."""
        return -(-self.blocks * self.bits // 8)


def bit_sizes(attrs: OnnxAttrs) -> BitSizes:
    """The sizes that attributes state."""
    rows, depth, block = (int(attrs.get(name, 0)) for name in ("N", "K", "block_size"))
    if min(rows, depth, block) < 1 or block % 8:
        raise GraphError("N, K or block_size is no size", why=f"{rows}, {depth}, {block}")
    return BitSizes(rows, depth, int(attrs.get("bits", 4)), block)


def elements(stored: Bytes, bits: int, count: int) -> Bytes:
    """The first `count` elements of each row of bytes, the first of a byte in its low bits."""
    if bits == 8:
        return stored[:, :count]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (stored[:, :, None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(len(stored), -1)[:, :count]


def zero_points(sizes: BitSizes, stored: Array | None) -> Bytes:
    """The zero point of each block of each row."""
    if stored is None:
        return np.full((sizes.rows, sizes.blocks), 1 << (sizes.bits - 1), np.uint8)
    return elements(stored.reshape(sizes.rows, sizes.zero_bytes), sizes.bits, sizes.blocks)


def _product(
    attrs: OnnxAttrs,
    x: Array,
    weights: Array,
    scales: Array,
    zeros: Array | None = None,
    groups: None = None,
    bias: Array | None = None,
) -> Array:
    sizes = bit_sizes(attrs)
    own = np.arange(sizes.depth) // sizes.block
    stored = weights.reshape(sizes.rows, sizes.row_bytes)
    real = elements(stored, sizes.bits, sizes.depth).astype(np.float32)
    real -= zero_points(sizes, zeros).astype(np.float32)[:, own]
    real *= scales.reshape(sizes.rows, sizes.blocks)[:, own]
    made = np.matmul(x, real.T)
    return made if bias is None else made + bias


def _infer(op: Op) -> list[TensorType]:
    if not ranked(op):
        return stated(op)
    x, sizes = operand(op, X), bit_sizes(attributes(op))
    if not x.shape or x.shape[-1] not in (None, sizes.depth):
        why = f"{list(x.shape)}, and K is {sizes.depth}"
        raise GraphError("rows are not of the length that K states", where=op.name, why=why)
    _check(op, WEIGHTS, sizes.rows * sizes.row_bytes)
    _check(op, SCALES, sizes.rows * sizes.blocks)
    _check(op, ZEROS, sizes.rows * sizes.zero_bytes)
    _check(op, BIAS, sizes.rows)
    return [TensorType(x.dtype, (*x.shape[:-1], sizes.rows))]


def _check(op: Op, index: int, count: int) -> None:
    tensor = op.input(index)
    if tensor is not None and _count(tensor) != count:
        what = "an operand is not of the size that N, K and the blocks give"
        why = f"input {index} has the sizes {list(tensor.shape)}, not {counted(count, 'element')}"
        raise GraphError(what, where=op.name, why=why)


def _count(tensor: Tensor) -> int | None:
    return None if None in tensor.shape else tensor.elements


def _cost(op: Op) -> Cost:
    x, sizes = operand(op, X), bit_sizes(attributes(op))
    rows = 0 if None in x.shape else x.elements // sizes.depth
    return Cost(rows * sizes.rows * sizes.depth, moves_bytes(op).bytes)


onnx_kind(KIND, _product, infer=_infer, inputs=(3, 6), cost=_cost)
