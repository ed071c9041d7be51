"""What a person wants to see of an output: the best classes, shares of a map, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.artifact.values import Value
from circlet.commands.labels import NO_LABELS, Labels
from circlet.formats.pixels import picture_layout
from circlet.words import counted

_MANY_CLASSES = 1 << 20
_PART_ELEMENTS = 1 << 20
_MOST_MAP_CLASSES = 1024
_LEAST_MAP_SIDE = 16
_COARSEST_MAP = 8  # pixels of the picture beside each other that one place of a map stands for
_COLOURS = (3, 4)
_HALF = 0.5


@dataclass(frozen=True)
class Class:
    """One of the best classes: position, label ("" where unknown), score as a real number."""

    index: int
    label: str
    score: float


@dataclass(frozen=True)
class Share:
    """A class of a label map, and the part of the map that it covers."""

    index: int
    label: str
    share: float


@dataclass(frozen=True)
class ClassMap:
    """A map of classes: the class of each place [height, width].

    `count` is how many classes it tells apart, 0 where it does not say.
    """

    classes: np.ndarray
    count: int = 0


@dataclass(frozen=True)
class Answer:
    """One output, made readable; one of the lists is non-empty, or none.

    `text` holds the first strings of an output of strings, whose numbers are all 0. `labels` says
    where labels are from, "" where there are none.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    minimum: float
    maximum: float
    mean: float
    first: tuple[float, ...]
    top: tuple[Class, ...] = ()
    shares: tuple[Share, ...] = ()
    text: tuple[str, ...] = ()
    labels: str = ""
    labels_are_guessed: bool = False


def answer(
    value: Value,
    array: np.ndarray,
    labels: Labels,
    count: int,
    *,
    classes: ClassMap | None = None,
    has_scores: bool = True,
) -> Answer:
    """The summary of an output, with the `count` best classes where it is a list of scores.

    Labels that do not fit are left out. `classes` is the map of classes that the output is, if it
    is one, as `class_map` has it; `has_scores` says whether a list has a score for each class.
    """
    if value.is_text:
        text = tuple(element.decode(errors="replace") for element in array.reshape(-1)[:5])
        return Answer(value.name, "string", array.shape, 0.0, 0.0, 0.0, (), text=text)
    first = tuple(float(x) for x in dequantised(value, array.reshape(-1)[:5]))
    facts = (value.name, value.dtype, array.shape, *_summary(value, array), first)
    names = labels.fitted(class_count(array, classes, has_scores=has_scores))
    said = (labels.source, labels.is_guessed) if names else ("", False)
    if has_scores and is_score_list(array):
        top = _top(dequantised(value, array).reshape(-1), names, count)
        return Answer(*facts, top=top, labels=said[0], labels_are_guessed=said[1])
    if classes is not None:
        if not classes.count and not names:
            names = labels.names
        shares = _shares(classes.classes, names, count)
        return Answer(*facts, shares=shares, labels=said[0], labels_are_guessed=said[1])
    return Answer(*facts)


def class_count(
    array: np.ndarray, classes: ClassMap | None = None, *, has_scores: bool = True
) -> int:
    """How many classes an output tells apart, 0 where it does not say."""
    if has_scores and is_score_list(array):
        return array.size
    return classes.count if classes else 0


def is_score_list(array: np.ndarray) -> bool:
    """Whether an output [N], [1, ..., 1, N] or [1, N, 1, 1], N > 1, has a score for each class."""
    if array.ndim == 4 and array.shape[2:] == (1, 1):
        array = array[..., 0, 0]
    classes = array.shape[-1] if array.ndim else 1
    return array.size == classes and 1 < classes <= _MANY_CLASSES


