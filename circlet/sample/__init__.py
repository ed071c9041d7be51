"""The embedded sample: a digit classifier and real pictures; made by tools/train_sample.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Sample:
    """The network in one of its two types, and one of its pictures.

    Attributes:
        kind: "float" or "int8".
        picture: Which of the shipped held-out pictures.
    """

    kind: str = "int8"
    picture: int = 3

    @property
    def model_path(self) -> Path:
        """The .circle file."""
        return FOLDER / f"digits_{self.kind}.circle"

    @property
    def title(self) -> str:
        """What the network is, with its accuracy on held-out pictures."""
        facts = json.loads((FOLDER / "accuracy.json").read_text(encoding="utf-8"))
        accuracy = facts[f"{self.kind}_accuracy"]
        return f"embedded sample: handwritten digits, {self.kind}, {accuracy:.1%} accurate"

    @property
    def image_title(self) -> str:
        """Which picture is used."""
        return f"picture {self.picture}, held out from training"

    @property
    def labels(self) -> list[str]:
        """Names of the ten classes."""
        return (FOLDER / "labels.txt").read_text(encoding="utf-8").splitlines()

    @property
    def expected(self) -> str:
        """The true label of the picture."""
        return self.labels[int(self.pictures()[1][self.picture])]

    @staticmethod
    def pictures() -> tuple[np.ndarray, np.ndarray]:
        """Shipped pictures, float32 [N, 8, 8, 1] in 0..1, and their labels [N]."""
        with np.load(FOLDER / "digits.npz") as data:
            return data["images"], data["labels"]

    @staticmethod
    def int8_scores() -> np.ndarray:
        """What the int8 network must answer for each shipped picture, int8 [N, 10]."""
        with np.load(FOLDER / "digits.npz") as data:
            scores: np.ndarray = data["int8_scores"]
            return scores

    def image(self) -> np.ndarray:
        """The picture as the network wants it: [1, 8, 8, 1], float32 or quantised to int8."""
        picture = self.pictures()[0][self.picture : self.picture + 1]
        if self.kind == "float":
            return picture
        return (np.rint(picture * 255) - 128).astype(np.int8)
