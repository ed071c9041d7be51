"""Classifies handwritten digits with the network that Circlet carries, in float and in int8.

python examples/classify_digits.py
"""

from __future__ import annotations

from circlet import Session
from circlet.sample import Sample


def main() -> None:
    """Print the accuracy of both networks on the carried pictures, and what they get wrong."""
    pictures, labels = Sample.pictures()
    for kind in ("float", "int8"):
        session = Session(Sample(kind).model_path)
        answers = []
        for number in range(len(pictures)):
            (scores,) = session.run([Sample(kind, number).image()]).values()
            answers.append(int(scores.argmax()))
        right = sum(a == b for a, b in zip(answers, labels, strict=True))
        wrong = [f"{b} read as {a}" for a, b in zip(answers, labels, strict=True) if a != b]
        print(f"{kind}: {right} of {len(labels)} right; {', '.join(wrong) or 'none wrong'}")


if __name__ == "__main__":
    main()
