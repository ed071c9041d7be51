"""SVDF in float32, over 8-bit weights too, and for int8 values with an int8 or int16 past."""

from __future__ import annotations

import numpy as np

from circlet.backends.cpu.abi import LINE_BYTES, align
from circlet.backends.cpu.lower.floats.epilogue import CLAMPS
from circlet.backends.cpu.lower.products.matvec import (
    Blocks,
    blocks_of,
    pack_bytes,
    pack_floats,
    records,
    stored_offset,
)
from circlet.backends.cpu.lower.recurrent.hybrid import packed_matrix
from circlet.backends.cpu.lowering import (
    LOWERINGS,
    Context,
    Kernel,
    Lowering,
    ParamValue,
    Rank,
    Ref,
    TensorRef,
)
from circlet.ir import DType, Op
from circlet.ops.lstm_float import real_vector
from circlet.ops.operands import limits, operand, zero_of
from circlet.ops.requantize import activation_of, wrap_int32
from circlet.ops.svdf import (
    BIAS,
    FEATURES,
    STATE,
    TIME,
    SvdfAttrs,
    factors_of,
    is_hybrid,
    sizes_of,
)
from circlet.target.targets import Target


def _refuses(op: Op, dtype: DType) -> str | None:
    data = operand(op, 0)
    if data.dtype is not dtype:
        return f"does not take {data.dtype.name}"
    return "constant input" if data.is_constant else None


def _refuses_float(op: Op, target: Target) -> str | None:
    if is_hybrid(op):
        return "does not take 8-bit weights"
    return _refuses(op, DType.FLOAT32)


def _refuses_hybrid(op: Op, target: Target) -> str | None:
    if not is_hybrid(op):
        return "does not take float weights"
    return _refuses(op, DType.FLOAT32)


def _refuses_stored(op: Op, target: Target) -> str | None:
    return _refuses(op, DType.INT8)


def _bias(op: Op) -> np.ndarray:
    bias, state = op.input(BIAS), operand(op, STATE)
    dtype = np.float32 if state.dtype is DType.FLOAT32 else np.int64
    if bias is None:
        return np.zeros(sizes_of(op).units, dtype)
    return np.asarray(bias.data).astype(dtype).reshape(-1)


def _size_params(op: Op, blocks: Blocks) -> dict[str, ParamValue]:
    sizes = sizes_of(op)
    return {
        "size_inputs": sizes.inputs,
        "size_filters": sizes.filters,
        "size_units": sizes.units,
        "size_memory": sizes.memory,
        "size_rank": sizes.filters // sizes.units,
        "size_blocks": blocks.count,
    }


def _blocks(op: Op, context: Context) -> Blocks:
    return blocks_of(sizes_of(op).filters, context.vector_bytes // 4)


def _call(
    op: Op,
    context: Context,
    kernel: Kernel,
    params: dict[str, ParamValue],
    constants: tuple[Ref, ...],
    scratch_bytes: int,
) -> None:
    state, result = operand(op, STATE), op.outputs[0]
    operands = (TensorRef(operand(op, 0)), *constants, TensorRef(state), TensorRef(result))
    context.call(
        op,
        kernel,
        params,
        operands,
        (result, state),
        tasks=sizes_of(op).batches,
        scratch_bytes=scratch_bytes,
    )


def _float_params(op: Op, blocks: Blocks) -> dict[str, ParamValue]:
    low, high = CLAMPS[activation_of(op)]
    return _size_params(op, blocks) | {"low": low, "high": high}


def _lower_float(op: Op, context: Context) -> None:
    blocks, weights = _blocks(op, context), np.asarray(operand(op, FEATURES).data)
    packed = pack_floats(weights, np.zeros(len(weights), np.float32), blocks)
    arrays = (packed, np.asarray(operand(op, TIME).data), _bias(op))
    kernel = Kernel("svdf.h", "svdf_f32", (blocks.vectors,))
    constants = tuple(context.constant(array) for array in arrays)
    _call(op, context, kernel, _float_params(op, blocks), constants, 4 * blocks.slots)


def _lower_hybrid(op: Op, context: Context) -> None:
    blocks, sizes = _blocks(op, context), sizes_of(op)
    start = align(4 * blocks.slots, LINE_BYTES)
    params: dict[str, ParamValue] = {
        "quantised": start,
        "asymmetric": int(op.attributes(SvdfAttrs).asymmetric_quantize_inputs),
    }
    floats = _float_params(op, blocks)
    params |= {f"floats_{name}": value for name, value in floats.items()}
    features = packed_matrix(op, [FEATURES], sizes.filters, blocks, context)
    time = real_vector(op, TIME, np.asarray(operand(op, TIME).data))
    constants = (*features, context.constant(time), context.constant(_bias(op)))
    kernel = Kernel("svdf_hybrid.h", "svdf_hybrid", (blocks.vectors,))
    _call(op, context, kernel, params, constants, start + sizes.inputs + 64)


def _lower_stored(op: Op, context: Context) -> None:
    blocks, state = _blocks(op, context), operand(op, STATE)
    weights, time = (np.asarray(operand(op, i).data) for i in (FEATURES, TIME))
    (mantissa, shift), (multiplier, last_shift) = factors_of(op)
    full = np.ones(len(weights), np.int64)
    offset = zero_of(operand(op, 0)) * weights.astype(np.int64).sum(axis=1)
    table = records(
        -offset - stored_offset(weights, context.target), full * mantissa, full * shift, blocks
    )
    units = sizes_of(op).units
    # sum((s - zero) t) = sum(s t) - zero sum(t): the second sum is constant, and joins the bias.
    passed = zero_of(state) * time.astype(np.int64).reshape(units, -1).sum(axis=1)
    bias = wrap_int32(_bias(op) - passed).astype(np.int32)
    low, high = limits(state.dtype)
    start = align(4 * blocks.slots, LINE_BYTES)
    params: dict[str, ParamValue] = {
        "in_offset": start,
        "state_zero": zero_of(state),
        "state_low": low,
        "state_high": high,
        "multiplier": multiplier,
        "shift": last_shift,
        "zero": zero_of(op.outputs[0]),
    }
    element = "ELEMENT_I16" if state.dtype is DType.INT16 else "ELEMENT_I8"
    kernel = Kernel("svdf.h", "svdf_q8", (blocks.vectors, element))
    arrays = (pack_bytes(weights, blocks), table, time, bias)
    constants = tuple(context.constant(array) for array in arrays)
    sizes = _size_params(op, blocks)
    end = start + align(sizes_of(op).inputs, LINE_BYTES)
    _call(op, context, kernel, sizes | params, constants, end)


LOWERINGS.add(Lowering("SVDF", "svdf_f32", _refuses_float, _lower_float))
LOWERINGS.add(Lowering("SVDF", "svdf_hybrid", _refuses_hybrid, _lower_hybrid, rank=Rank.HYBRID))
LOWERINGS.add(Lowering("SVDF", "svdf_q8", _refuses_stored, _lower_stored, rank=Rank.INT8))
