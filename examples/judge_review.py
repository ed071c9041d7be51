"""Says whether a review is friendly, with TFLite's network over average word embeddings.

python examples/judge_review.py movie_review.tflite vocabulary.txt "What a great film"
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

from circlet import Session


def main(model: str, vocabulary: str, text: str) -> None:
    """Print the probability that the text is positive."""
    session = Session(model)
    pairs = [line.split() for line in Path(vocabulary).read_text(encoding="utf-8").splitlines()]
    numbers = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    unknown = numbers["<UNKNOWN>"]
    words = ["<START>", *re.findall(r"[a-z']+", text.lower())]
    (length,) = session.inputs[0].shape[1:]
    tokens = np.full((1, length), numbers["<PAD>"], np.int32)
    found = [numbers.get(word, unknown) for word in words][:length]
    tokens[0, : len(found)] = found
    (scores,) = session.run([tokens]).values()
    print(f"positive: {scores[0, 1]:.2f}  {text}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
