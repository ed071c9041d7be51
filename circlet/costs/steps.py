"""What measuring does, step by step: a step that ends its process is left out afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from circlet.apart import Apart, LostError, Tell

Step = tuple[str, ...]
"""What is done, then with which backends, operators and threads."""

_READING_S = 300.0  # before the first step: the process starts, and networks are read
LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Steps:
    """The steps that may be taken.

    Attributes:
        tell: Is called before each step.
        lost: Steps that ended a process, and what became of it.
        limit_s: How long nothing may be heard in a step, in seconds.
    """

    tell: Tell = lambda step, limit_s: None
    lost: Mapping[Step, str] = field(default_factory=dict)
    limit_s: float = 0.0

    def begins(self, *step: str) -> bool:
        """Whether a step is taken now, which is told; not if it ended a process before."""
        if step in self.lost:
            return False
        self.tell(step, self.limit_s)
        return True

    def why_lost(self, backend: str, key: str) -> str:
        """What became of the process that asked a backend for an operator, or ran it; or ""."""
        ends = (why for step, why in self.lost.items() if step[-1] == key and step[1] == backend)
        return next(ends, "")


EVERY_STEP = Steps()


def carried_out(
    apart: Apart, function: Callable[..., Any], *arguments: object, limit_s: float
) -> Any:
    """What a function returns in a process of its own for `Steps` and some arguments.

    It is called again, without the step that was at work, where that ended the process: what was
    measured before is known by then.

    Raises:
        CircletError: The function raised it, or the process ended at no step that can be left out.
    """
    lost: dict[Step, str] = {}
    while True:
        at_work: list[Step] = []
        try:
            return apart.call(
                _with_steps,
                function,
                lost,
                limit_s,
                *arguments,
                limit_s=_READING_S,
                heard=at_work.append,
            )
        except LostError as error:
            if not at_work:
                raise error.coded("a process that measures ended", function.__name__) from error
            step = at_work[-1]
            LOGGER.warning("%s is left out: %s", " ".join(step[:2]), error.why)
            lost[step] = error.why


def _with_steps(
    tell: Tell,
    function: Callable[..., Any],
    lost: Mapping[Step, str],
    limit_s: float,
    *arguments: object,
) -> Any:
    return function(Steps(tell, lost, limit_s), *arguments)
