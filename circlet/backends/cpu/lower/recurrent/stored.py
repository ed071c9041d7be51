"""Layers of LSTM cells over 8-bit weights, which see bytes by a scale that a run finds."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from circlet.backends.cpu.lower.integers.conv_q8 import call_conv_q8
from circlet.backends.cpu.lower.integers.epilogue import Q8Epilogue, Q8Product
from circlet.backends.cpu.lower.integers.q8 import Int8
from circlet.backends.cpu.lower.integers.requantisation import HYBRID, Requantisation, in_order
from circlet.backends.cpu.lower.products.matvec import (
    Blocks,
    Floats,
    Int32,
    pack_bytes,
    spread_rows,
)
from circlet.backends.cpu.lower.products.product import View, of_rows
from circlet.backends.cpu.lower.views import source_ref
from circlet.backends.cpu.lowering import Context, Kernel, TensorRef
from circlet.ir import Op, Tensor
from circlet.ops.operands import operand

_RECORD_BYTES = 8
STORED_ROWS = 5  # of the parameters of a register of outputs


class Stored(NamedTuple):
    """Weights of 8 bits, gates in the order of `recurrent_f32.h`.

    Attributes:
        values: [directions, gates, hidden, operand].
        zeros: Zero points, [directions, gates, hidden].
        scales: The same.
    """

    values: Int8
    zeros: Int32
    scales: Floats

    @property
    def fits(self) -> bool:
        """Whether int8 holds all weights less their zero points, or these are all the same."""
        lowest, highest = self._centred.min(), self._centred.max()
        return bool((lowest >= -128 and highest <= 127) or (self.zeros == self.zeros.flat[0]).all())

    @property
    def _centred(self) -> Int32:
        return self.values.astype(np.int32) - self.zeros[..., None]

    def absorbed(self) -> tuple[Int8, int]:
        """Rows of int8, and the zero point that all of them still have."""
        centred = self._centred.reshape(-1, self.values.shape[-1])
        if centred.min() >= -128 and centred.max() <= 127:
            return centred.astype(np.int8), 0
        return self.values.reshape(centred.shape), int(self.zeros.flat[0])

    @property
    def real(self) -> Floats:
        """The numbers that they stand for."""
        made: Floats = self._centred.astype(np.float32) * self.scales[..., None]
        return made


def state_constants(states: Stored, bias: Floats, gate: int, blocks: Blocks) -> list[np.ndarray]:
    """Packed weights of the state, and what `recurrent_together.h` asks of their outputs."""
    packed, tables = [], []
    for values, zeros, scales, added in zip(*states, bias, strict=True):
        sums = values.sum(axis=2, dtype=np.int32) - zeros * np.int32(values.shape[2])
        packed.append(pack_bytes(spread_rows([*values], gate), blocks))
        rows = np.zeros((STORED_ROWS, blocks.slots), np.int32)
        for index, part in enumerate((zeros, scales, sums, added)):
            spread = spread_rows([*part], gate)
            rows[index, : len(spread)] = spread.view(np.int32)
        tables.append(rows.reshape(STORED_ROWS, -1, blocks.lanes).transpose(1, 0, 2))
    return [np.ascontiguousarray(np.stack(arrays)) for arrays in (packed, tables)]


def call_input_products(
    op: Op, context: Context, data: Tensor, weights: Stored, bias: Floats, result: View
) -> None:
    """Append the products of all steps with the input, which becomes bytes by one scale."""
    copy, scale = context.temporary(op, data.elements), context.temporary(op, _RECORD_BYTES)
    operands = source_ref(context, data), copy, scale
    written = copy.tensor, scale.tensor
    kernel = Kernel("recurrent_together.h", "recurrent_stored")
    context.call(op, kernel, {"count": data.elements}, operands, written)
    given = weights.absorbed()
    product = _product(op, context, (copy, scale), given, weights.scales, bias)
    call_conv_q8(product._replace(result=result), context)


def _product(
    op: Op,
    context: Context,
    stored: tuple[TensorRef, TensorRef],
    weights: tuple[Int8, int],
    scales: Floats,
    bias: Floats,
) -> Q8Product:
    (units, width), lanes = weights[0].shape, context.vector_bytes // 4
    data = operand(op, 0)

    def parameters(values: Int8, block: int) -> Requantisation:
        flat = values.reshape(units, -1)
        sums = flat.sum(axis=1, dtype=np.int32) - weights[1] * flat.shape[1]
        rows = {0: bias.reshape(-1).view(np.int32), 1: scales.reshape(-1).view(np.int32), 2: sums}
        return Requantisation(HYBRID, in_order(units, block, lanes).table(rows))

    bounds = {"float_low": -inf, "float_high": inf}
    epilogue = Q8Epilogue(parameters, weights[1], False, {**bounds}, stored[1])
    product: Q8Product = of_rows(op, data, data, (units, width), lambda: weights[0], epilogue)
    return product._replace(source=View(stored[0].tensor, stored[0].offset, 0, 0, width))
