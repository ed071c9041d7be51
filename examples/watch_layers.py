"""Watches a run: every operator's time and results, under the names that the file has for them.

python examples/watch_layers.py [MODEL]
"""

from __future__ import annotations

import sys

from circlet import Session
from circlet.backends.base import Observation
from circlet.sample import Sample


def show(seen: Observation) -> None:
    """Print an operator that has just run; its arrays are valid until this returns."""
    ranges = [f"{v.name} {v.array.shape} {v.array.min()} to {v.array.max()}" for v in seen.values]
    print(f"{seen.ns / 1000:8.1f} us  {seen.kind:18} {seen.name}: {', '.join(ranges)}")


def main(arguments: list[str]) -> None:
    """Watch a network of yours on zeros, or the carried one on a digit."""
    if arguments:
        session = Session(arguments[0], threads=1)
        inputs = [value.empty() for value in session.inputs]
        for array in inputs:
            array.fill(0)
    else:
        session = Session(Sample("int8").model_path, threads=1)
        inputs = [Sample("int8").image()]
    session.run(inputs)  # the first run touches all memory; times of the second mean more
    session.run(inputs, observer=show)


if __name__ == "__main__":
    main(sys.argv[1:])
