"""How optimising a file grows with a network, for networks that each grow in one way.

Runs the passes of a level for files over twice as many operators each time, reading not counted. An
exponent of 1 means that it takes twice as long then, of 2 four times. The forms stand in
bench/growth.py. With --operators, one number of operators and the seconds that they take.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import log2

from bench.arguments import parser
from bench.growth import FORMS
from circlet.compiler.optimize import Optimizer
from circlet.formats import load
from circlet.passes import file_pipeline


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a line per form."""
    known = parser("optimize", __doc__)
    known.add_argument("forms", nargs="*", default=list(FORMS), help="names; else all")
    known.add_argument("--first", type=int, default=1250, help="operators of the smallest")
    known.add_argument("--doublings", type=int, default=3, help="how often they are doubled")
    known.add_argument("--operators", type=int, help="only networks of so many")
    known.add_argument("--level", default="O2", help="the optimisation level")
    options = known.parse_args(arguments)
    unknown = sorted(set(options.forms) - FORMS.keys())
    if unknown:
        known.error(f"there is no form {unknown[0]}; there are {', '.join(FORMS)}")
    counts = [options.first << power for power in range(options.doublings + 1)]
    counts = [options.operators] if options.operators else counts
    optimised_seconds("chain", 8, options.level)
    print(f"{'form':22}" + "".join(f"{count:>10}" for count in counts) + "  exponent")
    for name in options.forms:
        seconds = [optimised_seconds(name, count, options.level) for count in counts]
        exponent = f"{log2(seconds[-1] / seconds[-2]):10.2f}" if len(seconds) > 1 else ""
        print(f"{name:22}" + "".join(f"{s:9.2f}s" for s in seconds) + exponent)


def optimised_seconds(name: str, count: int, level: str) -> float:
    """The processor time of optimising a network of a form that has been read."""
    model = load(FORMS[name](count))
    passes = file_pipeline(level, "circle").passes
    begin = time.process_time()
    optimizer = Optimizer(model, passes)
    for _ in optimizer.steps():
        pass
    optimizer.result()
    return time.process_time() - begin
