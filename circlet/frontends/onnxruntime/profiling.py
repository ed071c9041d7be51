"""How long sessions, runs and operators took, as events for trace viewers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from circlet.regular_files import write_file

if TYPE_CHECKING:
    from circlet.backends.base import Observation


class Profile:
    """Events of a session; any number of threads may add some.

    Attributes:
        start_ns: When it began, as `time.monotonic_ns` has it.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.start_ns = time.monotonic_ns()
        self._lines: list[str] = []

    def add(self, category: str, name: str, start_ns: int, **facts: object) -> None:
        """An event that ends now."""
        event = {
            "cat": category,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
            "dur": (time.monotonic_ns() - start_ns) // 1000,
            "ts": (start_ns - self.start_ns) // 1000,
            "ph": "X",
            "name": name,
            "args": facts,
        }
        self._lines.append(json.dumps(event))

    def observer(self) -> Callable[[Observation], None]:
        """What adds an event for each operator of a run."""

        def observe(observation: Observation) -> None:
            start_ns = time.monotonic_ns() - observation.ns
            name, kind = observation.name, observation.kind
            self.add("Node", name, start_ns, op_name=kind, provider="CPUExecutionProvider")

        return observe

    def write(self) -> str:
        """Write the events to a file of the working folder, and say its name.

        Raises:
            FileError: It cannot be written.
        """
        stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{time.monotonic_ns() % 1_000_000_000:09}"
        path = f"{self._prefix}_{stamp}.json"
        text = "[\n" + ",\n".join(self._lines) + "\n]\n"
        write_file(path, text.encode(), 0o666, "the profile")
        return path
