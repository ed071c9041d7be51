"""What was found of one case."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np


class Named(Protocol):
    """A case of some kind; its text says all of it."""

    name: str

    @property
    def kind(self) -> str:
        """The operator's kind."""
        ...


C = TypeVar("C", bound=Named)


@dataclass
class Outcome(Generic[C]):
    """What was found of one case.

    Attributes:
        status: "run", or why it did not: "refused" by a rule of its record, "failed" with a code.
        judged: "" where it was not asked, "agreed", "differs", "refused", "crashed", "no file", or
            "excused".
        findings: (against what, what is wrong) of everything that should not be.
        native: Whether all of it ran in native code.
    """

    case: C
    status: str = "run"
    why: str = ""
    judged: str = ""
    native: bool = False
    findings: list[tuple[str, str]] = field(default_factory=list)
    wanted: list[np.ndarray] = field(default_factory=list)
