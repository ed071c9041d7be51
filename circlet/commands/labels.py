"""What classes are called: by the user's file, by the file packed with the model, or a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from circlet.errors import FileError
from circlet.regular_files import open_regular

_PLACEHOLDERS = frozenset(
    ("background", "__background__", "???", "unlabeled", "unknown", "none", "n/a", "dummy")
)

# Public data sets that small networks are trained on, by the input's sizes and the classes.
_CIFAR_10 = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]
_PASCAL_VOC = [
    "background",
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
]
_VISUAL_WAKE_WORDS = ["no person", "person"]
_SPEECH_COMMANDS = [
    "down",
    "go",
    "left",
    "no",
    "off",
    "on",
    "right",
    "stop",
    "up",
    "yes",
    "silence",
    "unknown",
]
_MICRO_SPEECH = ["silence", "unknown", "yes", "no"]
_KNOWN_SETS = (
    ((1, 32, 32, 3), 10, _CIFAR_10, "CIFAR-10's"),
    ((1, 96, 96, 1), 2, _VISUAL_WAKE_WORDS, "Visual Wake Words'"),
    ((1, 96, 96, 3), 2, _VISUAL_WAKE_WORDS, "Visual Wake Words'"),
    ((1, 49, 10, 1), 12, _SPEECH_COMMANDS, "MLPerf Tiny's of Speech Commands"),
    ((1, 1960), 4, _MICRO_SPEECH, "micro_speech's"),
)
_VOC_CLASSES = len(_PASCAL_VOC)


@dataclass(frozen=True)
class Labels:
    """Names for classes.

    Attributes:
        names: In the order of their file.
        source: The file that they are from, or whose data set they are guessed to be of.
        is_guessed: Whether only the network's sizes speak for them.
    """

    names: tuple[str, ...] = ()
    source: str = ""
    is_guessed: bool = False

    def fitted(self, classes: int) -> tuple[str, ...]:
        """One name for each class; nothing where the names do not fit.

        Notes that follow an empty line are left out. A first name that stands for no class, such
        as "background", may be missing or too many.
        """
        for names in self._readings():
            if len(names) == classes:
                return names
        for names in self._readings():
            if len(names) == classes - 1 and not _is_placeholder(names[0]):
                return ("background", *names)
            if len(names) == classes + 1 and _is_placeholder(names[0]):
                return names[1:]
        return ()

    def of_objects(self) -> tuple[str, ...]:
        """Names by the numbers that detectors give, which do not count the background."""
        names = self.names
        return names[1:] if names and _is_placeholder(names[0]) else names

    def _readings(self) -> list[tuple[str, ...]]:
        trimmed = self.names
        while trimmed and not trimmed[-1].strip():
            trimmed = trimmed[:-1]
        ends = [index for index, name in enumerate(trimmed) if not name.strip()]
        parts = (self.names, trimmed, trimmed[: ends[0]] if ends else ())
        return [names for names in parts if names]


NO_LABELS = Labels()


def read_labels(path: Path) -> Labels:
    """The labels of a text file, one a line; FileError where it cannot be read."""
    try:
        with open_regular(path, "the file of labels") as file:
            return Labels(tuple(file.read().decode("utf-8-sig").splitlines()), str(path))
    except (OSError, UnicodeDecodeError) as error:
        fix = "write one label a line, in UTF-8"
        raise FileError.unreadable("the file of labels", path, error, fix) from error


def guessed_labels(input_shape: Sequence[int], classes: int, is_map: bool) -> Labels:
    """The labels of the public data set whose sizes are the network's; none where none is."""
    if is_map:
        return (
            Labels(tuple(_PASCAL_VOC), "Pascal VOC's", True)
            if classes == _VOC_CLASSES
            else NO_LABELS
        )
    for shape, count, names, source in _KNOWN_SETS:
        if tuple(input_shape) == shape and classes == count:
            return Labels(tuple(names), source, True)
    return NO_LABELS


def _is_placeholder(name: str) -> bool:
    return name.strip().lower() in _PLACEHOLDERS
