"""What a session, or an artifact, is asked for: the one object that carries it to every room."""

from __future__ import annotations

from circlet.limits import DEFAULT_LIMITS, Limits
from circlet.struct import Struct

DEFAULT_BACKENDS = ("cpu", "reference")
DEFAULT_LEVEL = "O2"
DEFAULT_PRECISION = "f32"
PRECISIONS = ("f32", "bf16", "f16")
VERIFY = ("once", "always")
DEFAULT_EXECUTOR = "linear"
EXECUTORS = (DEFAULT_EXECUTOR, "dataflow", "parallel")
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
PlacementRules = tuple[tuple[str, str], ...]
Failures = tuple[tuple[str, str], ...]

_FIRST_ROOM = 64  # turns of loops, of which nothing bounds the number


class Options(Struct):
    """How a source is turned into a plan.

    Attributes:
        backends: Names of backends in order of preference.
        strict: Whether an op that the first backend does not take is an error.
        target: What to compile for, as `circlet.target.targets.parse_targets` reads it.
        level: Optimisation level; None for "O2", or for whatever an artifact was made at.
        cache: Whether compiled artifacts are kept, and kept ones used.
        shapes: Inputs whose sizes are not those of the file, by name.
        limits: Bounds on what an untrusted network may use.
        signature: Key of the entry point, "" for the first graph.
        tune_seconds: Time for measuring kernels, for each target; 0 for none.
        precision: What operands of float products may be rounded to, "f32", "bf16" or "f16";
            None for "f32", or for whatever an artifact was made for.
        verify: When the hashes of weights in an artifact are checked, the cache's included: "once"
            for each file as long as it is not touched, or "always".
        backend_of: Pairs of a regular expression and a backend, which operators go to whose kind,
            or a source name of theirs, the whole expression matches; the first that matches holds.
        executor: What runs the partitions: "linear" in the plan's order, "dataflow" in order of the
            work that waits for them, "parallel" side by side; None for "linear", or for whatever
            an artifact was made for.
        fallback: Backends that take over, in order, what a backend failed at.
        failed: Backends that nothing is placed on any more, and why in a clause.
        backend_of_source: Pairs of what operators are in the user's file and a backend: a position
            in its first graph, a kind, or "*" for all. `backend_of` goes before them, the first
            that matches holds, and one that matches nothing is left out.
        loop_room: Turns for which loops have room that add to a tensor in each and of which nothing
            else bounds the number; 0 where such loops are to go to backends that need no room. A
            session begins with some, and has as much more as its runs need.
    """

    backends: tuple[str, ...] = DEFAULT_BACKENDS
    strict: bool = False
    target: str = "native"
    level: str | None = None
    cache: bool = True
    shapes: Shapes = ()
    limits: Limits = DEFAULT_LIMITS
    signature: str = ""
    tune_seconds: float = 0.0
    precision: str | None = None
    verify: str = "once"
    backend_of: PlacementRules = ()
    executor: str | None = None
    fallback: tuple[str, ...] = ()
    failed: Failures = ()
    backend_of_source: PlacementRules = ()
    loop_room: int = 0

    def of_session(self) -> Options:
        """These options as sessions plan with them, which plan anew where loops need more room."""
        return self._replace(loop_room=self.loop_room or _FIRST_ROOM)

    @property
    def preferred(self) -> tuple[str, ...]:
        """Backends in order of preference, those that take over included once one has failed."""
        return tuple(dict.fromkeys([*self.backends, *(self.fallback if self.failed else ())]))

    @property
    def all_backends(self) -> tuple[str, ...]:
        """Those in order of preference, and behind them those that only rules name."""
        rules = (*self.backend_of, *self.backend_of_source)
        return tuple(dict.fromkeys([*self.preferred, *(name for _, name in rules)]))


DEFAULT_OPTIONS = Options()


def shape_words(shapes: Shapes) -> list[str]:
    """Shapes as commands are given them."""
    pairs = (("--shape", f"{name}={'x'.join(map(str, sizes))}") for name, sizes in shapes)
    return [word for pair in pairs for word in pair]
