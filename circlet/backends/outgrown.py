"""The end of a run that needs more room than its plan has."""

from __future__ import annotations

from circlet.errors import LimitError


class OutgrownError(LimitError):
    """A run went on where its plan has no more room: with more (`Options.loop_room`) it may end."""

    @classmethod
    def of_turns(cls, where: str = "") -> OutgrownError:
        """The error of a loop that takes more turns than there is room for."""
        return cls("a loop takes more turns than its plan has room for", where=where)
