"""`python -m bench`: measures; or, by the first word, one of `COMMANDS`."""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS = ("explain", "scaling", "bf16", "compile_time", "kernels", "fit", "report")


def main() -> None:
    """Run a command."""
    given = sys.argv[1:]
    named = bool(given) and given[0] in COMMANDS
    module = import_module(f"bench.{given[0] if named else 'measure'}")
    module.main(given[1:] if named else given)


if __name__ == "__main__":
    main()
