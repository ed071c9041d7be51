"""Detects objects and draws their boxes, with a detector such as SSD MobileNet.

python examples/detect_objects.py coco_ssd_mobilenet_v1.tflite photo.jpg labels.txt out.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from circlet import Session

LEAST_SCORE = 0.45
COLOURS = ("#ff5a36", "#2f9bff", "#19c37d", "#ffb000", "#b36bff")


def main(model: str, picture: str, labels: str, output: str) -> None:
    """Print what is found and write the picture with boxes."""
    session = Session(model)
    _, height, width, _ = session.inputs[0].shape
    photo = Image.open(picture).convert("RGB")
    pixels = np.asarray(photo.resize((width, height), Image.Resampling.BILINEAR), np.uint8)
    boxes, classes, scores, _ = session.run([pixels[None]]).values()
    names = Path(labels).read_text(encoding="utf-8").splitlines()
    pen = ImageDraw.Draw(photo)
    size = np.array([photo.width, photo.height] * 2)
    for (top, left, bottom, right), kind, score in zip(
        boxes[0], classes[0].astype(int), scores[0], strict=True
    ):
        if score < LEAST_SCORE:
            continue
        corners = np.clip(np.array([left, top, right, bottom]), 0, 1) * size
        colour = COLOURS[kind % len(COLOURS)]
        pen.rectangle(corners.tolist(), outline=colour, width=4)
        pen.text(
            (corners[0] + 8, corners[1] + 6), f"{names[kind]} {score:.2f}", colour, font_size=24
        )
        print(f"{names[kind]} {score:.2f} at", *corners.round().astype(int))
    photo.save(output)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
