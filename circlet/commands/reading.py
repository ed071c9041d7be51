"""All outputs of a network as one reading: what it found, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from circlet.artifact.values import Value
from circlet.commands.answers import (
    Answer,
    ClassMap,
    answer,
    class_count,
    class_map,
    dequantised,
    no_labels_fit,
)
from circlet.commands.drawing import Drawing, output_picture, save_picture
from circlet.commands.labels import NO_LABELS, Labels, guessed_labels
from circlet.commands.objects import Candidates, Detection, candidates, detections
from circlet.commands.poses import Pose, poses
from circlet.errors import InputError
from circlet.formats.arrays import decoded_picture
from circlet.words import counted

_LEAST_OBJECT_SCORE = 0.4
_LEAST_FACE_SCORE = 0.5
_LEAST_POSE_SCORE = 0.2


@dataclass(frozen=True)
class Reading:
    """What the outputs say.

    Attributes:
        answers: Each output, made readable.
        detections: What a detector found, if the network is one.
        poses: People that a pose network found, if it is one.
        kind: "" for networks that are neither, else "detector", "face detector", "YOLO", "pose".
        least_score: The score that objects and poses have at least.
        best_left_out: The best score below it.
        labels: Where the labels of objects are from.
    """

    answers: tuple[Answer, ...] = ()
    detections: tuple[Detection, ...] = ()
    poses: tuple[Pose, ...] = ()
    warnings: tuple[str, ...] = ()
    kind: str = ""
    least_score: float = 0.0
    best_left_out: float | None = None
    labels: str = ""
    maps: tuple[ClassMap | None, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ReadingOptions:
    """How outputs are read: the user's labels, how many of the best, and the least score."""

    labels: Labels = NO_LABELS
    top: int = 5
    least_score: float | None = None


def read_outputs(
    values: Sequence[Value],
    arrays: Sequence[np.ndarray],
    options: ReadingOptions,
    about: Mapping[str, Any],
    input_shape: Sequence[int] = (),
) -> Reading:
    """What the outputs say.

    Args:
        values, arrays: The outputs.
        options: How to read them.
        about: What is known of the network, as `circlet.formats.about` has it.
        input_shape: Sizes of the first input that a picture was given for, else of the first.
    """
    facts = about.get("outputs", ())
    facts = facts if len(facts) == len(values) else [{}] * len(values)
    real = [_real(value, array) for value, array in zip(values, arrays, strict=True)]
    offered = candidates(real, input_shape)
    if offered is not None:
        return _objects(offered, values, arrays, options, facts)
    least = _LEAST_POSE_SCORE if options.least_score is None else options.least_score
    people = poses(real, input_shape, least)
    if people is not None:
        plain = tuple(_plain(v, a, options) for v, a in zip(values, arrays, strict=True))
        return Reading(plain, poses=people[: options.top], kind="pose", least_score=least)
    return _each(values, arrays, options, facts, input_shape)


def _real(value: Value, array: np.ndarray) -> np.ndarray:
    return np.zeros(0) if value.is_text else dequantised(value, array)


def _plain(value: Value, array: np.ndarray, options: ReadingOptions) -> Answer:
    return answer(value, array, NO_LABELS, options.top)


def _objects(
    offered: Candidates,
    values: Sequence[Value],
    arrays: Sequence[np.ndarray],
    options: ReadingOptions,
    facts: Sequence[Mapping[str, Any]],
) -> Reading:
    labels = options.labels
    packed = [_packed(fact) for fact in facts]
    if labels is NO_LABELS:
        labels = next((found for found in packed if found is not NO_LABELS), NO_LABELS)
    said = next((fact["threshold"] for fact in facts if fact.get("threshold")), None)
    usual = _LEAST_FACE_SCORE if offered.kind == "face detector" else _LEAST_OBJECT_SCORE
    least = options.least_score if options.least_score is not None else said or usual
    left_out = [float(score) for score in offered.scores if score < least]
    return Reading(
        tuple(_plain(v, a, options) for v, a in zip(values, arrays, strict=True)),
        detections(offered, labels.of_objects(), options.top, least),
        kind=offered.kind,
        least_score=least,
        best_left_out=max(left_out, default=None),
        labels=labels.source,
    )


