"""AudioSpectrogram and Mfcc: TensorFlow's features of sound, computed in double."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circlet.errors import GraphError
from circlet.ir import DType, Op
from circlet.ops import checks
from circlet.ops.guard import look
from circlet.ops.opdef import Arrays, Cost, OpDef, Rule, TensorType, register
from circlet.ops.operands import moves_bytes, operand, present

Real = npt.NDArray[np.float64]
_ROWS_AT_ONCE = 64
_LEAST_ENERGY = 1e-12
_MOST_BANDS, _MOST_COEFFICIENTS = 4096, 1024


@dataclass(frozen=True)
class SpectrogramAttrs:
    """Samples of a window and from one to the next; whether energies or their roots are given."""

    window_size: int = 0
    stride: int = 0
    magnitude_squared: bool = False


@dataclass(frozen=True)
class MfccAttrs:
    """Hertz between which bands lie, and how many bands and coefficients there are."""

    upper_frequency_limit: float = 4000.0
    lower_frequency_limit: float = 20.0
    filterbank_channel_count: int = 40
    dct_coefficient_count: int = 13


class Bands(NamedTuple):
    """Which bins count, the band below each, and how much of a bin belongs to that band."""

    bins: slice
    below: npt.NDArray[np.int64]
    weights: Real


def _spectrogram(op: Op, arrays: Arrays) -> list[np.ndarray]:
    attrs, sound = op.attributes(SpectrogramAttrs), present(arrays[0])
    length = _transform_length(attrs.window_size)
    frame_count = _frame_count(attrs, sound.shape[0])
    phase = 2 * np.pi * np.arange(attrs.window_size) / attrs.window_size
    window = 0.5 - 0.5 * np.cos(phase)
    made = np.empty((sound.shape[1], frame_count, length // 2 + 1), np.float32)
    for channel in range(sound.shape[1] if frame_count else 0):
        samples = sound[:, channel].astype(np.float64)
        frames = np.lib.stride_tricks.sliding_window_view(samples, attrs.window_size)
        for rows in _blocks(frame_count):
            spectrum = np.fft.rfft(frames[:: attrs.stride][rows] * window, length)
            made[channel, rows] = spectrum.real**2 + spectrum.imag**2
    return [made if attrs.magnitude_squared else np.sqrt(made)]


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, _ROWS_AT_ONCE):
        look()
        yield slice(start, min(start + _ROWS_AT_ONCE, count))


def _transform_length(window: int) -> int:
    return 1 << (window - 1).bit_length()


def _frame_count(attrs: SpectrogramAttrs, samples: int) -> int:
    return max(0, 1 + (samples - attrs.window_size) // attrs.stride)


def _infer_spectrogram(op: Op) -> list[TensorType]:
    attrs, (samples, channels) = op.attributes(SpectrogramAttrs), operand(op, 0).shape
    count = None if samples is None else _frame_count(attrs, samples)
    bins = _transform_length(attrs.window_size) // 2 + 1
    return [TensorType(DType.FLOAT32, (channels, count, bins))]


def _spectrogram_cost(op: Op) -> Cost:
    """Ten operations for each value and doubling of the length."""
    doublings = op.attributes(SpectrogramAttrs).window_size.bit_length()
    made = op.outputs[0].elements
    return Cost(bytes=moves_bytes(op).bytes, arithmetic=20 * made * doublings)


def _mfcc(op: Op, arrays: Arrays) -> list[np.ndarray]:
    """Logarithms of bands of the roots of energies, and the cosines that they are made of."""
    attrs, energies = op.attributes(MfccAttrs), present(arrays[0])
    rate = int(present(arrays[1]).reshape(-1)[0])
    if rate <= 0:
        raise GraphError("the rate of samples must be positive", where=op.name, why=f"it is {rate}")
    rows = energies.reshape(-1, energies.shape[-1])
    made = np.zeros((len(rows), attrs.dct_coefficient_count), np.float32)
    bands = mel_bands(attrs, energies.shape[-1], rate)
    if bands is not None:
        cosines = _cosines(attrs)
        for block in _blocks(len(rows)):
            sums = _sums(attrs, bands, np.sqrt(rows[block].astype(np.float64)))
            made[block] = np.log(np.maximum(sums, _LEAST_ENERGY)) @ cosines
    return [made.reshape(*energies.shape[:-1], -1)]


def mel_bands(attrs: MfccAttrs, bins: int, rate: int) -> Bands | None:
    """Triangles on the mel scale; None where they reach beyond the spectrum, and nothing counts."""
    step = 0.5 * rate / (bins - 1)
    low, high = float(_mel(attrs.lower_frequency_limit)), float(_mel(attrs.upper_frequency_limit))
    count = attrs.filterbank_channel_count
    first, last = (
        int(1.5 + attrs.lower_frequency_limit / step),
        int(attrs.upper_frequency_limit / step),
    )
    if last >= bins:
        return None
    edges = low + (high - low) / (count + 1) * np.arange(count + 2)
    mels = _mel(np.arange(first, max(last + 1, first), dtype=np.float64) * step)
    below = np.minimum(np.searchsorted(edges[1:-1], mels, side="left"), count) - 1
    weights = (edges[below + 2] - mels) / (edges[below + 2] - edges[below + 1])
    return Bands(slice(first, max(last + 1, first)), below, weights)


def _sums(attrs: MfccAttrs, bands: Bands, sizes: Real) -> Real:
    sums = np.zeros((attrs.filterbank_channel_count + 2, len(sizes)))
    counted = sizes[:, bands.bins].T
    falling = counted * bands.weights[:, None]
    np.add.at(sums, bands.below + 1, falling)
    np.add.at(sums, bands.below + 2, counted - falling)
    return sums[1:-1].T


def _mel(hertz: float | Real) -> Real:
    mels: Real = np.asarray(1127.0 * np.log1p(np.asarray(hertz, np.float64) / 700.0))
    return mels


def _cosines(attrs: MfccAttrs) -> Real:
    count = attrs.filterbank_channel_count
    places = np.pi / count * (np.arange(count) + 0.5)
    cosines: Real = np.cos(np.outer(places, np.arange(attrs.dct_coefficient_count)))
    return np.sqrt(2.0 / count) * cosines


def _limits_hold(op: Op) -> bool:
    attrs = op.attributes(MfccAttrs)
    low, high = attrs.lower_frequency_limit, attrs.upper_frequency_limit
    return bool(np.isfinite([low, high]).all()) and 0 <= low < high


def _bins_hold(op: Op) -> bool:
    shape = operand(op, 0).shape
    return len(shape) == 3 and (shape[2] or 2) >= 2


def _mfcc_cost(op: Op) -> Cost:
    attrs, made = op.attributes(MfccAttrs), op.outputs[0].elements
    macs = made * attrs.filterbank_channel_count
    work = 30 * operand(op, 0).elements + 30 * attrs.filterbank_channel_count
    return Cost(macs=macs, bytes=moves_bytes(op).bytes, arithmetic=work)


register(
    OpDef(
        kind="CUSTOM:AudioSpectrogram",
        attrs=SpectrogramAttrs,
        arity=(1, 1),
        dtypes=("FLOAT32 -> FLOAT32",),
        infer=_infer_spectrogram,
        evaluate=_spectrogram,
        rules=(
            checks.at_least(("window_size",), 2),
            checks.at_least(("stride",), 1),
            checks.rank_is(0, 2, "sound"),
        ),
        numerics="tolerance",
        cost=_spectrogram_cost,
    )
)

register(
    OpDef(
        kind="CUSTOM:Mfcc",
        attrs=MfccAttrs,
        arity=(2, 2),
        required=2,
        dtypes=("FLOAT32 INT32 -> FLOAT32",),
        infer=lambda op: [
            TensorType(
                DType.FLOAT32,
                (*operand(op, 0).shape[:2], op.attributes(MfccAttrs).dct_coefficient_count),
            )
        ],
        evaluate=_mfcc,
        rules=(
            checks.at_least(("filterbank_channel_count",), 1, _MOST_BANDS),
            checks.at_least(("dct_coefficient_count",), 1, _MOST_COEFFICIENTS),
            Rule(
                "coefficients",
                lambda op: (
                    op.attributes(MfccAttrs).dct_coefficient_count
                    <= op.attributes(MfccAttrs).filterbank_channel_count
                ),
                "there cannot be more coefficients than bands",
                sized=False,
            ),
            Rule("limits", _limits_hold, "bands must lie between two frequencies, 0 or more"),
            Rule("bins", _bins_hold, "the spectrogram needs 3 dimensions and 2 bins or more"),
            Rule(
                "rate",
                lambda op: operand(op, 1).shape in ((), (1,), (None,)),
                "the rate of samples must be one number",
            ),
        ),
        numerics="tolerance",
        cost=_mfcc_cost,
    )
)
