"""Counts and names as they are said to people, in messages and in tables."""

from __future__ import annotations

_LONGEST = 60


def counted(count: int, noun: str, plural: str = "") -> str:
    """A number of things in words: 1 graph, 2 graphs; `plural` where it is not with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def shortened(name: str, most: int = _LONGEST) -> str:
    """A name of at most `most` letters: its end, which tells operators apart, and its beginning.

    Converters join the names of all layers that they fused by `;`, of which the first is kept.
    """
    first, mark, _ = name.partition(";")
    text = f"{first};..." if mark else name
    if len(text) <= most:
        return text
    end = (2 * most - 6) // 3
    return f"{text[: most - 3 - end]}...{text[-end:]}"
