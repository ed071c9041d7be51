"""Which numbers a network expects of a picture, as far as its graph tells.

Evidence, in the order of its weight: arithmetic that scales the input, its quantisation, names of
known families, and the first convolution. A batch normalisation that was folded into a convolution
leaves its bias b = beta - w * mean: over the channels, biases fall with the sums of weights by the
mean of what the network was trained on, which is near 0.5, 0 or 115 for pixels in 0..1, -1..1 or
0..255. Weights for 0..255 are also smaller by two orders of magnitude.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from circlet.formats.pixels import (
    GUESSED,
    IMPLIED,
    KNOWN,
    RANGES,
    PixelMapping,
    implied_by_quantisation,
    implied_by_type,
    mapping_of,
    of_whole_range,
    picture_layout,
)
from circlet.formats.tflite_metadata import TensorFacts
from circlet.ir import Graph, Op, Tensor

_MOVES = frozenset(
    (
        *("TRANSPOSE", "PAD", "PADV2", "MIRROR_PAD", "RESHAPE", "CAST", "DEQUANTIZE", "QUANTIZE"),
        *("EXPAND_DIMS", "SQUEEZE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"),
    )
)
_ARITHMETIC = frozenset(("ADD", "SUB", "MUL", "DIV"))
_CONVOLUTIONS = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D"))
_MOST_STEPS = 12
_ONE_CHANNEL, _COLOURS = 1, (3, 4)
_SMALL_WEIGHTS = 0.3  # sum of a filter's magnitudes; for inputs of about unit size it is above 0.8
_FEWEST_CHANNELS = 6
_CORRELATED = 0.65
_BYTES = 200.0  # what a quantised input that stands for pixel values reaches at least
_TRAINED_BIAS = 0.3  # deviation of biases; those that no normalisation is folded into are smaller

# Scopes that converters keep in names of tensors, and what the families' public code does.
_FAMILIES = (
    (r"MobilenetV[123]/|MobilenetEdge|InceptionV[1234]/|InceptionResnetV2/", "-1..1", "TF-Slim's"),
    (r"NASNet|nasnet_|pnasnet", "-1..1", "TF-Slim's NASNet"),
    (r"FeatureExtractor/Mobilenet|image_tensor", "-1..1", "TF's object detection API"),
    (r"mobilenetv2_|mobilenet_v[12]_|resnet50v2|inception_v3/|xception/", "-1..1", "Keras's"),
    (r"efficientnet-lite", "-1..1", "EfficientNet-Lite's"),
    (r"(?i)yolo", "0..1", "YOLO's"),
    (r"torchvision|features\.0\.0", "imagenet", "torchvision's"),
)


@dataclass(frozen=True)
class _Reached:
    """Where the input's numbers go: multiplied and moved, into a tensor that an op reads."""

    tensor: Tensor
    op: Op | None
    gain: np.ndarray
    offset: np.ndarray
    quantised: Tensor | None = None

    @property
    def is_scaled(self) -> bool:
        return bool(np.any(self.gain != 1) or np.any(self.offset != 0))


def pixel_mapping(graph: Graph, tensor: Tensor, facts: TensorFacts | None = None) -> PixelMapping:
    """How a picture becomes this input: known, implied by something, or guessed."""
    said = _of_metadata(tensor, facts)
    if said is not None:
        return said
    dtype = np.dtype(tensor.dtype.numpy)
    scale, zero_point = _quantisation(tensor)
    implied = implied_by_type(dtype, scale, zero_point)
    if implied is not None:
        return implied
    with np.errstate(all="ignore"):  # constants of a file may be of any size
        reached = _reached(graph, tensor)
        found = _of_arithmetic(reached) or _of_later_quantisation(reached) or _of_family(graph)
        return found or _guess(tensor, reached)


def _quantisation(tensor: Tensor) -> tuple[tuple[float, ...], tuple[int, ...]]:
    quant = tensor.quant
    if quant is None:
        return (), ()
    return tuple(map(float, quant.scale)), tuple(map(int, quant.zero_point))


