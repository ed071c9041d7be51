"""Packing for `matvec.h`: matrices that meet one vector at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circlet.backends.cpu.lower.integers.q8 import dot_is_signed
from circlet.backends.cpu.lower.integers.requantisation import ChannelOrder
from circlet.ops.requantize import wrap_int32
from circlet.target.targets import Target

Floats = npt.NDArray[np.float32]
Int8 = npt.NDArray[np.int8]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

MOST_VECTORS = 8


@dataclass(frozen=True)
class Blocks:
    """How outputs are dealt out: `count` blocks of `vectors` registers of `lanes` lanes."""

    count: int
    vectors: int
    lanes: int

    @property
    def slots(self) -> int:
        """Lanes of all blocks."""
        return self.count * self.vectors * self.lanes


def blocks_of(outputs: int, lanes: int, most: int = MOST_VECTORS) -> Blocks:
    """Blocks of as equal size as can be, of at most so many registers, few left over."""
    registers = -(-outputs // lanes)
    count = -(-registers // most)
    return Blocks(count, -(-registers // count), lanes)


def whole_registers(count: int, lanes: int) -> int:
    """`count` rounded up to whole registers."""
    return -(-count // lanes) * lanes


def spread_rows(rows: list[np.ndarray], stride: int) -> np.ndarray:
    """Arrays of one length under each other, each with zeros behind it up to `stride` rows."""
    return np.concatenate([_padded(row, stride) for row in rows])


def pack_floats(weights: Floats, bias: Floats, blocks: Blocks) -> Floats:
    """Per block: the biases, then the weights of each input."""
    columns = np.concatenate([bias.reshape(1, -1), weights.T])
    width = blocks.vectors * blocks.lanes
    padded = np.pad(columns, ((0, 0), (0, blocks.slots - columns.shape[1])))
    shaped = padded.reshape(len(columns), blocks.count, width)
    return np.ascontiguousarray(shaped.transpose(1, 0, 2), np.float32)


def pack_bytes(weights: Int8, blocks: Blocks) -> Int8:
    """Per block and four inputs: the four weights of each output."""
    outputs, inputs = weights.shape
    padded = np.pad(weights, ((0, blocks.slots - outputs), (0, -inputs % 4)))
    shaped = padded.reshape(blocks.count, blocks.vectors * blocks.lanes, -1, 4)
    return np.ascontiguousarray(shaped.transpose(0, 2, 1, 3))


def records(bias: Int64, mantissa: Int64, shift: Int64, blocks: Blocks) -> Int32:
    """What `matvec.h` does with sums, one record per register; arguments are per output."""
    order = ChannelOrder(np.arange(blocks.slots), blocks.slots, blocks.lanes)
    columns = (wrap_int32(bias), mantissa, np.maximum(shift, 0), np.maximum(-shift, 0))
    return order.table(dict(enumerate(columns)))


def stored_offset(weights: Int8, target: Target) -> Int64:
    """What sums are over by where activations enter the dot product with their top bit flipped."""
    flip = 0 if dot_is_signed(target) else 128
    return flip * weights.astype(np.int64).sum(axis=1)


def _padded(rows: np.ndarray, count: int) -> np.ndarray:
    return np.pad(rows, [(0, count - len(rows))] + [(0, 0)] * (rows.ndim - 1))
