"""Time limits of runs, on the monotonic clock in nanoseconds."""

from __future__ import annotations

import time

from circlet.errors import DeadlineError

NANOSECONDS = 1_000_000_000


def deadline_after(timeout_ns: int) -> int:
    """When a timeout that starts now ends; 0 for no timeout."""
    return time.monotonic_ns() + timeout_ns if timeout_ns else 0


def time_left(deadline: int) -> int:
    """Nanoseconds until a deadline, 0 where there is none.

    Raises:
        DeadlineError: It has passed.
    """
    if not deadline:
        return 0
    left = deadline - time.monotonic_ns()
    if left <= 0:
        raise DeadlineError.passed()
    return left
