"""Packing for `matvec_hybrid.h`: matrices of 8 bits that meet one float vector at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.cpu.lower.products.matvec import Blocks, pack_bytes, spread_rows
from circlet.backends.cpu.lowering import Context, Ref
from circlet.ir import Op
from circlet.ops.operands import operand, scale_of


def packed_matrix(
    op: Op, positions: Sequence[int], stride: int, blocks: Blocks, context: Context
) -> tuple[Ref, Ref]:
    """Constant operands under each other, each of `stride` rows, and the records of their outputs.

    A record holds the scale and the sum of the weights of each output of a register.
    """
    stored = [np.asarray(operand(op, position).data).view(np.int8) for position in positions]
    weights = spread_rows(stored, stride)
    scales = [np.float32(scale_of(operand(op, position))) for position in positions]
    columns = np.zeros((2, blocks.slots), np.int32)
    per_output = np.repeat(np.array(scales, np.float32), stride)
    columns[0, : per_output.size] = per_output.view(np.int32)
    columns[1, : len(weights)] = weights.astype(np.int64).sum(axis=1)
    records = columns.reshape(2, -1, blocks.lanes).transpose(1, 0, 2)
    return context.constant(pack_bytes(weights, blocks)), context.constant(records)
