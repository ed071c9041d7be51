"""What a detector found: objects with boxes, from the outputs of the usual kinds of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
_MOST_CANDIDATES = 1000
_OVERLAP = 0.45  # of a box with a better one of its class, beyond which it is left out
_FACE_OVERLAP = 0.3
_RELATIVE = 2.0  # the largest coordinate of boxes that are parts of the picture, not pixels

# MediaPipe's face detectors: (cells a side, boxes in each cell) in the order of their outputs.
_FACE_GRIDS = {896: ((16, 2), (8, 6)), 2304: ((48, 1),)}
_FACE_NUMBERS = 16
_EYES_AND_NOSE = ("right eye", "left eye", "nose")
_FACE_POINTS = {
    5: (*_EYES_AND_NOSE, "right mouth corner", "left mouth corner"),
    6: (*_EYES_AND_NOSE, "mouth", "right ear", "left ear"),
}
_STRIDES = (8, 16, 32)  # of YOLO's and YuNet's grids
_ALWAYS = 0.01  # how far chances that are of all classes may be from a sum of 1


@dataclass(frozen=True)
class KeyPoint:
    """A named place in a picture: parts of its height and width; the score is 1 where not given."""

    name: str
    y: float
    x: float
    score: float = 1.0


@dataclass(frozen=True)
class Detection:
    """One object that a detector found.

    Attributes:
        label: Its class, "" where unknown; `index` is the class's number.
        box: (top, left, bottom, right) as parts of the picture's height and width.
        points: Key points of it, where the detector gives some.
    """

    index: int
    label: str
    score: float
    box: tuple[float, float, float, float]
    points: tuple[KeyPoint, ...] = ()


@dataclass(frozen=True)
class Candidates:
    """What a detector offers: boxes [N, 4] (top, left, bottom, right), best first.

    Attributes:
        classes, scores: [N].
        points: [N, K, 2] as (y, x), or None.
        kind: What sort of detector it is.
    """

    boxes: Array
    classes: Array
    scores: Array
    points: Array | None = None
    kind: str = "detector"


def candidates(arrays: Sequence[Array], input_shape: Sequence[int] = ()) -> Candidates | None:
    """What the outputs, as real numbers, offer; None where they are not a detector's.

    Known are TFLite's detection post-processing in any order of its outputs, MediaPipe's face
    detectors, YuNet, YOLO from version 5 on, and chances of classes beside finished boxes, as
    PyTorch's SSDs and UltraFace have them. `input_shape` is that of the picture, by which most
    are recognised.
    """
    return (
        _post_processed(arrays)
        or _faces(arrays, input_shape)
        or _yunet(arrays, input_shape)
        or _yolo(arrays, input_shape)
        or _scored_boxes(arrays)
    )


def detections(
    found: Candidates, labels: Sequence[str], count: int, least_score: float = 0.0
) -> tuple[Detection, ...]:
    """The `count` best of what is offered, those of `least_score` and more."""
    kept = [i for i in range(len(found.scores)) if found.scores[i] >= least_score][:count]
    return tuple(_detection(found, i, labels) for i in kept)


def _detection(found: Candidates, i: int, labels: Sequence[str]) -> Detection:
    index = int(found.classes[i])
    label = labels[index] if 0 <= index < len(labels) else ""
    points: tuple[KeyPoint, ...] = ()
    if found.kind == "face detector":
        label = label or "face"
        assert found.points is not None
        named = zip(_FACE_POINTS[len(found.points[i])], found.points[i], strict=True)
        points = tuple(KeyPoint(name, float(y), float(x)) for name, (y, x) in named)
    box = tuple(map(float, found.boxes[i]))
    return Detection(index, label, float(found.scores[i]), box, points)  # type: ignore[arg-type]


def _post_processed(arrays: Sequence[Array]) -> Candidates | None:
    """Boxes [1, N, 4], classes [1, N], scores [1, N] and their number, in any order."""
    if len(arrays) != 4:
        return None
    boxes = [a for a in arrays if a.ndim == 3 and a.shape[0] == 1 and a.shape[2] == 4]
    numbers = [a for a in arrays if a.size == 1 and a.ndim < 2]
    if len(boxes) != 1 or len(numbers) != 1:
        return None
    most = boxes[0].shape[1]
    rows = [a for a in arrays if a.shape == (1, most)]
    if len(rows) != 2:
        return None
    classes, scores = (rows[1], rows[0]) if _are_scores(rows[0], rows[1]) else rows
    number = float(numbers[0].reshape(-1)[0])
    count = int(min(max(number, 0), most)) if np.isfinite(number) else 0
    usable = [i for i in range(count) if np.isfinite(classes[0, i])]
    return Candidates(boxes[0][0][usable], classes[0][usable], scores[0][usable])


def _are_scores(row: Array, other: Array) -> bool:
    """Whether a row is that of scores: some of it is no whole number, and the other is whole."""
    return bool(np.any(row != np.rint(row)) and np.all(other == np.rint(other)))


def _faces(arrays: Sequence[Array], input_shape: Sequence[int]) -> Candidates | None:
    """Boxes and key points [1, N, 16] relative to N cells, and scores [1, N, 1]."""
    by_width = {a.shape[-1]: a for a in arrays if a.ndim == 3 and a.shape[0] == 1}
    raw, logits = by_width.get(_FACE_NUMBERS), by_width.get(1)
    if len(arrays) != 2 or raw is None or logits is None or raw.shape[1] != logits.shape[1]:
        return None
    grids = _FACE_GRIDS.get(raw.shape[1])
    if grids is None or len(input_shape) != 4 or input_shape[1] != input_shape[2]:
        return None
    centres = np.concatenate([_cells(side, side, repeats) for side, repeats in grids])
    numbers = raw[0].reshape(-1, _FACE_NUMBERS // 2, 2)[..., ::-1] / input_shape[1]
    places = numbers + centres[:, None]
    centre, half = places[:, 0], numbers[:, 1] / 2
    boxes = np.concatenate([centre - half, centre + half], 1)
    scores = _sigmoid(logits[0, :, 0])
    kept = _suppressed(boxes, scores, np.zeros(len(scores), int), _FACE_OVERLAP)
    found = Candidates(boxes, np.zeros(len(scores), int), scores, places[:, 2:], "face detector")
    return _taken(found, kept)


def _cells(rows: int, columns: int, repeats: int) -> Array:
    """Centres (y, x) of the cells of a grid, row by row, each so often."""
    y, x = np.mgrid[:rows, :columns]
    centres = np.stack([(y + 0.5) / rows, (x + 0.5) / columns], -1).reshape(-1, 2)
    return centres.repeat(repeats, 0)


def _picture_size(input_shape: Sequence[int]) -> tuple[int, int]:
    """Height and width of a picture with its channels first or last."""
    height, width = input_shape[2:] if input_shape[1] in (1, 3) else input_shape[1:3]
    return height, width


def _yunet(arrays: Sequence[Array], input_shape: Sequence[int]) -> Candidates | None:
    """For each of three grids of N cells: two chances [1, N, 1], boxes and points [1, N, 4 and 10].

    These are relative to the cells, in units of them; the geometric mean of both chances is the
    face's.
    """
    if len(arrays) != 12 or len(input_shape) != 4:
        return None
    height, width = _picture_size(input_shape)
    by_shape: dict[tuple[int, ...], list[Array]] = {}
    for array in arrays:
        by_shape.setdefault(array.shape, []).append(array)
    found = []
    for stride in _STRIDES:
        rows, columns = height // stride, width // stride
        chances, boxes, points = (
            by_shape.get((1, rows * columns, numbers), []) for numbers in (1, 4, 10)
        )
        if (len(chances), len(boxes), len(points)) != (2, 1, 1):
            return None
        scores = np.sqrt(np.prod(np.clip([chance[0, :, 0] for chance in chances], 0, 1), 0))
        found.append((scores, *_in_cells(boxes[0][0], points[0][0], rows, columns)))
    scores, corners, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    faces = Candidates(corners, np.zeros(len(scores), int), scores, places, "face detector")
    return _taken(faces, _suppressed(corners, scores, faces.classes, _FACE_OVERLAP))


def _in_cells(boxes: Array, points: Array, rows: int, columns: int) -> tuple[Array, Array]:
    """Corners [N, 4] and places [N, 5, 2] of YuNet's boxes (x, y, log size) and points (x, y)."""
    first = _cells(rows, columns, 1) - 0.5 / np.array([rows, columns])
    unit = np.array([rows, columns])
    centre = first + boxes[:, 1::-1] / unit
    half = np.exp(np.minimum(boxes[:, 3:1:-1], 10)) / unit / 2
    places = first[:, None] + points.reshape(len(points), -1, 2)[..., ::-1] / unit
    return np.concatenate([centre - half, centre + half], 1), places


