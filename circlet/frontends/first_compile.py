"""A session for users of engines that do not compile, who are told when that takes its time."""

from __future__ import annotations

import logging
import time

from circlet.escape import escaped
from circlet.options import DEFAULT_OPTIONS, Options
from circlet.progress import Progress, listening
from circlet.runtime.session import Session
from circlet.stored import Stored, StoredFile

# Seen where nobody set logging up: without it, seconds would pass in silence.
_LEVEL = logging.WARNING
_LOGGER = logging.getLogger(__name__)


def first_session(
    source: Stored | bytes,
    threads: int | None,
    signature: str = "",
    options: Options = DEFAULT_OPTIONS,
    is_quiet: bool = False,
) -> Session:
    """A session of the signature of a key or of the main graph.

    Logs that a network is compiled, where that is not found in the cache, before it begins, unless
    `is_quiet`.

    Raises:
        CircletError: As `Session`.
    """
    name = escaped(source.name) if isinstance(source, StoredFile) else ""
    begun: list[float] = []

    def tell(at: Progress) -> None:
        if begun:
            return
        begun.append(time.perf_counter())
        message = "compiling %s for this CPU, which takes seconds; what is compiled is kept"
        _LOGGER.log(logging.DEBUG if is_quiet else _LEVEL, message, name or "a network")

    options = options._replace(signature=signature)
    with listening(tell):
        session = Session.of(source, options, threads=threads)
    if begun:
        _LOGGER.info("compiled in %.1f s", time.perf_counter() - begun[0])
    return session
