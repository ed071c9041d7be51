"""Float rows times 4- or 8-bit weights with a scale for each block of inputs (`block_bits.h`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.floats.tiles import registers_of
from circlet.backends.cpu.lower.integers.q8 import dot_is_signed, has_dot, has_pairs
from circlet.backends.cpu.lowering import Context, Kernel, NoRef, Packed, Ref, TensorRef
from circlet.ir import Op
from circlet.target.targets import Target

BLOCK = 32
WHOLE_DIGITS = 3  # of an input whose products err about as floats' do

_SCALE_BYTES = 12  # of a block of inputs: a step, a sum, a correction
_FEW_REGISTERS = 16
_PACKED = 4  # vectors of outputs, where there are more registers
_ROWS = {True: {1: 8, 2: 4, 3: 4}, False: {1: 4, 2: 3, 3: 2}}  # rows at a time, by digits


@dataclass(frozen=True)
class BlockWeights:
    """Weights of a product, as they are stored.

    Attributes:
        values: UINT8 [units, depth], plus the middle of the range of `bits`.
        scales: FLOAT32 [units, depth / block].
        offsets: INT8, as scales: zero points less the middle of the range.
        biases: FLOAT32 [units].
    """

    values: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]
    offsets: npt.NDArray[np.int8]
    biases: npt.NDArray[np.float32]


@dataclass(frozen=True)
class BlockProduct:
    """Rows times weights.

    Attributes:
        rows: Of the input.
        units: Outputs of a row.
        depth: Inputs of a row.
        block: Inputs that share a scale, a multiple of BLOCK.
        bits: Of a weight: 4 or 8.
        digits: Of an input, see `rounded_digits` and WHOLE_DIGITS.
        clamp: The least and the greatest result.
    """

    rows: int
    units: int
    depth: int
    block: int
    bits: int
    digits: int = WHOLE_DIGITS
    clamp: tuple[float, float] = (-np.inf, np.inf)

    def lower(
        self, op: Op, context: Context, source: Ref, weights: Callable[[], BlockWeights]
    ) -> None:
        """Append the calls that make the product of `source` in the op's output."""
        blocks = -(-self.depth // BLOCK)
        split = context.temporary(op, self.rows * blocks * BLOCK * self.digits)
        steps = context.temporary(op, self.rows * blocks * _SCALE_BYTES)
        context.call(
            op,
            Kernel("block_bits.h", "block_bits_split", (self.bits, self.digits)),
            {"depth": self.depth},
            (source, split, steps),
            (split.tensor, steps.tensor),
            tasks=self.rows,
        )
        together, vectors, width = self._tile(context)
        packed = self._packed(op, context, width, weights)
        stored, scales, biases = packed.refs[:3]
        arguments = (self.bits, self.digits, int(packed.fact), together, vectors, width)
        low, high = self.clamp
        context.call(
            op,
            Kernel("block_bits.h", "block_bits", arguments),
            {
                "rows": self.rows,
                "blocks": blocks,
                "units": self.units,
                "per_scale": self.block // BLOCK,
                "low": low,
                "high": high,
            },
            (
                split,
                stored,
                scales,
                biases,
                TensorRef(op.outputs[0]),
                steps,
                packed.refs[3] if packed.fact else NoRef(),
            ),
            op.outputs,
            tasks=-(-self.units // (width * context.vector_bytes // 4)),
        )

    def _tile(self, context: Context) -> tuple[int, int, int]:
        """Rows at a time, vectors of outputs that share what is loaded of them, and packed ones.

        Those are of the target alone, so that networks of few and of many rows share weights.
        """
        count = registers_of(context.target, context.vector_bytes).count
        has_many = count > _FEW_REGISTERS
        most = _ROWS[has_many][self.digits]
        together = -(-self.rows // -(-self.rows // most))  # the last rows are not computed twice
        if not has_many:
            return together, 1, 1
        fits = together == 1 and self._registers(_PACKED, context.target) <= count
        return together, _PACKED if fits else _PACKED // 2, _PACKED

    def _registers(self, vectors: int, target: Target) -> int:
        """What a row takes: sums, their total, weights apart; inputs and constants besides."""
        is_by_smlal = dot_is_signed(target) and not has_dot(target) and self.bits == 4
        return vectors * (self.digits * (2 if is_by_smlal else 1) + 3) + 3

    def _packed(
        self, op: Op, context: Context, vectors: int, weights: Callable[[], BlockWeights]
    ) -> Packed:
        """Weights, scales and biases; zero points too, where that is the fact."""
        lanes = context.vector_bytes // 4
        flip = self._flip(context.target)

        def pack() -> tuple[list[np.ndarray], bool]:
            found = weights()
            biases = np.pad(found.biases, (0, -self.units % (vectors * lanes)))
            stored = _pack_halves if self.bits == 4 else _pack_bytes
            made = [
                stored(found.values, vectors, lanes) ^ flip,
                _spread(found.scales, vectors, lanes),
                biases,
            ]
            if not found.offsets.any():
                return made, False
            return [*made, _spread(found.offsets, vectors, lanes)], True

        return context.packed(op, f"blocks of {vectors} x {lanes} lanes, {flip}", pack)

    def _flip(self, target: Target) -> np.uint8:
        """What signed products of whole bytes want of weights."""
        is_whole = self.bits == 8 or (self.digits == WHOLE_DIGITS and has_dot(target))
        return np.uint8(128 if dot_is_signed(target) and is_whole else 0)


def rounded_digits(bits: int, target: Target) -> int:
    """Digits of an input of 8 bits: those that meet 8-bit weights in pairs have 7."""
    return 2 if has_pairs(target) and bits == 8 else 1


def _tiled(values: npt.NDArray[np.uint8], vectors: int, lanes: int) -> npt.NDArray[np.uint8]:
    """[units, depth] as [tasks, blocks, fours of inputs, vectors, lanes, 4]."""
    units, depth = values.shape
    padded = np.pad(values, ((0, -units % (vectors * lanes)), (0, -depth % BLOCK)))
    shaped = padded.reshape(-1, vectors, lanes, padded.shape[1] // BLOCK, BLOCK // 4, 4)
    return shaped.transpose(0, 3, 4, 1, 2, 5)


def _pack_bytes(values: npt.NDArray[np.uint8], vectors: int, lanes: int) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(_tiled(values, vectors, lanes))


def _pack_halves(values: npt.NDArray[np.uint8], vectors: int, lanes: int) -> npt.NDArray[np.uint8]:
    """Two inputs that are half a block apart share a byte."""
    turned, half = _tiled(values, vectors, lanes), BLOCK // 8
    return np.ascontiguousarray(turned[:, :, :half] | turned[:, :, half:] << 4)


def _spread(values: np.ndarray, vectors: int, lanes: int) -> np.ndarray:
    """[units, blocks] as [tasks, blocks, vectors, lanes]."""
    padded = np.pad(values, ((0, -len(values) % (vectors * lanes)), (0, 0)))
    shaped = padded.reshape(-1, vectors, lanes, values.shape[1])
    return np.ascontiguousarray(shaped.transpose(0, 3, 1, 2))
