"""`python -m bench`: what is measured is chosen by the first word."""

from __future__ import annotations

import sys

from bench import explain

COMMANDS = {"explain": explain.main}


def main() -> None:
    """Run a command."""
    word, *rest = sys.argv[1:]
    COMMANDS[word](rest)


if __name__ == "__main__":
    main()
