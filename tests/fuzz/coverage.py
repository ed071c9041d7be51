"""The reader under atheris, which steers by coverage: `python -m tests.fuzz.coverage -runs=N`.

Optional: needs `pip install atheris`; the arguments are libFuzzer's.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["circlet.formats", "circlet.ir"]):
    import circlet.formats.read_model  # noqa: F401

from circlet.errors import CircletError
from tests.fuzz.case import read
from tests.fuzz.seeds import seeds

MOST_SEED_BYTES = 8_000


def one_input(data: bytes) -> None:
    """Anything but a model or a coded error is a crash to atheris."""
    with suppress(CircletError):
        read(data)


def main() -> None:
    """Start from the small seeds."""
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds()):
            data = seed.read()
            if len(data) <= MOST_SEED_BYTES:
                Path(folder, str(number)).write_bytes(data)
        atheris.Setup([*sys.argv, f"-max_len={MOST_SEED_BYTES}", folder], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
