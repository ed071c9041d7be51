"""Kinds of operators of the formats that have no record, and why."""

from __future__ import annotations

REFUSED = {
    "RUN_MODEL": "it runs another file, which may be of any engine: a session is one file, checked "
    "and cached by its bytes; join the models into one",
}