def _of_metadata(tensor: Tensor, facts: TensorFacts | None) -> PixelMapping | None:
    if facts is None or not facts.mean or not facts.std:
        return None
    why = "the model's metadata has its mean and deviation"
    said = mapping_of(facts.mean, facts.std)
    scale, zero_point = _quantisation(tensor)
    dtype = np.dtype(tensor.dtype.numpy)
    if dtype.kind in "iu" and dtype.itemsize == 1 and len(scale) == 1 and scale[0] > 0:
        whole = of_whole_range(dtype, scale[0], zero_point[0])
        differences = (abs(whole.least - said.least), abs(whole.most - said.most))
        if said.range == "0..255" and whole.most < _BYTES:
            # "Take pixels as they are": converters wrote so of bytes, whatever these stand for.
            return whole.because(KNOWN, "the model's metadata has pixels taken as they are")
        if max(differences) <= 2 * scale[0]:
            # Both mean pixels as they are; rounding the stated mean would shift some by a step.
            return PixelMapping(whole.mean, whole.std, said.range, KNOWN, why)
    return said.because(KNOWN, why)


def _reached(graph: Graph, tensor: Tensor) -> _Reached:
    """Follow the only reader of the input through moves and arithmetic with constants."""
    consumers = graph.consumers()
    gain, offset = np.ones(1), np.zeros(1)
    quantised: Tensor | None = None
    for _ in range(_MOST_STEPS):
        readers = consumers.get(tensor, [])
        op = readers[0] if readers else None
        if op is None or not op.outputs:
            break
        if op.kind == "QUANTIZE" and tensor.dtype.is_float:
            quantised = quantised or op.outputs[0]
        if op.kind in _ARITHMETIC:
            moved = _moved(op, tensor, gain, offset)
            if moved is None:
                break
            gain, offset = moved
        elif op.kind not in _MOVES or op.input(0) is not tensor:
            return _Reached(tensor, op, gain, offset, quantised)
        tensor = op.outputs[0]
    return _Reached(tensor, None, gain, offset, quantised)


