"""Other backends take over what a backend failed at, where the caller named them."""

from __future__ import annotations

import logging

from circlet.errors import CircletError
from circlet.options import Options

LOGGER = logging.getLogger(__name__)


def taken_over(options: Options, error: CircletError) -> Options | None:
    """The options of a plan without the backend that failed; None where no other takes over.

    A warning names the backend and what it failed with, which the placement table tells as well.
    """
    failed = dict(options.failed)
    if not options.fallback or not error.backend or error.backend in failed:
        return None
    why = "; ".join(filter(None, (error.what, *error.reasons)))
    without = options._replace(failed=(*options.failed, (error.backend, why)))
    names = [name for name in without.preferred if name not in dict(without.failed)]
    if not names:
        return None
    LOGGER.warning("%s take over from backend %s: %s", ", ".join(names), error.backend, error)
    return without
