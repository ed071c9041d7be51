"""Says what can be heard when, with a network over waveforms such as YAMNet.

    python examples/recognise_sounds.py yamnet.tflite speech.wav labels.txt

The .wav has one channel of 16-bit samples at the rate of the network, 16 kHz for YAMNet.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np

from circlet import Session


def main(model: str, sound: str, labels: str) -> None:
    """Print the two best classes of each window of the recording."""
    session = Session(model)
    (window,) = session.inputs[0].shape
    names = Path(labels).read_text(encoding="utf-8").splitlines()
    with wave.open(sound) as file:
        rate = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16) / np.float32(32768)
    for start in range(0, max(1, len(samples) - window // 2), window):
        part = np.zeros(window, np.float32)
        heard = samples[start : start + window]
        part[: len(heard)] = heard
        (scores,) = session.run([part]).values()
        best = np.argsort(-scores[0], kind="stable")[:2]
        told = ", ".join(f"{names[index]} {scores[0, index]:.2f}" for index in best)
        print(f"{start / rate:5.2f} s  {told}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
