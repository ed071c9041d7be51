"""What `circlet profile` costs: runs whose kernels are timed beside runs with nothing timed.

Both take turns in one process; their fastest tenths are compared, which what else the machine does
disturbs least. The bar is 3 %.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.arguments import add_networks, add_threads, parser
from bench.measure import CORPUS, chosen
from circlet import profile
from circlet.errors import CircletError

BAR = 0.03


def main(arguments: Sequence[str]) -> None:
    """Print a line per network; the exit status is 1 where one is above the bar."""
    known = parser("overhead", __doc__)
    add_networks(known, "the public corpora")
    add_threads(known)
    known.add_argument("--runs", type=int, default=400, help="that are timed, of each network")
    options = known.parse_args(arguments)
    above = 0
    for path in chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models):
        for threads in map(int, options.threads.split(",")):
            try:
                found = profile(path, runs=options.runs, threads=threads, roofline=False)
            except CircletError as error:
                print(f"{path.stem}: {error}".splitlines()[0])
                break
            above += found.overhead > BAR
            print(
                f"{path.stem:45} {threads} threads {found.plain_us:10.1f} us "
                f"{len(found.calls):4} calls {found.overhead:7.2%}",
                flush=True,
            )
    sys.exit(above > 0)
