"""When to move along a front of configurations: decided from latencies and what memory allows."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from statistics import median

LATENCY, CALM, MEMORY = "latency", "calm", "memory"
_GAIN = 0.9  # of the latency now, at most, is what makes another point worth a move


@dataclass(frozen=True)
class Pace:
    """How fast a session moves.

    Attributes:
        samples: Requests on a point before its latency, their median, counts.
        calm_s: Seconds for which the target must have been kept before a more preferred point is
            tried; doubled for a point, up to `longest_s`, each time that it does not keep it.
        longest_s: The most that `calm_s` grows to; after so long a point is tried in any case.
        headroom: The share of the target that a more preferred point may be expected to take.
    """

    samples: int = 8
    calm_s: float = 2.0
    longest_s: float = 60.0
    headroom: float = 0.85


DEFAULT_PACE = Pace()


@dataclass(frozen=True)
class Wish:
    """The point to move to, and why."""

    point: int
    why: str


class FrontController:
    """Says to which point of a front to move; knows nothing of sessions, threads or clocks.

    Points are numbers in order of preference: the first is wanted as long as it keeps the target,
    later ones are taken while it does not. What a point would take now is what the current one
    takes, by the ratio of both at the last move between points, before and after which the load
    was much the same; a point that was never tried is taken for fast enough.

    Args:
        points: How many there are.
        target_ms: The latency to keep.
        pace: How fast it moves.
    """

    def __init__(self, points: int, target_ms: float, pace: Pace = DEFAULT_PACE) -> None:
        self.target_ms = target_ms
        self._pace = pace
        self._relative = {0: 1.0}
        self._left: tuple[int, float] | None = None  # the point before, and its latency then
        self._holds = [pace.calm_s] * points
        self._left_at = [-inf] * points  # for its latency
        self._points = range(points)
        self._start(0, 0.0)

    def _start(self, point: int, now: float) -> None:
        self._current, self._since = point, now
        self._recent: deque[float] = deque(maxlen=self._pace.samples)
        self._kept_since: float | None = None

    def moved(self, point: int, now: float, why: str = LATENCY) -> None:
        """The session is on a point from now on, in seconds of any clock that does not go back.

        Where latency was why, the point that it left is not tried again for a while.
        """
        current = self._current
        if why == LATENCY:
            self._left_at[current] = now
            self._holds[current] = min(2 * self._holds[current], self._pace.longest_s)
        is_known = len(self._recent) == self._pace.samples
        self._left = (self._current, median(self._recent)) if is_known else None
        self._start(point, now)

    def record(self, point: int, latency_ms: float, now: float) -> None:
        """Take down a request; those that began on an earlier point do not count."""
        if point != self._current:
            return
        self._recent.append(latency_ms)
        if len(self._recent) < self._pace.samples:
            return
        latency = median(self._recent)
        if self._left is not None:
            before, its_latency = self._left
            if before in self._relative:
                self._relative[point] = self._relative[before] * latency / its_latency
            self._left = None
        if latency > self.target_ms:
            self._kept_since = None
        elif self._kept_since is None:
            self._kept_since = now

    def wish(self, now: float, allowed: Collection[int]) -> Wish | None:
        """Where to move now, among the points that memory allows; None to stay."""
        if self._current not in allowed:
            fitting = self._fitting(allowed)
            return None if fitting is None else Wish(fitting, MEMORY)
        if len(self._recent) < self._pace.samples:
            return None
        latency = median(self._recent)
        if latency > self.target_ms:
            return self._away(latency, allowed)
        return self._back(latency, now, allowed)

    def _fitting(self, allowed: Collection[int]) -> int | None:
        """The next point after the current one that memory allows, or else the nearest before."""
        later = [p for p in self._points if p in allowed and p > self._current]
        earlier = [p for p in self._points if p in allowed and p < self._current]
        return next(iter((*later, *reversed(earlier))), None)

    def _expected(self, point: int, latency: float) -> float | None:
        """What a point would take now; None where it was never compared with others."""
        if point not in self._relative or self._current not in self._relative:
            return None
        return latency * self._relative[point] / self._relative[self._current]

    def _away(self, latency: float, allowed: Collection[int]) -> Wish | None:
        """The first later point that is expected to keep the target, or else the fastest of all."""
        current = self._current
        expected = {p: self._expected(p, latency) for p in self._points if p in allowed}
        for point in self._points[current + 1 :]:
            known = expected.get(point, latency)
            if known is None or known <= self.target_ms:
                return Wish(point, LATENCY)
        found = {p: ms for p, ms in expected.items() if ms is not None and p != current}
        fastest = min(found, key=lambda p: found[p], default=current)
        if fastest != current and found[fastest] <= _GAIN * latency:
            return Wish(fastest, LATENCY)
        return None

    def _back(self, latency: float, now: float, allowed: Collection[int]) -> Wish | None:
        """The most preferred point that is expected to keep the target with room to spare."""
        if self._kept_since is None or now - self._kept_since < self._pace.calm_s:
            return None
        if now - self._kept_since >= self._holds[self._current]:
            self._holds[self._current] = self._pace.calm_s
        for point in self._points[: self._current]:
            away = now - self._left_at[point]
            if point not in allowed or away < self._holds[point]:
                continue
            expected = self._expected(point, latency)
            fits = expected is None or expected <= self._pace.headroom * self.target_ms
            if fits or away >= self._pace.longest_s:  # the ratio may be wrong, where load changed
                return Wish(point, CALM)
        return None
