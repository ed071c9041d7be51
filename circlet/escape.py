"""How text that may come from a file is shown: on terminals, in messages and in logs."""

from __future__ import annotations


def escaped(text: str) -> str:
    """The text in one line, with codes for what does not print, as `repr` writes them.

    Line ends, controls of terminals, marks that turn the direction of writing, and halves of
    characters do not print. What is escaped already stays as it is.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
