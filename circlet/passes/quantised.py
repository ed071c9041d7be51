"""Scales, zero points and constants of ONNX's quantisation, as passes see them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from circlet.errors import CircletError
from circlet.ir import DType, Op, Origin, Quantization, Tensor
from circlet.ir.builder import constant
from circlet.ops import get
from circlet.ops.onnx.quantisation import DEQUANTIZE, dequantised
from circlet.ops.opdef import NoAttrs
from circlet.passes.rewriter import Rewriter

MOVES = frozenset({"TRANSPOSE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE"})
_FLIP = {DType.INT8: 128, DType.UINT8: -128}
_MOST_BIAS = 1 << 30  # whatever the weights are
_MOST_PRODUCT = 255 * 255
_MOST_SUM = (1 << 31) - 1


class Parameters(NamedTuple):
    """One scale and zero point."""

    scale: np.float32
    zero: int

    @property
    def quant(self) -> Quantization:
        """As a tensor has it."""
        return Quantization.per_tensor(float(self.scale), self.zero)

    def as_type(self, given: DType, wanted: DType) -> Parameters:
        """Those of the same real values, stored with the top bit flipped where types differ."""
        return self if given is wanted else Parameters(self.scale, self.zero + _FLIP[given])


class Weights(NamedTuple):
    """Integer weights with their quantisation, INT8 without zero points or UINT8 with one."""

    tensor: Tensor

    @property
    def scales(self) -> np.ndarray:
        """One for each channel, or one."""
        assert self.tensor.quant is not None
        return self.tensor.quant.scale


def parameters(op: Op) -> Parameters | None:
    """Scale and zero point of a QuantizeLinear or DequantizeLinear that has one known pair."""
    scale, zero = op.input(1), op.input(2)
    if scale is None or zero is None or scale.data is None or zero.data is None:
        return None
    if scale.data.size != 1 or zero.data.size != 1 or scale.dtype is not DType.FLOAT32:
        return None
    value = np.float32(scale.data.reshape(-1)[0])
    if not np.isfinite(value) or value <= 0:
        return None
    return Parameters(value, int(zero.data.reshape(-1)[0]))


def with_parameters(tensor: Tensor, found: Parameters) -> bool:
    """Give a tensor its quantisation; False where it has another."""
    if tensor.quant is None:
        tensor.quant = found.quant
    return found.quant.same_as(tensor.quant)


def as_type(
    data: Tensor, given: Parameters, dtype: DType, origin: Origin
) -> tuple[Tensor, tuple[Op, ...]]:
    """Stored values as INT8 or UINT8 ones of the same meaning, and the op that makes them so."""
    source = data
    ops: tuple[Op, ...] = ()
    if not with_parameters(data, given) or data.dtype is not dtype:
        source = data.like(f"{data.name}_{dtype.name.lower()}")
        source.dtype, source.quant = dtype, given.as_type(data.dtype, dtype).quant
        ops = (Op("QUANTIZE", [data], [source], NoAttrs(), origin),)
    return source, ops


def _dequantised(tensor: Tensor | None, rewriter: Rewriter) -> tuple[Op, list[Op]] | None:
    """The DequantizeLinear of a constant that a tensor descends from, and moves behind it."""
    moves: list[Op] = []
    op = rewriter.producer(tensor)
    while op is not None and op.kind in MOVES:
        if any(t is not None and not t.is_constant for t in op.inputs[1:]):
            return None
        moves.append(op)
        op = rewriter.producer(op.input(0))
    if op is None or op.label != DEQUANTIZE:
        return None
    if any(t is None or t.data is None for t in op.inputs):
        return None
    return op, moves[::-1]


def moved(values: np.ndarray, moves: list[Op]) -> np.ndarray | None:
    """What ops that move elements make of some, their other operands constants; None on failure."""
    try:
        for op in moves:
            others = [None if t is None else t.data for t in op.inputs[1:]]
            (values,) = get(op).evaluate(op, [values, *others])
    except CircletError:
        return None
    return values


def weights_of(tensor: Tensor | None, axis: int, rewriter: Rewriter) -> Weights | None:
    """Constant integer weights with scales along an axis; None for any others."""
    found = _dequantised(tensor, rewriter)
    if found is None or tensor is None:
        return None
    op, moves = found
    data, scale, zero = (t.data for t in op.inputs if t is not None and t.data is not None)
    stored = moved(data, moves)
    scales, zeros = (_per_channel(v, data.shape, moves, axis) for v in (scale, zero))
    if stored is None or scales is None or zeros is None or stored.dtype.itemsize != 1:
        return None
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    return _typed(tensor.name, stored, scales, zeros.astype(np.int64), axis)


def _per_channel(
    values: np.ndarray, shape: tuple[int, ...], moves: list[Op], axis: int
) -> np.ndarray | None:
    """Scales or zero points along an axis of moved weights; None where they vary along others."""
    if values.size == 1:
        return values.reshape(1)
    full = moved(np.ascontiguousarray(np.broadcast_to(values, shape)), moves)
    if full is None or full.size == 0:
        return None
    rows = np.moveaxis(full, axis, 0).reshape(full.shape[axis], -1)
    return rows[:, 0].copy() if (rows == rows[:, :1]).all() else None


def _typed(
    name: str, stored: np.ndarray, scales: np.ndarray, zeros: np.ndarray, axis: int
) -> Weights | None:
    """INT8 where zero points then vanish, else UINT8 with one."""
    centre = 128 if stored.dtype == np.uint8 else 0
    if (zeros == centre).all():
        values = (stored ^ 0x80).view(np.int8) if centre else stored
        zeros, dtype = np.zeros(scales.size, np.int64), DType.INT8
    elif scales.size == zeros.size == 1:
        values = stored if centre else (stored.view(np.uint8) ^ 0x80)
        zeros, dtype = zeros if centre else zeros + 128, DType.UINT8
    else:
        return None
    quant = Quantization(scales.astype(np.float32), zeros, axis if scales.size > 1 else 0)
    return Weights(constant(name, np.ascontiguousarray(values), quant, dtype=dtype))


def real_constant(tensor: Tensor, rewriter: Rewriter) -> np.ndarray | None:
    """The values of a float constant, stored as such or as integers."""
    if tensor.data is not None:
        return tensor.data if tensor.dtype is DType.FLOAT32 else None
    found = _dequantised(tensor, rewriter)
    if found is None:
        return None
    op, moves = found
    data, scale, zero = (t.data for t in op.inputs if t is not None and t.data is not None)
    return moved(dequantised(data, scale, zero), moves)


def bias_of(
    tensor: Tensor | None, data: Parameters, weights: Weights, rewriter: Rewriter
) -> tuple[Tensor | None] | None:
    """A bias in steps of the accumulator, in a tuple; None where it is not known or out of range.

    Values that are stored as integers of these very steps are taken as they are.
    """
    if tensor is None:
        return (None,)
    real = real_constant(tensor, rewriter)
    if real is None:
        return None
    step = np.float64(data.scale) * weights.scales.astype(np.float64)
    steps = np.rint(real.reshape(-1).astype(np.float64) / step)
    products = weights.tensor.elements // max(steps.size, 1)
    most = max(_MOST_BIAS, _MOST_SUM - products * _MOST_PRODUCT)
    if not np.isfinite(steps).all() or np.abs(steps).max(initial=0) > most:
        return None
    quant = Quantization(step.astype(np.float32), np.zeros(step.size, np.int64))
    return (constant(tensor.name, steps.astype(np.int32), quant),)
