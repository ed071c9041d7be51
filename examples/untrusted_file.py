"""Opens files that nobody vouches for: bounds on memory and time, and one error with a code.

python examples/untrusted_file.py [MODEL]
"""

from __future__ import annotations

import sys
from pathlib import Path

from circlet import CircletError, Session
from circlet.limits import Limits
from circlet.sample import Sample

LIMITS = Limits(file_bytes=50 << 20, memory_bytes=256 << 20, run_seconds=2.0)


def attempt(what: str, source: Path | bytes) -> None:
    """Print what opening a file and running it on zeros comes to."""
    try:
        session = Session(source, limits=LIMITS)
        inputs = [value.empty() for value in session.inputs]
        for array in inputs:
            array.fill(0)
        session.run(inputs)
    except CircletError as error:
        facts = error.as_dict()
        print(f"{what}: {facts['code']}: {facts['what']}")
    else:
        print(f"{what}: runs within the limits")


def main(arguments: list[str]) -> None:
    """Try a file of yours, or the carried network whole, cut short, and with a byte changed."""
    if arguments:
        attempt(arguments[0], Path(arguments[0]))
        return
    whole = Sample("float").model_path.read_bytes()
    attempt("whole", whole)
    attempt("cut short", whole[: len(whole) // 2])
    attempt("no model", b"GIF89a")
    attempt("an offset changed", b"\xff\xff\xff\x7f" + whole[4:])


if __name__ == "__main__":
    main(sys.argv[1:])
