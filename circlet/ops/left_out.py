"""Kinds that the file schemas name and that have no record, each with the reason."""

from __future__ import annotations

LEFT_OUT = {
    "RUN_MODEL": (
        "it runs another file, which may be of any engine: a session is one file, checked and "
        "cached by its bytes; join the models into one"
    ),
    "STABLEHLO_CUSTOM_CALL": (
        "what a custom call does is known to the program that made the file alone; "
        "LiteRT has no kernel either"
    ),
}
