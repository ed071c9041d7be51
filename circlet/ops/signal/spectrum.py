"""SignalWindow, SignalFftAutoScale, SignalRfft, SignalIrfft and SignalEnergy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from circlet.ir import DType, Op
from circlet.ops import checks
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, NoAttrs, Rule, TensorType
from circlet.ops.operands import moves_bytes, operand, present, same_as_first
from circlet.ops.signal.fixed_fft import (
    FixedPoint,
    inverse_real_transform,
    radices_of,
    real_transform,
)
from circlet.ops.signal.record import rank_is, signal_kind

_POINTS = {np.dtype(np.int16): FixedPoint(15), np.dtype(np.int32): FixedPoint(31)}
_TYPES = ("INT16 -> INT16", "INT32 -> INT32", "FLOAT32 -> FLOAT32")


@dataclass(frozen=True)
class WindowAttrs:
    """How many bits the products with the window are shifted right."""

    shift: int = 0


@dataclass(frozen=True)
class FftAttrs:
    """The number of reals that are transformed."""

    fft_length: int = 0


@dataclass(frozen=True)
class EnergyAttrs:
    """The first bin of which the energy is wanted, and the one behind the last."""

    start_index: int = 0
    end_index: int = 0


def _window(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x, weights = present(arrays[0]), present(arrays[1])
    products = (x.astype(np.int32) * weights) >> op.attributes(WindowAttrs).shift
    return [np.clip(products, -(1 << 15), (1 << 15) - 1).astype(np.int16)]


def _window_fits(op: Op) -> bool:
    shape, weights = operand(op, 0).shape, operand(op, 1).shape
    return len(shape) >= 1 and len(weights) == 1 and weights[0] in (None, shape[-1] or weights[0])


def _auto_scale(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x = present(arrays[0])
    bits = max(15 - _highest_bit(_largest(x)), 0)
    return [(x.astype(np.int32) << bits).astype(np.int16), np.array(bits, np.int32)]


def _largest(x: np.ndarray) -> int:
    """The largest size of an element; -32768, whose size is no int16, starts anew from itself."""
    lowest = np.flatnonzero(x == -(1 << 15))
    if not lowest.size:
        return int(np.abs(x).max(initial=0))
    most = 0
    for value in x.tolist():
        most = value if value > most else (-value if -value > most else most)
        most = -most if most == 1 << 15 else most
    return most


def _highest_bit(value: int) -> int:
    """The place of the highest bit that is set, from 1; 32 for 0 and negative numbers."""
    return value.bit_length() if value > 0 else 32


def _transform(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x, length = present(arrays[0]), op.attributes(FftAttrs).fft_length
    point = _POINTS.get(x.dtype)
    if point is None:
        spectrum = np.fft.rfft(x.astype(np.float64), length)
        pairs = np.stack([spectrum.real, spectrum.imag], axis=-1)
        return [pairs.reshape(*x.shape[:-1], -1).astype(x.dtype)]
    padded = np.zeros((*x.shape[:-1], length), x.dtype)
    padded[..., : x.shape[-1]] = x
    return [_each_row(padded, length + 2, lambda row: real_transform(row, point))]


def _inverse(op: Op, arrays: Arrays) -> list[np.ndarray]:
    x, length = present(arrays[0]), op.attributes(FftAttrs).fft_length
    point = _POINTS.get(x.dtype)
    if point is None:
        spectrum = x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]
        return [np.fft.irfft(spectrum, length).astype(x.dtype)]
    return [_each_row(x, length, lambda row: inverse_real_transform(row, point))]


def _each_row(x: np.ndarray, width: int, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    rows = x.reshape(-1, x.shape[-1])
    made = np.empty((len(rows), width), x.dtype)
    for source, result in zip(rows, made, strict=True):
        look()
        result[...] = make(source)
    return made.reshape(*x.shape[:-1], width)


def _infer_transform(op: Op) -> list[TensorType]:
    data, length = operand(op, 0), op.attributes(FftAttrs).fft_length
    return [TensorType(data.dtype, (*data.shape[:-1], (length // 2 + 1) * 2))]


def _infer_inverse(op: Op) -> list[TensorType]:
    data = operand(op, 0)
    return [TensorType(data.dtype, (*data.shape[:-1], op.attributes(FftAttrs).fft_length))]


def _has_length(op: Op) -> bool:
    length = op.attributes(FftAttrs).fft_length
    return length % 2 == 0 and radices_of(length // 2) is not None


def _transform_fits(op: Op) -> bool:
    shape = operand(op, 0).shape
    return len(shape) >= 1 and (shape[-1] or 0) <= op.attributes(FftAttrs).fft_length


def _inverse_fits(op: Op) -> bool:
    shape = operand(op, 0).shape
    return len(shape) >= 1 and shape[-1] in (None, op.attributes(FftAttrs).fft_length + 2)


def _transform_cost(op: Op) -> Cost:
    """Ten operations for each element and doubling of the length."""
    moved = moves_bytes(op).bytes
    length = op.attributes(FftAttrs).fft_length
    elements = max(operand(op, 0).elements, op.outputs[0].elements)
    return Cost(bytes=moved, arithmetic=10 * elements * length.bit_length())


def _energy(op: Op, arrays: Arrays) -> list[np.ndarray]:
    pairs = present(arrays[0]).astype(np.int64).reshape(-1, 2)
    attrs = op.attributes(EnergyAttrs)
    energy = np.zeros(len(pairs), np.uint32)
    wanted = slice(attrs.start_index, attrs.end_index)
    energy[wanted] = (pairs[wanted] ** 2).sum(axis=1)
    return [energy]


def _infer_energy(op: Op) -> list[TensorType]:
    (size,) = operand(op, 0).shape
    return [TensorType(DType.UINT32, (None if size is None else size // 2,))]


def _energy_fits(op: Op) -> bool:
    (size,), attrs = operand(op, 0).shape, op.attributes(EnergyAttrs)
    ordered = 0 <= attrs.start_index <= attrs.end_index
    return ordered and (size is None or (size % 2 == 0 and attrs.end_index <= size // 2))


_LENGTH_RULES = (
    checks.at_least(("fft_length",), 4),
    Rule("length", _has_length, "fft_length must be even, and half of it a product of 2, 3, 5"),
)

WINDOW = signal_kind(
    "Window",
    WindowAttrs,
    ["INT16 INT16 -> INT16"],
    same_as_first,
    _window,
    inputs=2,
    rules=(
        checks.at_least(("shift",), 0, 31),
        Rule("window", _window_fits, "the window needs as many elements as a row of the input"),
    ),
)

AUTO_SCALE = signal_kind(
    "FftAutoScale",
    NoAttrs,
    ["INT16 -> INT16"],
    lambda op: [*same_as_first(op), TensorType(DType.INT32, ())],
    _auto_scale,
    outputs=2,
    rules=(rank_is(1, 0),),
    cost=lambda op: Cost(bytes=moves_bytes(op).bytes, arithmetic=4 * operand(op, 0).elements),
)

RFFT = signal_kind(
    "Rfft",
    FftAttrs,
    _TYPES,
    _infer_transform,
    _transform,
    rules=(
        *_LENGTH_RULES,
        Rule("row", _transform_fits, "a row of the input must not be longer than fft_length"),
    ),
    cost=_transform_cost,
)

IRFFT = signal_kind(
    "Irfft",
    FftAttrs,
    _TYPES,
    _infer_inverse,
    _inverse,
    rules=(
        *_LENGTH_RULES,
        Rule("row", _inverse_fits, "a row of the input must have fft_length + 2 elements"),
    ),
    cost=_transform_cost,
)

ENERGY = signal_kind(
    "Energy",
    EnergyAttrs,
    ["INT16 -> UINT32"],
    _infer_energy,
    _energy,
    rules=(
        rank_is(1, 0),
        Rule(
            "bins",
            _energy_fits,
            "the input needs pairs of numbers, start_index to end_index must lie within",
        ),
    ),
)