def _moved(
    op: Op, tensor: Tensor, gain: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Gain and offset after one more operation with a constant; None where there is none such."""
    first, second = op.input(0), op.input(1)
    constant = _real(second if first is tensor else first)
    if constant is None or constant.size not in (1, *_COLOURS):
        return None
    by = constant.reshape(-1)
    if op.kind == "MUL":
        return gain * by, offset * by
    if op.kind == "ADD":
        return gain, offset + by
    if first is not tensor:  # a constant less or divided by the picture
        return (-gain, by - offset) if op.kind == "SUB" else None
    if op.kind == "SUB":
        return gain, offset - by
    return (gain / by, offset / by) if np.all(by != 0) else None


def _real(tensor: Tensor | None) -> np.ndarray | None:
    """The real numbers of a constant, None where it is none or packed."""
    if tensor is None or tensor.data is None or not tensor.dtype.has_numpy:
        return None
    numbers = np.asarray(tensor.data, np.float64)
    quant = tensor.quant
    if quant is None or not len(quant.scale):
        return numbers
    scale, zero_point = quant.scale.astype(np.float64), quant.zero_point
    if scale.size == 1:
        return np.asarray((numbers - zero_point[0]) * scale[0])
    if not 0 <= quant.axis < numbers.ndim or numbers.shape[quant.axis] != scale.size:
        return None
    sizes = [1] * numbers.ndim
    sizes[quant.axis] = -1
    return np.asarray((numbers - zero_point.reshape(sizes)) * scale.reshape(sizes))


def _of_arithmetic(reached: _Reached) -> PixelMapping | None:
    """Of the usual ranges, the one that the network's own arithmetic brings to unit size."""
    if not reached.is_scaled or not np.all(np.isfinite(reached.gain)) or not np.all(reached.gain):
        return None
    names = ("0..1", "0..255", "-1..1")
    best = min(names, key=lambda name: _strangeness(RANGES[name], reached))
    gain, offset = float(np.mean(reached.gain)), float(np.mean(reached.offset))
    why = f"the network begins with x * {gain:.4g} {'-' if offset < 0 else '+'} {abs(offset):.4g}"
    return RANGES[best].because(IMPLIED, why)


def _strangeness(known: PixelMapping, reached: _Reached) -> float:
    """How far what a range becomes is from what networks compute with.

    That is -1..1, 0..1, +-2.6, or pixel values less their mean, as in Caffe's networks.
    """
    ends = [float(np.mean(end * reached.gain + reached.offset)) for end in _ends(known)]
    least, most = min(ends), max(ends)
    usual = ((-1.0, 1.0), (0.0, 1.0), (-2.118, 2.64), (-0.5, 0.5), (-115.0, 140.0))
    return min((abs(least - low) + abs(most - high)) / (high - low) for low, high in usual)


def _ends(known: PixelMapping) -> tuple[float, float]:
    return known.least, known.most


def _of_later_quantisation(reached: _Reached) -> PixelMapping | None:
    """What the quantisation implies that the network itself brings a float input to."""
    if reached.quantised is None:
        return None
    scale, zero_point = _quantisation(reached.quantised)
    dtype = np.dtype(reached.quantised.dtype.numpy)
    implied = implied_by_quantisation(dtype, scale, zero_point)
    if implied is None or implied.range not in RANGES:
        return None
    return RANGES[implied.range].because(IMPLIED, f"the network quantises it; {implied.why}")


def _of_family(graph: Graph) -> PixelMapping | None:
    names = "\n".join(tensor.name for tensor in graph.used_tensors())
    for pattern, name, family in _FAMILIES:
        found = re.search(pattern, names)
        if found:
            why = f"names such as {found.group()!r} are those of {family} networks"
            return RANGES[name].because(IMPLIED, why)
    return None


def _guess(tensor: Tensor, reached: _Reached) -> PixelMapping:
    filters = _filters(reached.op)
    is_first = picture_layout(tensor.static_shape) == "NCHW" and 3 in tensor.static_shape
    if filters is None and is_first:
        why = "most networks of colour pictures with the channels first want it"
        return RANGES["imagenet"].because(GUESSED, why, "0..1")
    if filters is None:
        why = "most small networks without scaling of their own want it"
        return RANGES["0..1"].because(GUESSED, why, "-1..1")
    weights, biases = filters
    sums = weights.sum(1)
    if np.median(np.abs(weights).sum(1)) < _SMALL_WEIGHTS:
        why = "the first convolution's weights are as small as for pixel values"
        return RANGES["0..255"].because(GUESSED, why, "0..1")
    centre = "imagenet" if is_first else "-1..1"
    is_grey = _ONE_CHANNEL in tensor.static_shape[1::2]
    if is_grey or len(sums) < _FEWEST_CHANNELS or biases.std() < _TRAINED_BIAS:
        why = "most networks of grey pictures want it"
        if not is_grey:
            why = "the first convolution's biases are small, as in networks without normalisation"
        return RANGES["0..1"].because(GUESSED, why, "-1..1")
    mean = -float(sums @ biases) / float(sums @ sums + 1e-9)
    agreement = -float(np.corrcoef(sums, biases)[0, 1]) if sums.std() > 0 else 0.0
    if agreement > _CORRELATED and 0.2 < mean < 0.9:
        why = f"the first convolution's biases make up for a mean of about {mean:.2f}"
        return RANGES["0..1"].because(GUESSED, why, "-1..1")
    why = "the first convolution's biases make up for no mean: it expects values around 0"
    return RANGES[centre].because(GUESSED, why, "0..1")


def _filters(op: Op | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Weights [channels, window] and biases [channels] of a first convolution."""
    if op is None or op.kind not in _CONVOLUTIONS:
        return None
    weights, biases = _real(op.input(1)), _real(op.input(2))
    if weights is None or weights.ndim != 4 or not weights.size:
        return None
    if op.kind == "DEPTHWISE_CONV_2D":
        weights = np.moveaxis(weights, -1, 0)
    flat = weights.reshape(weights.shape[0], -1)
    held = np.zeros(len(flat)) if biases is None else biases.reshape(-1)
    if held.shape != flat.shape[:1] or not (np.isfinite(flat).all() and np.isfinite(held).all()):
        return None
    return flat, held
