"""Runs one session from many threads at once: packed weights are shared, answers are the same.

python examples/share_a_session.py
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from circlet import Session
from circlet.sample import Sample


def main() -> None:
    """Classify every carried picture on eight threads."""
    session = Session(Sample("int8").model_path, threads=1)  # of each run, not of the process
    pictures = [Sample("int8", number).image() for number in range(len(Sample.int8_scores()))]

    def scores_of(picture: np.ndarray) -> np.ndarray:
        (scores,) = session.run([picture], timeout=5.0).values()
        return scores

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(scores_of, pictures))
    wanted = Sample.int8_scores()
    same = sum((a == b).all() for a, b in zip(answers, wanted, strict=True))
    print(f"{same} of {len(wanted)} answers are bit for bit those of a single thread")


if __name__ == "__main__":
    main()
