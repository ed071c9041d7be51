"""LSTM kinds of int8 values with int16 gates: all steps in one kernel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.floats.tiles import registers_of
from circlet.backends.cpu.lower.integers.q8 import has_dot
from circlet.backends.cpu.lower.integers.requantisation import (
    FIXED,
    GENERAL,
    ChannelOrder,
    fits_fixed,
    fixed_parameters,
)
from circlet.backends.cpu.lower.products.matvec import (
    Blocks,
    pack_bytes,
    records,
    spread_rows,
    stored_offset,
    whole_registers,
)
from circlet.backends.cpu.lower.recurrent.lstm import (
    KINDS,
    Shape,
    call_lstm,
    flags,
    shape_of,
    table_ref,
    why_no_lstm,
)
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    NoRef,
    ParamValue,
    Rank,
    Ref,
)
from circlet.ir import DType, Op
from circlet.ops.lstm_int8 import GateParts, Parts, Product, parts_of
from circlet.ops.lstm_operands import cells, gates, inputs, outputs
from circlet.target.targets import Target

_FEW_REGISTERS = 16
_SUMS, _SUMS_OF_FEW_REGISTERS = 24, 8  # of 32 registers, and of 16 or fewer
_MOST_AHEAD = 4


def _refuses(op: Op, target: Target) -> str | None:
    return why_no_lstm(op, DType.INT8)


def _form(products: Sequence[Product]) -> str:
    """The form of requantisation that scales all of some products exactly."""
    return FIXED if all(map(_is_fixed, products)) else GENERAL


def _is_fixed(product: Product) -> bool:
    mantissa, shift = (np.full(1, part, np.int64) for part in product.multiplier)
    reach = np.abs(product.bias) + 128 * np.abs(product.weights.astype(np.int64)).sum(axis=1)
    return fits_fixed(mantissa, shift, reach, 0)


def _packed(
    products: Sequence[Product], stride: int, blocks: Blocks, form: str, context: Context
) -> tuple[Ref, Ref]:
    """Weights and records of products under each other."""
    weights = spread_rows([product.weights for product in products], stride)
    rows = [
        np.stack(
            [
                product.bias - stored_offset(product.weights, context.target),
                np.full_like(product.bias, product.multiplier[0]),
                np.full_like(product.bias, product.multiplier[1]),
            ],
            axis=1,
        )
        for product in products
    ]
    bias, mantissa, shift = spread_rows(rows, stride).T
    if form == FIXED:
        order = ChannelOrder(np.arange(blocks.slots), blocks.slots, blocks.lanes)
        table = fixed_parameters(bias, (mantissa, np.maximum(-shift, 1)), 0, order)
    else:
        table = records(bias, mantissa, shift, blocks)
    return context.constant(pack_bytes(weights, blocks)), context.constant(table)


def _factors(parts: Sequence[GateParts]) -> dict[str, ParamValue]:
    """The kernel's tables of factors, one for each gate."""
    columns = {
        "peephole_multiplier": [part.peephole_multiplier[0] for part in parts],
        "peephole_shift": [part.peephole_multiplier[1] for part in parts],
        "norm_multiplier": [part.norm_multiplier[0] for part in parts],
        "norm_shift": [part.norm_multiplier[1] for part in parts],
        "norm_limit": [part.norm_limit for part in parts],
    }
    return {name: [*values, 0][:4] for name, values in columns.items()}


def _ahead(shape: Shape, context: Context) -> int:
    """Steps whose products with inputs are made together: what registers hold the sums of."""
    has_many = registers_of(context.target, context.vector_bytes).count > _FEW_REGISTERS
    sums = _SUMS if has_many else _SUMS_OF_FEW_REGISTERS
    if not has_dot(context.target):
        sums //= 2
    return max(1, min(sums // shape.blocks.vectors, _MOST_AHEAD))


def _scratch(op: Op, shape: Shape, ahead: int) -> tuple[dict[str, ParamValue], int]:
    """Where each part of the scratch memory starts, and the size of all.

    The gates come first; each entry below is the size of what lies before the part it names.
    """
    projected = shape.projection.slots if shape.projection else 0
    in_pitch = align(inputs(op), LINE_BYTES)
    pairs = whole_registers(cells(op), 2 * shape.lanes)
    before = {
        "in_offset": 4 * shape.blocks.slots * ahead,
        "state_offset": in_pitch * ahead,
        "cell_offset": whole_registers(outputs(op), 2 * shape.lanes),
        "hidden_offset": 2 * pairs,
        "projected_offset": pairs,
    }
    starts: dict[str, ParamValue] = {"in_pitch": in_pitch, "gate_pitch": shape.blocks.slots}
    end = 0
    for name, size in before.items():
        end = align(end + size, LINE_BYTES)
        starts[name] = end
    return starts, end + 4 * projected


def _constants(parts: Parts) -> dict[str, ParamValue]:
    clip = parts.projection_clip
    return {
        "hidden_multiplier": parts.hidden[0],
        "hidden_shift": parts.hidden[1],
        "hidden_zero": parts.hidden_zero,
        "cell_clip": parts.cell_clip or 1 << 15,
        "zero": parts.output_zero,
        "low": -clip or -128,
        "high": clip or 127,
    }


def _projection(parts: Parts, shape: Shape, context: Context) -> tuple[Ref, Ref]:
    if parts.projection is None or shape.projection is None:
        return NoRef(), NoRef()
    rows, blocks = shape.projection.slots, shape.projection
    return _packed([parts.projection], rows, blocks, GENERAL, context)


def _lower(op: Op, context: Context) -> None:
    shape, parts = shape_of(op, context), parts_of(op)
    each = [parts.gates[gate] for gate in gates(op)]
    ahead = _ahead(shape, context)
    starts, size = _scratch(op, shape, ahead)
    projection = shape.projection.vectors if shape.projection else 0
    of_inputs, of_states = [part.inputs for part in each], [part.recurrent for part in each]
    form = _form([*of_inputs, *of_states])
    vectors, has_input_gate = shape.blocks.vectors, len(each) - 3
    cell = (projection, has_input_gate, parts.cell_bits, *flags(op))
    params = shape.params | starts | _factors(each) | _constants(parts)
    products = (
        *_packed(of_inputs, shape.gate, shape.blocks, form, context),
        *_packed(of_states, shape.gate, shape.blocks, form, context),
    )
    behind = (table_ref(op, shape, context, np.int32), *_projection(parts, shape, context))
    kernel = Kernel("lstm_q8.h", "lstm_q8", (vectors, *cell, ahead, form))
    call_lstm(op, context, shape, kernel, params, products, behind, size)


for _kind in KINDS:
    LOWERINGS.add(Lowering(_kind, f"{_kind.lower()}_q8", _refuses, _lower, rank=Rank.INT8))
