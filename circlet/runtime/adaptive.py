"""`AdaptiveSession`: one network in several configurations, and moves between them at run time."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.errors import CircletError, InputError, check_type
from circlet.forking import renew_in_children
from circlet.runtime.calls import Given
from circlet.runtime.front import DEFAULT_PACE, FrontController, Pace
from circlet.runtime.session import Session

if TYPE_CHECKING:
    from circlet.artifact.values import Value
    from circlet.backends.base import Observer
    from circlet.runtime.opening import Source

LOGGER = logging.getLogger(__name__)
_MOST_MOVES = 1000
_MEMORY = "memory_bytes"
_FIELDS = frozenset(signature(Session.__init__).parameters) - {"self", "source"}


@dataclass(frozen=True)
class Move:
    """A change of the point that new requests run on.

    Attributes:
        seconds: When, by the session's clock.
        source, target: The points' numbers.
        why: "latency", "calm" or "memory".
        latency_ms: The last request's before it.
    """

    seconds: float
    source: int
    target: int
    why: str
    latency_ms: float


class AdaptiveSession:
    """A network that moves along a front of configurations, to keep a latency target or a limit.

    Requests run on the current point. Where their median latency leaves the target, the next point
    that keeps it is opened beside them and then takes what comes; after a calm time the session
    moves back. A request ends on the point where it began, and none is lost or waits for a move.
    Any number of threads may use one session. Results are those of the point that ran: points of
    another precision or backend may round otherwise.

    Args:
        model: What `Session` takes.
        points: Configurations in order of preference, the wanted one first and those behind it that
            are faster, or smaller: arguments of `Session` by name, and as `memory_bytes` what a
            session of it takes, where that was measured.
        target_ms: The latency of a request to keep, in milliseconds.
        memory_limit: The most bytes that points may take together; None for no limit.
        pace: After how many requests and how much time it moves.
        clock: Seconds; for tests.

    Attributes:
        inputs, outputs: As those of `Session`.

    Raises:
        InputError: An argument does not fit, or the network has state, which does not move.
        CircletError: As `Session`, for the first point.
    """

    def __init__(
        self,
        model: Source,
        points: Sequence[Mapping[str, Any]],
        *,
        target_ms: float,
        memory_limit: int | None = None,
        pace: Pace = DEFAULT_PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_points(points)
        check_type(target_ms, Real, "target_ms", "a number of milliseconds")
        if not target_ms > 0:
            raise InputError("the target is not positive", where="target_ms", why=str(target_ms))
        self._model, self._points, self._clock = model, [dict(p) for p in points], clock
        self._limit = memory_limit
        self._controller = FrontController(len(points), target_ms, pace)
        self._moves: deque[Move] = deque(maxlen=_MOST_MOVES)
        self._sizes: dict[int, int] = {}
        self._broken: dict[int, CircletError] = {}
        self._latency_ms = 0.0
        self._point = 0
        first = self._opened(0)
        self.inputs: tuple[Value, ...] = first.inputs
        self.outputs: tuple[Value, ...] = first.outputs
        self._sessions = {0: first}
        self.renew_after_fork()
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Open the lock, and open anew what another thread was opening."""
        self._lock = threading.Lock()
        self._opening: set[int] = set()

    @property
    def point(self) -> int:
        """The number of the point that new requests run on."""
        return self._point

    @property
    def points(self) -> list[dict[str, Any]]:
        """The configurations, as they were given."""
        return [dict(point) for point in self._points]

    @property
    def open_points(self) -> list[int]:
        """The points that are loaded now."""
        with self._lock:
            return sorted(self._sessions)

    @property
    def moves(self) -> list[Move]:
        """The last thousand moves, the oldest first."""
        with self._lock:
            return list(self._moves)

    @property
    def memory_limit(self) -> int | None:
        """The most bytes that points may take together; setting it moves at once where it must."""
        return self._limit

    @memory_limit.setter
    def memory_limit(self, limit: int | None) -> None:
        with self._lock:
            self._limit = limit
        self._follow()

    def run(
        self,
        inputs: Given = (),
        *,
        timeout: float | None = None,
        observer: Observer | None = None,
    ) -> dict[str, np.ndarray]:
        """Outputs by name, as `Session.run`; raises as that."""
        return self.run_on_point(inputs, timeout=timeout, observer=observer)[0]

    def run_on_point(
        self,
        inputs: Given = (),
        *,
        timeout: float | None = None,
        observer: Observer | None = None,
    ) -> tuple[dict[str, np.ndarray], int]:
        """Outputs by name, and the number of the point that computed them; raises as `run`."""
        with self._lock:
            point, session = self._point, self._sessions[self._point]
        start = self._clock()
        found = session.run(inputs, timeout=timeout, observer=observer)
        now = self._clock()
        with self._lock:
            self._latency_ms = (now - start) * 1e3
            self._controller.record(point, self._latency_ms, now)
        self._follow()
        return found, point

    def _follow(self) -> None:
        """Move where the controller wishes, or have the point opened that it wishes for."""
        with self._lock:
            now = self._clock()
            allowed = self._allowed()
            wish = self._controller.wish(now, allowed)
            if wish is not None and wish.point in self._sessions:
                self._moves.append(Move(now, self._point, wish.point, wish.why, self._latency_ms))
                self._point = wish.point
                self._controller.moved(wish.point, now, wish.why)
            elif wish is not None and wish.point not in self._opening:
                self._opening.add(wish.point)
                name = f"circlet-point-{wish.point}"
                args = (wish.point,)
                threading.Thread(target=self._open, args=args, name=name, daemon=True).start()
            self._drop()

    def _allowed(self) -> Collection[int]:
        """Points that open and fit by themselves; the smallest where none does."""
        sound = [p for p in range(len(self._points)) if p not in self._broken]
        if self._limit is None:
            return sound
        fitting = [p for p in sound if self._size(p) <= self._limit]
        return fitting or [min(sound, key=self._size)]

    def _size(self, point: int) -> int:
        """Bytes of a point: as given, or as it was when it was open; 0 where neither is known."""
        given = self._points[point].get(_MEMORY)
        return int(self._sizes.get(point, 0) if given is None else given)

    def _drop(self) -> None:
        """Let go of points that are not needed while all together take too much."""
        if self._limit is None:
            return
        for point in sorted(self._sessions, key=self._size, reverse=True):
            if sum(map(self._size, self._sessions)) <= self._limit:
                return
            if point != self._point:
                del self._sessions[point]

    def _open(self, point: int) -> None:
        """Open a point while requests run on another; one that does not open is left out."""
        try:
            session = self._opened(point)
            self._check_same(session, point)
        except CircletError as error:
            LOGGER.warning("point %d cannot be opened, and is left out: %s", point, error)
            with self._lock:
                self._broken[point] = error
                self._opening.discard(point)
            return
        with self._lock:
            self._sessions[point] = session
            self._opening.discard(point)
        self._follow()

    def _opened(self, point: int) -> Session:
        asked = {name: value for name, value in self._points[point].items() if name != _MEMORY}
        session = Session(self._model, **asked)
        if session.is_stateful:
            raise InputError(
                "a network with state cannot move between points",
                why="what it remembers lies with the point that ran",
                fix="use a Session",
            )
        self._sizes[point] = session_bytes(session)
        return session

    def _check_same(self, session: Session, point: int) -> None:
        for role in ("inputs", "outputs"):
            ends = [
                [(value.name, value.dtype, value.shape) for value in getattr(of, role)]
                for of in (self, session)
            ]
            if ends[0] != ends[1]:
                why = f"its {role} are {ends[1]}, those of point 0 are {ends[0]}"
                raise InputError(
                    "points are of different networks", where=f"point {point}", why=why
                )


