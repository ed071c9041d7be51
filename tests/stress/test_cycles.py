"""Stress: networks that are opened, run and let go again and again leave nothing behind.

`python -m tests.stress.test_cycles --cycles 100000` goes through more of them in one process, and
prints what the process holds on the way; it ends with 1 where that has grown.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest

from circlet import Session, load_artifact
from circlet.compiler.compile import compile_model
from circlet.errors import CircletError
from circlet.options import Options
from tests.runtime import networks

CYCLES, WARM_UP, MARKS = 10_000, 1000, 10
_FILES = 32
_X = np.linspace(-1, 1, 6, dtype=np.float32)
_Y = np.maximum(_X, 0)

Cycle = Callable[[], None]


class Held(NamedTuple):
    """What a process holds: descriptors, threads, mappings, and MiB of memory."""

    descriptors: int
    threads: int
    mappings: int
    resident_mib: float

    @classmethod
    def now(cls) -> Held:
        """What this process holds, as the kernel counts it."""
        own = Path("/proc/self")
        pages = int((own / "statm").read_text().split()[1])
        descriptors, threads = (sum(1 for _ in (own / name).iterdir()) for name in ("fd", "task"))
        mappings = (own / "maps").read_text().count("\n")
        resident_mib = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        return cls(descriptors, threads, mappings, resident_mib)

    def is_more_than(self, before: Held) -> bool:
        """Whether it has grown by more than what comes and goes: malloc's arenas, and pages."""
        descriptors, threads, mappings, resident_mib = before
        most = Held(descriptors, threads, mappings + 8, resident_mib + 4)
        return any(now > limit for now, limit in zip(self, most, strict=True))


def ways(folder: Path) -> list[Cycle]:
    """Each opens a network in its way, runs it, checks the answer, and lets it go."""
    source, path, artifact = networks.relu(), folder / "m.tflite", folder / "m.circlet"
    path.write_bytes(source)
    artifact.write_bytes(compile_model(source, Options()))
    layers, image = networks.convolutions(16, 8, 2), networks.convolutions_input(16, 8)
    (wanted,) = Session(layers).run([image]).values()

    def is_right(session: Session) -> None:
        (got,) = session.run([_X]).values()
        np.testing.assert_array_equal(got, _Y)

    def with_threads() -> None:
        (got,) = Session(layers, threads=2).run([image]).values()
        np.testing.assert_array_equal(got, wanted)

    def bound() -> None:
        out = np.zeros_like(_Y)
        Session(source).bind([_X], [out])()
        np.testing.assert_array_equal(out, _Y)

    def refused() -> None:
        with pytest.raises(CircletError):
            Session(source[:-40])

    return [
        *(lambda: is_right(Session(source)), lambda: is_right(Session(path))),
        *(lambda: is_right(load_artifact(artifact)), with_threads, bound, refused),
        lambda: is_right(Session(source, backends=("reference",), cache=False)),
    ]


def held_on_the_way(count: int, folder: Path) -> Iterator[tuple[int, Held]]:
    """What the process holds once it is warm, and then ten times on the way to so many cycles."""
    turns, done = cycle(ways(folder)), 0
    marks = (count * number // MARKS for number in range(1, MARKS + 1))
    for mark in (WARM_UP, *(mark for mark in marks if mark > WARM_UP)):
        for one in islice(turns, mark - done):
            one()
        done = mark
        yield done, Held.now()


@pytest.mark.slow
def test_opening_and_closing_leaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", str(tmp_path / "cache"))
    (_, first), *_, (done, last) = held_on_the_way(CYCLES, tmp_path)
    assert done == CYCLES
    assert not last.is_more_than(first), (first, last)


def test_what_is_held_is_counted(tmp_path: Path) -> None:
    gc.collect()  # what other tests left to it would be closed meanwhile
    before = Held.now()
    with ExitStack() as opened:
        for number in range(_FILES):
            opened.enter_context((tmp_path / str(number)).open("w"))
        assert Held.now().descriptors > before.descriptors + _FILES // 2


@pytest.mark.parametrize(
    ("name", "slack"), [("descriptors", 0), ("threads", 0), ("mappings", 8), ("resident_mib", 4)]
)
def test_any_kind_of_growth_is_noticed(name: str, slack: int) -> None:
    before = Held(descriptors=6, threads=3, mappings=200, resident_mib=66.5)
    held = getattr(before, name)
    assert not before._replace(**{name: held + slack}).is_more_than(before)
    assert before._replace(**{name: held + slack + 1}).is_more_than(before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Go through as many cycles as the command line says; 1 where the process has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=CYCLES)
    options = parser.parse_args(arguments)
    marks: list[Held] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"CIRCLET_CACHE_DIR": f"{folder}/cache"}),
    ):
        for done, held in held_on_the_way(options.cycles, Path(folder)):
            marks.append(held)
            sys.stdout.write(
                f"{done:8} cycles: {held.descriptors} descriptors, {held.threads} threads, "
                f"{held.mappings} mappings, {held.resident_mib:.1f} MiB\n"
            )
            sys.stdout.flush()
    return int(marks[-1].is_more_than(marks[0]))


if __name__ == "__main__":
    sys.exit(main())
