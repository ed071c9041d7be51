"""What of a network's time more threads can share, from the tasks of each kernel call.

The network runs on one thread here; for `--threads` the least time of each call is worked out from
its tasks, which threads get in equal numbers, and from the time that a chunk has to be worth. What
memory and caches add is left out: figures are bounds, not predictions. The calls that keep most
time from the ideal come first. It needs no machine with so many cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.arguments import add_networks, add_target, parser
from bench.measure import CORPUS, chosen
from bench.steps import Profile, profile
from circlet.errors import CircletError
from circlet.escape import escaped
from circlet.words import shortened

_CHUNK_US = 2.0  # CHUNK_NS of the runtime library


@dataclass(frozen=True)
class Shared:
    """A kernel call: its time on one thread, and at least on many."""

    kernel: str
    source: str
    tasks: int
    us: float
    least_us: float

    def lost_us(self, threads: int) -> float:
        """What it takes longer than its part of the time of all threads."""
        return self.least_us - self.us / threads


def least_us(us: float, tasks: int, threads: int) -> float:
    """The time of a call of so many tasks on so many threads, where nothing else slows them."""
    used = min(threads, tasks, max(2, int(us / _CHUNK_US)))
    return us if used < 2 else us * -(-tasks // used) / tasks


def shared(found: Profile, threads: int) -> list[Shared]:
    """All calls, those first that lose most."""
    rows = [
        Shared(
            row.work.kernel,
            "+".join(name for _, name in row.work.sources),
            row.work.tasks,
            row.us,
            least_us(row.us, row.work.tasks, threads),
        )
        for row in found.rows
    ]
    return sorted(rows, key=lambda row: -row.lost_us(threads))


def main(arguments: Sequence[str]) -> None:
    """Print a line per network, and the calls that lose most."""
    known = parser("shares", __doc__)
    add_networks(known, "the public corpora")
    known.add_argument("--threads", type=int, default=16, help="that are to share the work")
    known.add_argument("--top", type=int, default=5, help="calls to show of each network")
    known.add_argument("--seconds", type=float, default=0.3, help="time to measure for")
    add_target(known)
    options = known.parse_args(arguments)
    if options.threads < 2:
        known.error("threads are 2 or more")
    for path in chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models):
        try:
            found = profile(path, 1, options.seconds, options.target)
        except (CircletError, OSError) as error:
            print(f"{path.stem}: {error}".splitlines()[0], flush=True)
            continue
        _show(
            path.stem, shared(found, options.threads), found.numpy_us, options.threads, options.top
        )


def _show(name: str, rows: Sequence[Shared], numpy_us: float, threads: int, top: int) -> None:
    one = sum(row.us for row in rows) + numpy_us
    many = sum(row.least_us for row in rows) + numpy_us
    if not one:
        return
    print(f"{name:44} {one:9.1f} us, at least {many:8.1f} on {threads}: {one / many:5.2f} times")
    for row in rows[:top]:
        if row.lost_us(threads) < 0.01 * many:
            break
        print(
            f"    lost {row.lost_us(threads):8.1f} of {row.us:8.1f} us, {row.tasks:5} tasks"
            f"  {row.kernel} / {shortened(escaped(row.source), 50)}",
            flush=True,
        )