def session_bytes(session: Session) -> int:
    """Bytes of what a session has loaded and of one run: constants, what is computed once, arenas,
    and arrays in between.
    """
    opened = session.opened
    arrays = sum(value.bytes for value in opened.values if not value.is_dynamic)
    kinds = ("arena_bytes", "once_bytes")
    arenas = sum(int(part.entry.get(kind, 0)) for part in opened.partitions for kind in kinds)
    loaded = [getattr(part.code, "constants", None) for part in opened.partitions]
    held = {array.ctypes.data: array.nbytes for array in loaded if array is not None}  # each once
    return arrays + arenas + sum(held.values())


def _check_points(points: Sequence[Mapping[str, Any]]) -> None:
    wanted = "a list of dicts of arguments of Session, such as {'threads': 1}"
    check_type(points, Sequence, "points", wanted)
    if not points:
        raise InputError("no point is given", where="points", fix="give at least one")
    for number, point in enumerate(points):
        check_type(point, Mapping, f"points[{number}]", "a dict of arguments of Session")
        unknown = sorted(set(map(str, point)) - _FIELDS - {_MEMORY})
        if unknown:
            raise InputError(
                "a point holds what is no argument of Session",
                where=f"points[{number}]",
                why=", ".join(unknown),
                fix=f"choose among {', '.join(sorted(_FIELDS))} and {_MEMORY}",
            )