def _scored_boxes(arrays: Sequence[Array]) -> Candidates | None:
    """Chances [1, N, 1 + classes], the background's first, and boxes [1, N, 4] (x, y, x, y)."""
    if len(arrays) != 2 or any(a.ndim != 3 or a.shape[0] != 1 for a in arrays):
        return None
    chances, boxes = arrays if arrays[1].shape[-1] == 4 else arrays[::-1]
    if chances.shape[1] != boxes.shape[1] or boxes.shape[-1] != 4 or chances.shape[-1] < 2:
        return None
    are_chances = chances.min() >= 0 and np.all(np.abs(chances[0].sum(-1) - 1) < _ALWAYS)
    if not are_chances or not np.abs(boxes).max() < _RELATIVE:
        return None
    classes, scores = chances[0, :, 1:].argmax(1) + 1, chances[0, :, 1:].max(1)
    corners = boxes[0][:, [1, 0, 3, 2]]
    found = Candidates(corners, classes, scores)
    return _taken(found, _suppressed(corners, scores, classes, _OVERLAP))


def _yolo(arrays: Sequence[Array], input_shape: Sequence[int]) -> Candidates | None:
    """One output of [1, N, 5 + classes], or [1, 4 + classes, N] from version 8 on."""
    if len(arrays) != 1 or arrays[0].ndim != 3 or len(input_shape) != 4:
        return None
    height, width = _picture_size(input_shape)
    cells = sum((height // stride) * (width // stride) for stride in _STRIDES)
    _, rows, columns = arrays[0].shape
    if columns == cells and rows > 4:
        numbers = arrays[0][0].T
        chances = numbers[:, 4:]
    elif rows == 3 * cells and columns > 5:
        numbers = arrays[0][0]
        chances = numbers[:, 5:] * numbers[:, 4:5]
    else:
        return None
    size = np.array([width, height]) if numbers[:, :4].max() > _RELATIVE else np.ones(2)
    centre, half = numbers[:, :2] / size, numbers[:, 2:4] / size / 2
    boxes = np.concatenate([(centre - half)[:, ::-1], (centre + half)[:, ::-1]], 1)
    classes, scores = chances.argmax(1), chances.max(1)
    found = Candidates(boxes, classes, scores, kind="YOLO")
    return _taken(found, _suppressed(boxes, scores, classes, _OVERLAP))


def _taken(found: Candidates, kept: Array) -> Candidates:
    points = None if found.points is None else found.points[kept]
    return Candidates(
        found.boxes[kept], found.classes[kept], found.scores[kept], points, found.kind
    )


def _suppressed(boxes: Array, scores: Array, classes: Array, overlap: float) -> Array:
    """Numbers of the boxes that no better one of their class covers, the best first."""
    finite = np.isfinite(boxes).all(1) & np.isfinite(scores)
    order = np.argsort(np.where(finite, -scores, np.inf), kind="stable")
    left = [int(i) for i in order[:_MOST_CANDIDATES] if finite[i]]
    kept: list[int] = []
    while left:
        best, *rest = left
        kept.append(best)
        shared = _overlaps(boxes[best], boxes[rest])
        left = [
            i
            for i, part in zip(rest, shared, strict=True)
            if part <= overlap or classes[i] != classes[best]
        ]
    return np.array(kept, int)


def _overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of a box with each of others."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low, 0), 1)
    areas = np.prod(others[:, 2:] - others[:, :2], 1) + np.prod(box[2:] - box[:2])
    return np.asarray(shared / np.maximum(areas - shared, 1e-12))


def _sigmoid(numbers: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(numbers, -100, 100))))
