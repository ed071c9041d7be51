"""What a person wants to see of an output: the best classes, or a summary of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circlet.artifact.values import Value

_MANY_CLASSES = 1 << 20
_PART_ELEMENTS = 1 << 20


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
class Answer:
    """One output, made readable; one of the lists is non-empty, or none.

    `text` holds the first strings of an output of strings, whose numbers are all 0.
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


def answer(value: Value, array: np.ndarray, labels: Sequence[str], count: int) -> Answer:
    """The summary of an output, with the `count` best classes where it is a list of scores.

    An output of shape [N] or [1, ..., 1, N], N > 1, is a list of scores, unless labels are given
    and their number differs by more than one background class. An integer map without scale is a
    label map if labels are given.
    """
    if value.is_text:
        text = tuple(element.decode(errors="replace") for element in array.reshape(-1)[:5])
        return Answer(value.name, "string", array.shape, 0.0, 0.0, 0.0, (), text=text)
    first = tuple(float(x) for x in dequantised(value, array.reshape(-1)[:5]))
    facts = (value.name, value.dtype, array.shape, *_summary(value, array), first)
    if _is_score_list(array, labels):
        return Answer(*facts, top=_top(dequantised(value, array).reshape(-1), labels, count))
    if labels and array.dtype.kind in "iu" and not value.scale:
        return Answer(*facts, shares=_shares(array, labels, count))
    if labels and array.ndim > 2 and array.shape[-1] == len(labels) and array.size:
        return Answer(*facts, shares=_shares(array.argmax(-1), labels, count))
    return Answer(*facts)


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


def _is_score_list(array: np.ndarray, labels: Sequence[str]) -> bool:
    classes = array.shape[-1] if array.ndim else 1
    if array.size != classes or not 1 < classes <= _MANY_CLASSES:
        return False
    return not labels or abs(classes - len(labels)) <= 1


def _top(scores: np.ndarray, labels: Sequence[str], count: int) -> tuple[Class, ...]:
    order = np.argsort(-scores, kind="stable")[:count]
    return tuple(
        Class(int(i), _label(labels, int(i), len(scores)), float(scores[i])) for i in order
    )


def _shares(array: np.ndarray, labels: Sequence[str], count: int) -> tuple[Share, ...]:
    classes, sizes = np.unique(array, return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:count]
    return tuple(
        Share(int(classes[i]), _label(labels, int(classes[i]), len(labels)), sizes[i] / array.size)
        for i in order
    )


def _label(labels: Sequence[str], index: int, classes: int) -> str:
    """The label of a class; a list that lacks the background class is shifted by one."""
    position = index - (1 if labels and classes == len(labels) + 1 else 0)
    return labels[position] if 0 <= position < len(labels) else ""


@dataclass(frozen=True)
class Detection:
    """One object that a detector found.

    Attributes:
        label: Its class, "" where unknown; `index` is the class's number.
        box: (top, left, bottom, right) as parts of the picture's height and width.
    """

    index: int
    label: str
    score: float
    box: tuple[float, float, float, float]


def detections(
    arrays: Sequence[np.ndarray], labels: Sequence[str], count: int
) -> tuple[Detection, ...]:
    """What a detector found, best first; nothing where the outputs are not those of a detector.

    A detector gives boxes [1, N, 4], classes [1, N], scores [1, N] and their number [1], in this
    order, as TFLite_Detection_PostProcess does.
    """
    if len(arrays) != 4 or arrays[0].ndim != 3 or arrays[0].shape[0] != 1:
        return ()
    boxes, classes, scores, number = arrays
    most = boxes.shape[1]
    if boxes.shape[2] != 4 or classes.shape != (1, most) or scores.shape != (1, most):
        return ()
    if number.shape != (1,):
        return ()
    found = range(min(int(number[0]), most, count))
    indices = [int(classes[0, i]) for i in found]
    return tuple(
        Detection(
            index,
            labels[index] if 0 <= index < len(labels) else "",
            float(scores[0, i]),
            tuple(map(float, boxes[0, i])),  # type: ignore[arg-type]
        )
        for i, index in zip(found, indices, strict=True)
    )
