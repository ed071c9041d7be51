"""The filter bank: bands of energy, their roots, what noise leaves of them, gain, logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log2

import numpy as np

from circlet.errors import GraphError
from circlet.ir import DType, Op, Tensor
from circlet.ops import checks
from circlet.ops.opdef import Arrays, Cost, NoAttrs, Rule, TensorType
from circlet.ops.operands import known_ints, moves_bytes, operand, present
from circlet.ops.signal.record import (
    kept,
    rank_is,
    signal_kind,
    size_at_least,
    state,
    with_states,
)

_MASK = (1 << 32) - 1
_LOG_SEGMENTS = 128
# ln 2 in 16 bits of fraction
_LN2 = 45426
_SNR_BITS, _GAIN_BITS = 12, 6
_GAIN_ENTRIES = 125
_INPUT, _WEIGHTS, _UNWEIGHTS, _BINS, _PLACES, _WIDTHS = range(6)


@dataclass(frozen=True)
class FilterBankAttrs:
    """The number of bands."""

    num_channels: int = 0


@dataclass(frozen=True)
class SpectralSubtractionAttrs:
    """How noise is followed; factors have `spectral_subtraction_bits` bits of fraction."""

    num_channels: int = 0
    smoothing: int = 0
    one_minus_smoothing: int = 0
    alternate_smoothing: int = 0
    alternate_one_minus_smoothing: int = 0
    smoothing_bits: int = 0
    spectral_subtraction_bits: int = 0
    min_signal_remaining: int = 0
    clamping: bool = False


@dataclass(frozen=True)
class LogAttrs:
    """What logarithms are multiplied by, and how far their operands are shifted left before."""

    input_correction_bits: int = 0
    output_scale: int = 0


@dataclass(frozen=True)
class PcanAttrs:
    """How far the product of signal and gain is shifted right."""

    snr_shift: int = 0


def _filter_bank(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Sums modulo 2**64; what weights leave of a band's bins counts for the next band."""
    energy, weights, unweights = (present(arrays[i]) for i in (_INPUT, _WEIGHTS, _UNWEIGHTS))
    table = [present(arrays[i]).tolist() for i in (_BINS, _PLACES, _WIDTHS)]
    if not _bands_lie_within(table, energy.size, min(weights.size, unweights.size)):
        raise GraphError("a band lies outside of the spectrum or the weights", where=op.name)
    count = op.attributes(FilterBankAttrs).num_channels + 1
    rising, falling = (np.zeros(count, np.uint64) for _ in range(2))
    for band, (start, place, width) in enumerate(_bands(table, count)):
        bins = energy[start : start + width].astype(np.uint64)
        rising[band] = _dot(weights[place : place + width], bins)
        falling[band] = _dot(unweights[place : place + width], bins)
    return [rising[1:] + falling[:-1]]


def _dot(weights: np.ndarray, bins: np.ndarray) -> np.uint64:
    factors = weights.astype(np.int64).astype(np.uint64)
    return np.uint64((factors * bins).sum(dtype=np.uint64))


def _bands(table: list[list[int]], count: int) -> list[tuple[int, int, int]]:
    """First bin, first weight and width of each band that has bins, nothing for the others."""
    rows = zip(*(column[:count] for column in table), strict=True)
    return [row if row[2] > 0 else (0, 0, 0) for row in rows]


def _bands_lie_within(table: list[list[int]], bins: int, weights: int) -> bool:
    rows = _bands(table, len(table[0]))
    return all(
        start >= 0 and place >= 0 and start + width <= bins and place + width <= weights
        for start, place, width in rows
    )


def _bands_fit(op: Op) -> bool:
    columns = [known_ints(op.input(i)) for i in (_BINS, _PLACES, _WIDTHS)]
    sizes = [operand(op, i).shape[0] for i in (_INPUT, _WEIGHTS, _UNWEIGHTS)]
    table = [list(column) for column in columns if column is not None]
    if len(table) < len(columns) or None in sizes:
        return True
    bins, *weights = (size or 0 for size in sizes)
    return len({len(c) for c in table}) == 1 and _bands_lie_within(table, bins, min(weights))


def _band_count_fits(op: Op) -> bool:
    sizes = [operand(op, i).shape[0] for i in (_BINS, _PLACES, _WIDTHS)]
    wanted = op.attributes(FilterBankAttrs).num_channels + 1
    return all(size is None or size >= wanted for size in sizes)


