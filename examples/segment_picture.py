"""Finds what each pixel shows, with a network such as DeepLab, and paints it over the picture.

python examples/segment_picture.py deeplabv3_quant.tflite photo.jpg labels.txt out.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from circlet import Session


def main(model: str, picture: str, labels: str, output: str) -> None:
    """Print the share of each class and write the picture with its mask."""
    session = Session(model)
    _, height, width, _ = session.inputs[0].shape
    photo = Image.open(picture).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(photo, np.uint8)
    (classes,) = session.run([pixels[None]]).values()
    names = Path(labels).read_text(encoding="utf-8").splitlines()
    found, counts = np.unique(classes, return_counts=True)
    for index in np.argsort(-counts):
        print(f"{counts[index] / classes.size:6.1%}  {names[found[index]]}")
    painted = np.where(classes[0][..., None] == 0, pixels, pixels // 2 + palette(classes[0]) // 2)
    Image.fromarray(painted.astype(np.uint8)).save(output)


def palette(classes: np.ndarray) -> np.ndarray:
    """A colour for each class, far from those of its neighbours."""
    return np.stack([classes * 67 % 256, classes * 149 % 256, 255 - classes * 41 % 256], axis=-1)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
