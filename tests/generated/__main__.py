"""Generates cases of operators from their records, runs them everywhere, and prints what differs.

    python -m tests.generated [--kinds ADD,PAD] [--seed N] [--count N] [--backends reference,cpu]
                              [--first N] [--no-judge] [--unjudged]

The judge is LiteRT's reference kernels, where the wheel is installed, and ONNX's reference
implementation for ONNX's operators. Prints a table by kind, and each finding; exits with 1 where
there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from tests.generated.check import BACKENDS, check
from tests.generated.litert import Judge, is_present
from tests.generated.nodes.check import check_nodes
from tests.generated.report import findings, rows, table, unjudged
from tests.generated.selection import cases, node_cases, selected


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("--kinds", default="", help="separated by commas; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--no-judge", action="store_true", help="do not ask LiteRT")
    parser.add_argument("--unjudged", action="store_true", help="list what the judge refused")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = _parser()
    options = parser.parse_args(arguments)
    kinds = [kind for kind in options.kinds.split(",") if kind]
    records = selected(kinds)
    if missing := set(kinds) - {record.kind for record in records}:
        parser.error(f"no cases are made of {', '.join(sorted(missing))}")
    range_of = options.seed, options.count, options.first
    backends = [name for name in options.backends.split(",") if name]
    asks = is_present() and not options.no_judge
    with Judge() if asks else nullcontext() as judge:
        outcomes = check(cases(records, *range_of), backends, judge)
    nodes = check_nodes(node_cases(records, *range_of), backends)
    found = [*findings(outcomes), *findings(nodes)]
    lines = [table([*rows(outcomes), *rows(nodes)]), *found]
    lines += [*unjudged(outcomes), *unjudged(nodes)] if options.unjudged else []
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
