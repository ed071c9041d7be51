"""Long proofs in parts: a file holds what was done, so that several runs add up to one figure."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Found = TypeVar("Found")


class TallyError(Exception):
    """A file of parts that were done cannot be gone on with."""


@dataclass
class Tally:
    """What was done of a proof.

    Attributes:
        path: The JSON file that holds it.
        about: What decides the cases: another proof's parts must not be added.
        done: How many cases were tried, from the first on.
        seconds: Wall time of all parts.
        found: What the proof itself adds up.
    """

    path: Path
    about: Mapping[str, Any]
    done: int = 0
    seconds: float = 0.0
    found: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, about: Mapping[str, Any]) -> Tally:
        """That of the file; an empty one where there is none.

        Raises:
            TallyError: The file is damaged, or of other cases.
        """
        if not path.exists():
            return cls(path, about)
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            tally = cls(path, known["about"], known["done"], known["seconds"], known["found"])
        except (ValueError, KeyError, TypeError) as error:
            raise TallyError(f"{path} holds no tally: {error!r}; name another file") from error
        if tally.about != about:
            raise TallyError(f"{path} is of {tally.about}, not of {about}; name another file")
        return tally

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(f".{os.getpid()}.part")
        known = {name: getattr(self, name) for name in ("about", "done", "seconds", "found")}
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)


def go_on(
    tally: Tally,
    total: int,
    size: int,
    attempt: Callable[[int, int], Found],
    *,
    add: Callable[[Found], None] = lambda found: None,
    seconds: float | None = None,
    jobs: int = 1,
) -> None:
    """Try the parts that are left, each of `size` cases, and save after each.

    Parts count in their order: what ends early waits for those before it, and is tried again by
    the next run where one of them raises.

    Args:
        attempt: Tries so many cases from a number on; what it raises ends the run.
        add: Adds what a part found to `tally.found`.
        seconds: No part starts after that much wall time.
        jobs: How many parts are tried at a time, each on a thread.
    """
    begin = time.monotonic()

    def part(first: int) -> tuple[int, Found] | None:
        if seconds is not None and time.monotonic() - begin >= seconds:
            return None
        count = min(size, total - first)
        return count, attempt(first, count)

    before, firsts = tally.seconds, range(tally.done, total, size)
    with ThreadPoolExecutor(jobs) as pool:
        for tried in pool.map(part, firsts) if jobs > 1 else map(part, firsts):
            if tried is None:
                break
            count, found = tried
            add(found)
            tally.done += count
            tally.seconds = before + time.monotonic() - begin
            tally.save()
