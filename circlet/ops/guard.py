"""What may stop a run of records: limits, a deadline, the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from circlet.errors import LimitError
from circlet.ir import Op
from circlet.limits import DEFAULT_LIMITS, Limits, MemoryBudget

UNBOUNDED = 2**62  # more than any run does
AfterOp = Callable[[Op, Sequence[np.ndarray], int], None]


def _go_on() -> None:
    """Nothing stops this run."""


@dataclass
class Guard:
    """What may stop a run, in the graphs that its ops run too.

    Attributes:
        before_op: Called ahead of each op, and inside of long ones; may raise.
        limits: Bounds of the run.
        turns: Turns that all loops have done.
        after_op: Called behind each op with its results and the nanoseconds it took; may raise.
        most_work: Elementary operations that the run may do.
        work: Those that its ops have begun.
        budget: What the values of the run, and what computing them needs, are charged to.
    """

    before_op: Callable[[], None] = _go_on
    limits: Limits = DEFAULT_LIMITS
    turns: int = 0
    after_op: AfterOp | None = None
    most_work: int = UNBOUNDED
    work: int = 0
    budget: MemoryBudget = field(default_factory=partial(DEFAULT_LIMITS.memory_budget, 0))

    def count_work(self, op: Op, work: int) -> None:
        """Count what an op is about to do; LimitError where that is too much."""
        self.work += work
        if self.work > self.most_work:
            raise LimitError(
                "the network has more work to do than allowed",
                where=f"{op.name} ({op.label})",
                why=f"the run passed {self.most_work} operations",
                fix="raise `run_work` of circlet.limits.Limits if this is meant",
            )

    def count_turn(self, name: str) -> None:
        """Count one turn of the loop of this name; LimitError for one too many."""
        self.turns += 1
        if self.turns > self.limits.loop_turns:
            raise LimitError(
                "a loop of the network did not end",
                where=name,
                why=f"the run passed {self.limits.loop_turns} turns",
                fix="raise `loop_turns` of circlet.limits.Limits if this is meant",
            )


_GUARD: ContextVar[Guard] = ContextVar("guard")


@contextmanager
def entered(guard: Guard) -> Iterator[None]:
    """Make a guard that of the run in progress."""
    token = _GUARD.set(guard)
    try:
        yield
    finally:
        _GUARD.reset(token)


def current_guard() -> Guard:
    """The guard of the run in progress, or one of the default limits."""
    return _GUARD.get(None) or Guard()


@contextmanager
def working(size: int, op: Op, what: str) -> Iterator[None]:
    """Charge the run in progress for `size` bytes that an op works in, for as long as it does.

    Raises:
        LimitError: They are more than the run may take.
    """
    budget = current_guard().budget
    budget.charge(size, op.name, what)
    try:
        yield
    finally:
        budget.release(size)


def look() -> None:
    """Raise where the run in progress is to end; what evaluates long calls it now and then."""
    guard = _GUARD.get(None)
    if guard is not None:
        guard.before_op()
