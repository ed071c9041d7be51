"""The end of an execution that runs beside the caller."""

from __future__ import annotations

import threading

from circlet.errors import NNAPIError
from circlet.frontends.nnapi.object import NNAPIObject
from circlet.frontends.nnapi.states import EVENT, Phase


class Event(NNAPIObject):
    """Tells when an execution has ended, and how."""

    table = EVENT

    def __init__(self) -> None:
        super().__init__(Phase.READY)
        self._ended = threading.Event()
        self._error: NNAPIError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether `wait` returns at once."""
        return self._ended.is_set()

    def wait(self) -> None:
        """Wait for the end; any number of threads may, any number of times.

        Raises:
            NNAPIError: What the execution ended in.
        """
        self._enter("ANeuralNetworksEvent_wait")
        self._ended.wait()
        if self._error is not None:
            raise self._error

    def end(self, error: NNAPIError | None) -> None:
        """Say that the execution has ended; `error` is None where it went well."""
        self._error = error
        self._ended.set()
