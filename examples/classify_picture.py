"""Classifies a picture with a quantised network such as MobileNet.

python examples/classify_picture.py mobilenet_v2_1.0_224_quant.tflite photo.jpg labels.txt
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from circlet import Session


def main(model: str, picture: str, labels: str) -> None:
    """Print the five best classes."""
    session = Session(model)
    _, height, width, _ = session.inputs[0].shape
    pixels = Image.open(picture).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    (scores,) = session.run([np.asarray(pixels, np.uint8)[None]]).values()
    (output,) = session.outputs
    probabilities = (scores[0].astype(np.float32) - output.zero_point[0]) * output.scale[0]
    names = Path(labels).read_text(encoding="utf-8").splitlines()
    for index in np.argsort(-probabilities, kind="stable")[:5]:
        print(f"{probabilities[index]:.4f}  {names[index]}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
