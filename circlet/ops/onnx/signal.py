"""Windows of signals, Fourier transforms, and sampling on a grid."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from circlet.errors import GraphError
from circlet.ops.onnx.record import OnnxAttrs, axis_of, kinds, onnx_kind

Array = np.ndarray


def _window(cosines: tuple[float, ...]) -> Callable[..., Array]:
    """A sum of cosines over a period, which ends with the window or one element behind it."""

    def run(attrs: OnnxAttrs, size: Array) -> Array:
        count = int(size.reshape(-1)[0])
        period = count if attrs.get("periodic", 1) else max(count - 1, 1)
        turn = 2 * np.pi * np.arange(count) / period
        waves = [(-1) ** i * a * np.cos(i * turn) for i, a in enumerate(cosines)]
        return np.asarray(sum(waves))

    return run


kinds(
    {
        "HannWindow": _window((0.5, 0.5)),
        "HammingWindow": _window((25 / 46, 21 / 46)),
        "BlackmanWindow": _window((0.42, 0.5, 0.08)),
    }
)


def transformed(attrs: OnnxAttrs, x: Array, length: Any = None, axis: Any = None) -> Array:
    """A transform of numbers that are real, or pairs along the last axis."""
    rank = x.ndim
    place = attrs.get("axis", 1) if axis is None and attrs.opset < 20 else -2
    place = axis_of(int(np.asarray(axis).reshape(-1)[0]) if axis is not None else place, rank)
    count = None if length is None else int(np.asarray(length).reshape(-1)[0])
    values = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
    onesided, inverse = attrs.get("onesided", 0), attrs.get("inverse", 0)
    if inverse and onesided:
        return np.asarray(np.fft.irfft(values, count, place))[..., None]
    function = np.fft.ifft if inverse else np.fft.fft
    made = function(values, count, place)
    if onesided:
        made = np.take(made, range(made.shape[place] // 2 + 1), place)
    return np.stack([made.real, made.imag], -1)


onnx_kind("DFT", transformed, inputs=(1, 3))


def _reflected(x: Array, low: float, high: float) -> Array:
    """Places mirrored into a range."""
    span = high - low
    if span <= 0:
        return np.zeros_like(x)
    offset = np.abs(x - low)
    turns, rest = np.floor(offset / span), np.mod(offset, span)
    return np.asarray(np.where(turns % 2 == 0, low + rest, high - rest))


def _sampled(attrs: OnnxAttrs, x: Array, at: list[Array]) -> Array:
    """Elements at whole places, `x` being [channels, *sizes]; outside by the padding mode."""
    mode, inside = attrs.get("padding_mode", "zeros"), np.ones(at[0].shape, bool)
    places = []
    for axis, place in enumerate(at):
        size = x.shape[axis + 1]
        if mode == "border":
            place = np.clip(place, 0, size - 1)
        elif mode == "reflection":
            aligned = attrs.get("align_corners", 0)
            place = _reflected(place, *((0, size - 1) if aligned else (-0.5, size - 0.5)))
        inside &= (place >= 0) & (place <= size - 1)
        places.append(np.clip(np.rint(place), 0, size - 1).astype(np.int64))
    return np.where(inside, x[(slice(None), *places)], 0)


def _cubic(offset: Array) -> list[Array]:
    a, made = -0.75, []
    for step in (-1, 0, 1, 2):
        d = np.abs(offset - step)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        made.append(np.where(d <= 1, near, far))
    return made


def _grid_image(attrs: OnnxAttrs, x: Array, grid: Array) -> Array:
    """One image, sampled where a grid says; the grid's last coordinate is the first axis."""
    aligned, mode = attrs.get("align_corners", 0), attrs.get("mode", "linear")
    at = []
    for axis, size in enumerate(x.shape[1:]):
        unit = grid[..., grid.shape[-1] - 1 - axis].astype(np.float64)
        at.append((unit + 1) / 2 * (size - 1) if aligned else ((unit + 1) * size - 1) / 2)
    if mode == "nearest":
        return _sampled(attrs, x, [np.rint(place) for place in at])
    floors = [np.floor(place) for place in at]
    if mode in ("cubic", "bicubic"):
        weights = [_cubic(p - f) for p, f in zip(at, floors, strict=True)]
        first = -1
    else:
        weights = [[1 - (p - f), p - f] for p, f in zip(at, floors, strict=True)]
        first = 0
    total = np.zeros((x.shape[0], *at[0].shape))
    for steps in product(*(range(len(w)) for w in weights)):
        weight = np.prod([w[s] for w, s in zip(weights, steps, strict=True)], axis=0)
        places = [f + s + first for f, s in zip(floors, steps, strict=True)]
        total += weight * _sampled(attrs, x, places)
    return total


def _grid_sample(attrs: OnnxAttrs, x: Array, grid: Array) -> Array:
    return np.stack([_grid_image(attrs, a, g) for a, g in zip(x, grid, strict=True)])


onnx_kind("GridSample", _grid_sample, inputs=(2, 2))


def frames_transformed(
    attrs: OnnxAttrs, x: Array, step: Array, window: Any = None, length: Any = None
) -> Array:
    """Transforms of frames of a signal [batch, length, real or complex]."""
    hop = int(np.asarray(step).reshape(-1)[0])
    if length is not None:
        count = int(np.asarray(length).reshape(-1)[0])
    else:
        count = x.shape[1] if window is None else len(window)
    if hop < 1 or not 1 <= count <= x.shape[1]:
        why = f"frames of {count} every {hop} in {x.shape[1]}"
        raise GraphError("a signal cannot be cut into such frames", why=why)
    values = x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]
    frames = np.lib.stride_tricks.sliding_window_view(values, count, axis=1)[:, ::hop]
    made = np.fft.fft(frames if window is None else frames * window, count)
    if attrs.get("onesided", 1):
        made = made[..., : count // 2 + 1]
    return np.stack([made.real, made.imag], -1)


onnx_kind("STFT", frames_transformed, inputs=(2, 4), required=2)


def _mel_weights(
    attrs: OnnxAttrs, bins: Array, length: Array, rate: Array, low: Array, high: Array
) -> Array:
    """Triangles over the bins of a transform, evenly spaced in mel."""
    count, size = int(bins.reshape(-1)[0]), int(length.reshape(-1)[0])
    ends = [2595 * np.log1p(float(edge.reshape(-1)[0]) / 700) / np.log(10) for edge in (low, high)]
    mels = np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2)) + ends[0]
    hertz = 700 * np.expm1(mels / 2595 * np.log(10))
    places = ((size + 1) * hertz // int(rate.reshape(-1)[0])).astype(np.int64)
    made, rows = np.zeros((size // 2 + 1, count)), np.arange(size // 2 + 1)
    for index, (left, middle, right) in enumerate(
        zip(places, places[1:], places[2:], strict=False)
    ):
        rising = (rows >= left) & (rows <= middle)
        made[rising, index] = (rows[rising] - left) / (middle - left) if middle > left else 1
        falling = (rows >= middle) & (rows < right)
        made[falling, index] = (right - rows[falling]) / max(right - middle, 1)
    return made


onnx_kind("MelWeightMatrix", _mel_weights, inputs=(5, 5))