def class_map(
    value: Value,
    array: np.ndarray,
    siblings: Sequence[tuple[int, ...]] = (),
    *,
    labels: Labels = NO_LABELS,
    input_shape: Sequence[int] = (),
) -> ClassMap | None:
    """The class of each place, where an output is a map of classes.

    That is an integer map without scale, the scores of more than 4 classes for each place, or one
    probability for each place. Maps beside which another output has two channels for each of
    theirs are heat maps of key points, not of classes; those of other proportions than the picture,
    or far coarser, are what detectors compute with. Few channels, or places, are classes where
    `labels` are given for just so many. Channels lie where those of `input_shape` do.
    """
    if value.is_text or array.ndim not in (2, 3, 4) or not array.size:
        return None
    if array.dtype.kind in "iu" and not value.scale:
        sizes = [size for size in array.shape if size != 1]
        is_map = len(sizes) == 2 and min(sizes) > 1
        return ClassMap(array.reshape(sizes)) if is_map else None
    if array.ndim != 4 or array.shape[0] != 1:
        return None
    is_first = picture_layout(input_shape) == "NCHW"
    scores = np.moveaxis(array, 1, -1) if is_first else array
    pixels = _pixels_of_a_place(scores.shape, input_shape)
    if is_score_list(array) or pixels is None:
        return None
    channels = scores.shape[3]
    if labels.fitted(channels) and channels > 1:
        return _best_of_each(scores)
    doubled = tuple(2 * n if n == channels else n for n in array.shape)
    is_coarse = min(scores.shape[1:3]) < _LEAST_MAP_SIDE or pixels > _COARSEST_MAP
    if is_coarse or doubled in siblings:
        return None
    if channels == 1:
        least, most, _ = _summary(value, array)
        is_probability = least >= 0 and _HALF < most <= 1
        map_ = dequantised(value, scores)[0, :, :, 0] >= _HALF
        return ClassMap(np.asarray(map_, np.uint8), 2) if is_probability else None
    if channels in _COLOURS or channels > _MOST_MAP_CLASSES:
        return None
    return _best_of_each(scores)


def _best_of_each(scores: np.ndarray) -> ClassMap:
    """The best class of each place, of scores [1, height, width, classes]."""
    return ClassMap(np.asarray(scores[0].argmax(-1)), max(2, scores.shape[-1]))


def _pixels_of_a_place(shape: Sequence[int], input_shape: Sequence[int]) -> int | None:
    """How many pixels beside each other a place of a map [1, height, width, ...] stands for.

    0 where the network takes no picture, None where the map has other proportions.
    """
    layout = picture_layout(input_shape)
    if not layout:
        return 0
    high, wide = input_shape[2:4] if layout == "NCHW" else input_shape[1:3]
    down, across = high / shape[1], wide / shape[2]
    rounded = 1 / min(shape[1:3])  # how far apart they may be where sizes were rounded
    return round(min(down, across)) if abs(down / across - 1) <= rounded else None


def _summary(value: Value, array: np.ndarray) -> tuple[float, float, float]:
    """The least, the most and the mean of real numbers, which are made a part at a time."""
    flat = array.reshape(-1)
    starts = range(0, flat.size, _PART_ELEMENTS)
    parts = (dequantised(value, flat[start : start + _PART_ELEMENTS]) for start in starts)
    found = [(part.min(), part.max(), part.mean() * (part.size / flat.size)) for part in parts]
    if not found:
        return 0.0, 0.0, 0.0
    least, most, means = (np.array(column) for column in zip(*found, strict=True))
    return float(least.min()), float(most.max()), float(means.sum())


def dequantised(value: Value, array: np.ndarray) -> np.ndarray:
    """Real numbers: scale * (stored - zero_point) for a per-tensor quantised output."""
    if len(value.scale) != 1:
        return array.astype(np.float64) if array.dtype.kind != "c" else np.abs(array)
    return (array.astype(np.float64) - value.zero_point[0]) * value.scale[0]


def _top(scores: np.ndarray, names: Sequence[str], count: int) -> tuple[Class, ...]:
    order = np.argsort(-scores, kind="stable")[:count]
    return tuple(Class(int(i), _label(names, int(i)), float(scores[i])) for i in order)


def _shares(classes: np.ndarray, names: Sequence[str], count: int) -> tuple[Share, ...]:
    found, sizes = np.unique(classes, return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:count]
    return tuple(
        Share(int(found[i]), _label(names, int(found[i])), float(sizes[i] / classes.size))
        for i in order
    )


def _label(names: Sequence[str], index: int) -> str:
    return names[index] if 0 <= index < len(names) else ""


def no_labels_fit(labels: Labels, counts: Sequence[int]) -> str:
    """What to warn of where labels were given and the classes are of other counts; "" if not."""
    if labels is NO_LABELS or not counts or any(labels.fitted(count) for count in counts):
        return ""
    classes = " and ".join(map(str, counts))
    misfit = counted(len(labels.names), "label does not fit", "labels do not fit")
    return f"{labels.source}: {misfit} {classes} classes, which are shown by number"
