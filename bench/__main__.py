"""`python -m bench`: measures; or, by the first word, one of `COMMANDS`."""

from __future__ import annotations

import sys
from importlib import import_module

from bench.arguments import COMMANDS
from circlet.errors import CircletError


def main() -> None:
    """Run a command; what is wrong with its files ends in a message and exit code 1."""
    given = sys.argv[1:]
    named = bool(given) and given[0] in COMMANDS
    module = import_module(f"bench.{given[0] if named else 'measure'}")
    try:
        module.main(given[1:] if named else given)
    except (CircletError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
