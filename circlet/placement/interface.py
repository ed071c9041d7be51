"""What placement asks of a backend: does it take an op, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from circlet.ir import Op


@dataclass(frozen=True)
class Supported:
    """The backend takes the op; `how` names the way it would run it."""

    how: str


@dataclass(frozen=True)
class Reason:
    """Why a backend does not take an op."""

    text: str


class Candidate(Protocol):
    """A backend as placement sees it."""

    @property
    def name(self) -> str:
        """The name users write in `backends=`."""
        ...

    def supports(self, op: Op) -> Supported | Reason:
        """Whether the backend takes an op, never a bare yes or no."""
        ...
