"""Runs loops whose variables grow, with room for no more than they need, as the worker runs them.

python -m tests.sanitize.growing_loops NETWORK MODE NOTE
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from circlet import Session
from circlet.options import Options
from tests.formats.loop_nets import (
    MOST,
    WIDTH,
    WORDS,
    caching,
    collecting,
    decoding,
    halving,
    searching,
    telling,
)
from tests.sanitize.worker import install, speaker

_WORDS = np.array([[3], [1]])
_STATE = np.linspace(-1, 1, 2 * WIDTH, dtype=np.float32).reshape(2, WIDTH)
_ROOM = 30  # turns
_YES, _NO = np.array(True), np.array(False)
_LENGTHS = [np.array(length) for length in (_ROOM, 1, 9)]
NETWORKS: dict[str, tuple[bytes, Sequence[Sequence[np.ndarray]]]] = {
    "rows": (collecting(MOST), [[_STATE[0], n, on] for n in _LENGTHS for on in (_YES, _NO)]),
    "words": (
        decoding(2, MOST, length="length"),
        [[_STATE, _WORDS, np.array(WORDS), n] for n in _LENGTHS],
    ),
    "attention": (
        decoding(2, MOST, attends=True, length="length"),
        [[_STATE, _WORDS, np.array(WORDS), n] for n in _LENGTHS],
    ),
    "caches": (caching(2, 4), [[_WORDS[:1], n] for n in _LENGTHS]),
    "beams": (searching(2, 9), [[_WORDS, _STATE[:, 0], np.array(-1e9, np.float32)]]),
    "first row": (telling(2), [[_WORDS, n, _YES] for n in _LENGTHS]),
    "inner loops": (halving(), [[np.array([1, 0.001, 30, 5, 0.1, 2], np.float32)]]),
}


def main() -> None:
    """Run one network several times; the answers must be the records'."""
    network, mode, note = sys.argv[1:]
    install(mode, speaker(Path(note)))
    data, runs = NETWORKS[network]
    session = Session.of(data, Options(loop_room=_ROOM, strict=True), threads=1)
    reference = Session(data, backends=("reference",))
    for given in runs:
        wanted = reference.run(given)
        for name, array in session.run(given).items():
            assert array.shape == wanted[name].shape
            np.testing.assert_allclose(array, wanted[name], rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