def _each(
    values: Sequence[Value],
    arrays: Sequence[np.ndarray],
    options: ReadingOptions,
    facts: Sequence[Mapping[str, Any]],
    input_shape: Sequence[int],
) -> Reading:
    """Every output for itself: classes, maps, numbers."""
    shapes = [array.shape for array in arrays]
    answers: list[Answer] = []
    maps: list[ClassMap | None] = []
    warnings: list[str] = []
    counts: list[int] = []
    for value, array, fact in zip(values, arrays, facts, strict=True):
        given = options.labels if options.labels is not NO_LABELS else _packed(fact)
        map_ = class_map(value, array, shapes, labels=given, input_shape=input_shape)
        has_scores = given is not NO_LABELS or bool(fact.get("scores"))
        count = class_count(array, map_, has_scores=has_scores)
        labels, warning = _labels_for(options.labels, _packed(fact), input_shape, count, map_)
        warnings += filter(None, [warning])
        counts += [count] if count else []
        answers.append(
            answer(value, array, labels, options.top, classes=map_, has_scores=has_scores)
        )
        maps.append(map_)
    if options.labels is not NO_LABELS:
        unused = no_labels_fit(options.labels, counts) if counts else _no_classes(options, maps)
        warnings += filter(None, [unused])
    return Reading(tuple(answers), warnings=tuple(warnings), maps=tuple(maps))


def _no_classes(options: ReadingOptions, maps: Sequence[ClassMap | None]) -> str:
    """What to warn of where labels were given and no output tells classes apart."""
    if any(map_ is not None for map_ in maps):
        return ""
    labels = options.labels
    fit = counted(len(labels.names), "label fits", "labels fit")
    return f"{labels.source}: {fit} the classes of no output"


def _packed(fact: Mapping[str, Any]) -> Labels:
    if not fact.get("labels"):
        return NO_LABELS
    source = str(fact.get("labels_file") or "labels")
    return Labels(tuple(map(str, fact["labels"])), f"{source}, packed with the model")


def _labels_for(
    given: Labels,
    packed: Labels,
    input_shape: Sequence[int],
    count: int,
    map_: ClassMap | None,
) -> tuple[Labels, str]:
    """The labels of an output, and a warning where packed ones do not fit."""
    if given is not NO_LABELS:
        return given, ""
    if packed is not NO_LABELS and (packed.fitted(count) or not count):
        return packed, ""
    largest = int(map_.classes.max()) + 1 if map_ is not None else 0
    guess_count = count or (21 if largest <= 21 and map_ is not None else 0)
    guessed = guessed_labels(input_shape, guess_count, map_ is not None)
    return guessed, no_labels_fit(packed, [count] if count else [])


def draw(path: Path, picture: Path | None, reading: Reading, values: Sequence[np.ndarray]) -> bool:
    """Draw a reading over the picture that it is about; an output that is a picture is written.

    Tells whether there was anything to draw; else no file is written.

    Raises:
        InputError: No picture was given, or the name's ending is that of no format.
        CircletError: As `decoded_picture` and `save_picture`.
    """
    if picture is None:
        raise InputError(
            "there is no picture to draw over", where=str(path), fix="give a picture with --input"
        )
    if not reading.kind and not any(a.top or a.shares for a in reading.answers):
        made = next(filter(None, map(output_picture, values)), None)
        if made is not None:
            save_picture(made, path)
        return made is not None
    drawing = Drawing(decoded_picture(picture))
    drawing.detections(reading.detections)
    drawing.poses(reading.poses)
    for item, map_ in zip(reading.answers, reading.maps, strict=False):
        if map_ is not None:
            drawing.class_map(map_.classes, item.shares)
        elif item.top:
            drawing.caption(item.top[:3])
    drawing.save(path)
    return True