def _square_root(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Roots are shifted right by a number of bits, of which the lowest five count."""
    bits = int(present(arrays[1]).reshape(-1)[0]) & 31
    roots = [_rounded_root(value) >> bits for value in present(arrays[0]).tolist()]
    return [np.array(roots, np.uint32)]


def _rounded_root(value: int) -> int:
    """The nearest whole root; the largest number of 16 or of 32 bits is not rounded up."""
    root = isqrt(value)
    most = 0xFFFF if value <= _MASK else _MASK
    return root + 1 if value - root * root > root and root != most else root


def _subtraction_states(op: Op) -> list[Tensor]:
    count = op.attributes(SpectralSubtractionAttrs).num_channels
    return [state(op, "noise_estimate", DType.UINT32, (count,))]


def _subtract_noise(op: Op, arrays: Arrays) -> list[np.ndarray]:
    attrs = op.attributes(SpectralSubtractionAttrs)
    (estimate,) = kept(arrays, _subtraction_states(op))
    signal = present(arrays[0]).astype(np.uint64)
    odd = np.arange(signal.size) % 2 == 1
    taken = np.where(odd, attrs.alternate_smoothing & _MASK, attrs.smoothing & _MASK)
    left = np.where(
        odd, attrs.alternate_one_minus_smoothing & _MASK, attrs.one_minus_smoothing & _MASK
    )
    bits = np.uint64(attrs.spectral_subtraction_bits)
    scaled = (signal << np.uint64(attrs.smoothing_bits)) & np.uint64(_MASK)
    followed = scaled * taken.astype(np.uint64) + estimate.astype(np.uint64) * left.astype(
        np.uint64
    )
    noise = (followed >> bits) & np.uint64(_MASK)
    removed = np.minimum(noise, scaled)
    remaining = np.uint64(attrs.min_signal_remaining & _MASK)
    floor = ((signal * remaining) >> bits) & np.uint64(_MASK)
    result = np.maximum((scaled - removed) >> np.uint64(attrs.smoothing_bits), floor)
    made = (removed if attrs.clamping else noise).astype(np.uint32)
    return with_states(op, [result.astype(np.uint32), made], [made])


def _gain_control(op: Op, arrays: Arrays) -> list[np.ndarray]:
    signal, noise, table = (present(array) for array in arrays)
    entries, shift = table.tolist(), op.attributes(PcanAttrs).snr_shift
    gains = [_gain(value, entries) & _MASK for value in noise.tolist()]
    pairs = zip(signal.tolist(), gains, strict=True)
    ratios = [((value * gain & (1 << 64) - 1) >> shift) & _MASK for value, gain in pairs]
    return [np.array([_shrunk(ratio) for ratio in ratios], np.uint32)]


def _gain(noise: int, table: list[int]) -> int:
    """A function of wide range: for each power of two a parabola, of three numbers of the table."""
    if noise <= 2:
        return table[noise]
    interval = noise.bit_length()
    first, slope, curve = table[4 * interval - 6 : 4 * interval - 3]
    place = (noise << 11 - interval if interval < 11 else noise >> interval - 11) & 0x3FF
    risen = _signed(((curve * place >> 5) + (slope << 5)) * place, 32)
    return _signed((_signed(risen + (1 << 14), 32) >> 15) + first, 16)


def _signed(value: int, bits: int) -> int:
    """A whole number as a signed type of so many bits holds it."""
    half = 1 << (bits - 1)
    return (value + half & (1 << bits) - 1) - half


def _shrunk(ratio: int) -> int:
    """A quarter of the square below 2, one less from there on."""
    if ratio < 2 << _SNR_BITS:
        return (ratio * ratio) >> (2 + 2 * _SNR_BITS - _GAIN_BITS)
    return (ratio >> (_SNR_BITS - _GAIN_BITS)) - (1 << _GAIN_BITS)


def _logarithm_table() -> list[int]:
    """How far log2(1 + x) is above x at 128 places, in 16 bits of fraction."""
    places = [i / _LOG_SEGMENTS for i in range(_LOG_SEGMENTS + 1)]
    return [round((log2(1 + x) - x) * (1 << 16)) for x in places]


LOGARITHMS_ABOVE = _logarithm_table()


def _logarithm(op: Op, arrays: Arrays) -> list[np.ndarray]:
    attrs = op.attributes(LogAttrs)
    scaled = (
        (value << attrs.input_correction_bits) & _MASK for value in present(arrays[0]).tolist()
    )
    made = [_natural_log(value, attrs.output_scale) if value > 1 else 0 for value in scaled]
    return [np.array([min(value, (1 << 15) - 1) for value in made], np.int16)]


def _natural_log(value: int, scale: int) -> int:
    """The logarithm times `scale`, modulo 2**32."""
    whole = value.bit_length() - 1
    rest = value - (1 << whole)
    fraction = rest << 16 - whole if whole < 16 else rest >> whole - 16
    segment = fraction >> 9
    low, high = LOGARITHMS_ABOVE[segment], LOGARITHMS_ABOVE[segment + 1]
    binary = (whole << 16) + fraction + low + ((high - low) * (fraction - (segment << 9)) >> 16)
    natural = (_LN2 * binary + (1 << 15)) >> 16
    return ((scale * natural + (1 << 15)) & _MASK) >> 16


def _per_band(op: Op) -> Cost:
    """Some sixty operations for each band, one by one."""
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=64 * operand(op, 0).elements)


def _bank_cost(op: Op) -> Cost:
    bands = op.attributes(FilterBankAttrs).num_channels + 1
    most = max(operand(op, _INPUT).elements, operand(op, _WEIGHTS).elements)
    return Cost(bytes=moves_bytes(op).bytes, macs=2 * min(bands * most, bands << 15))


def _same_bands(op: Op) -> bool:
    return operand(op, 0).shape[0] in (None, operand(op, 1).shape[0] or operand(op, 0).shape[0])


def _subtraction_fits(op: Op) -> bool:
    return operand(op, 0).shape[0] in (None, op.attributes(SpectralSubtractionAttrs).num_channels)


FILTER_BANK = signal_kind(
    "FilterBank",
    FilterBankAttrs,
    ["UINT32 INT16 INT16 INT16 INT16 INT16 -> UINT64"],
    lambda op: [TensorType(DType.UINT64, (op.attributes(FilterBankAttrs).num_channels,))],
    _filter_bank,
    inputs=6,
    rules=(
        checks.at_least(("num_channels",), 1),
        rank_is(1, *range(6)),
        Rule("band_count", _band_count_fits, "every table of bands needs num_channels + 1 rows"),
        Rule("bands", _bands_fit, "a band lies outside of the spectrum or of the weights"),
    ),
    cost=_bank_cost,
)

SQUARE_ROOT = signal_kind(
    "FilterBankSquareRoot",
    NoAttrs,
    ["UINT64 INT32 -> UINT32"],
    lambda op: [TensorType(DType.UINT32, operand(op, 0).shape)],
    _square_root,
    inputs=2,
    rules=(
        rank_is(1, 0),
        Rule(
            "bits",
            lambda op: operand(op, 1).shape in ((), (1,)),
            "the number of bits to shift by must be one number",
        ),
    ),
    cost=_per_band,
)

SPECTRAL_SUBTRACTION = signal_kind(
    "FilterBankSpectralSubtraction",
    SpectralSubtractionAttrs,
    ["UINT32 -> UINT32"],
    lambda op: [TensorType(DType.UINT32, operand(op, 0).shape)] * 2,
    _subtract_noise,
    outputs=2,
    rules=(
        checks.at_least(("num_channels",), 1),
        checks.at_least(("smoothing_bits", "spectral_subtraction_bits"), 0, 31),
        rank_is(1, 0),
        Rule("bands", _subtraction_fits, "the input needs num_channels elements"),
    ),
    states=_subtraction_states,
    state_count=1,
    cost=_per_band,
)

PCAN = signal_kind(
    "PCAN",
    PcanAttrs,
    ["UINT32 UINT32 INT16 -> UINT32"],
    lambda op: [TensorType(DType.UINT32, operand(op, 0).shape)],
    _gain_control,
    inputs=3,
    rules=(
        checks.at_least(("snr_shift",), 0, 63),
        rank_is(1, 0, 1, 2),
        Rule("bands", _same_bands, "the noise needs one element for each of the input"),
        size_at_least(
            2, lambda op: _GAIN_ENTRIES, f"the table of gains needs {_GAIN_ENTRIES} elements"
        ),
    ),
    cost=_per_band,
)

LOGARITHM = signal_kind(
    "FilterBankLog",
    LogAttrs,
    ["UINT32 -> INT16"],
    lambda op: [TensorType(DType.INT16, operand(op, 0).shape)],
    _logarithm,
    rules=(checks.at_least(("input_correction_bits",), 0, 31), rank_is(1, 0)),
    cost=_per_band,
)
