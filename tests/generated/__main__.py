"""Generates cases of operators from their records, runs them everywhere, and prints what differs.

    python -m tests.generated [--kinds ADD,PAD] [--seed N] [--count N] [--backends reference,cpu]
                              [--no-judge] [--unjudged]

Every kind's records, `cpu` and `reference`, and LiteRT's reference kernels where the wheel is
installed are compared on the same operands. Exits with 1 where something differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext

from circlet.ops import OpDef, all_records
from tests.generated.case import Case
from tests.generated.check import BACKENDS, check
from tests.generated.litert import Judge, is_present
from tests.generated.recipes import make_case, recipe_of
from tests.generated.report import findings, rows, table, unjudged


def generated_records(kinds: Sequence[str] = ()) -> list[OpDef]:
    """The records that have a recipe: all of them, or those named."""
    records = [record for record in all_records() if recipe_of(record) is not None]
    return [record for record in records if not kinds or record.kind in kinds]


def cases(records: Sequence[OpDef], seed: int, count: int, first: int = 0) -> Iterator[Case]:
    """`count` cases of each record."""
    for record in records:
        yield from (make_case(record, seed, number) for number in range(first, first + count))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("--kinds", default="", help="separated by commas; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--no-judge", action="store_true", help="do not ask LiteRT")
    parser.add_argument("--unjudged", action="store_true", help="list what LiteRT refused")
    options = parser.parse_args(arguments)
    kinds = [kind for kind in options.kinds.split(",") if kind]
    records = generated_records(kinds)
    if missing := set(kinds) - {record.kind for record in records}:
        parser.error(f"no recipe for {', '.join(sorted(missing))}")
    made = cases(records, options.seed, options.count, options.first)
    asks = is_present() and not options.no_judge
    backends = [name for name in options.backends.split(",") if name]
    with Judge() if asks else nullcontext() as judge:
        outcomes = check(made, backends, judge)
    lines = [table(rows(outcomes)), *findings(outcomes)]
    lines += unjudged(outcomes) if options.unjudged else []
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(outcome.findings for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
