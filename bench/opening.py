"""How opening grows with a network, for networks that each grow in one way.

Does all that opening does but for the C compiler and loading code, over twice as many operators
each time. An exponent of 1 means that it takes twice as long then, of 2 four times. The forms stand
in bench/growth.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import log2

from bench.arguments import parser
from bench.growth import FORMS
from circlet.backends.cpu.partition_compiler import CpuCompiler
from circlet.compiler.planning import plan
from circlet.compiler.template import Template
from circlet.formats import load_whole
from circlet.options import Options


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a line per form."""
    known = parser("opening", __doc__)
    known.add_argument("forms", nargs="*", default=list(FORMS), help="names; else all")
    known.add_argument("--first", type=int, default=500, help="operators of the smallest")
    known.add_argument("--doublings", type=int, default=3, help="how often they are doubled")
    known.add_argument("--backend", default="cpu", help="the backend that comes first")
    options = known.parse_args(arguments)
    unknown = sorted(set(options.forms) - FORMS.keys())
    if unknown:
        known.error(f"there is no form {unknown[0]}; there are {', '.join(FORMS)}")
    counts = [options.first << power for power in range(options.doublings + 1)]
    opened_without_compiler(FORMS["chain"](8), options.backend)
    print(f"{'form':22}" + "".join(f"{count:>10}" for count in counts) + "  exponent")
    for name in options.forms:
        seconds = [seconds_of(name, count, options.backend) for count in counts]
        exponent = log2(seconds[-1] / seconds[-2]) if len(seconds) > 1 else 0.0
        print(f"{name:22}" + "".join(f"{s:9.2f}s" for s in seconds) + f"{exponent:10.2f}")


def seconds_of(name: str, count: int, backend: str) -> float:
    """The processor time of opening a network of a form."""
    source = FORMS[name](count)
    begin = time.process_time()
    opened_without_compiler(source, backend)
    return time.process_time() - begin


def opened_without_compiler(source: bytes, backend: str) -> None:
    """Do all that opening does but for the C compiler, and loading code."""
    options = Options(backends=tuple(dict.fromkeys((backend, "reference"))), cache=False)
    planned = plan(Template.read(source, options), options)
    for compiler in planned.compilers:
        parts = planned.partitions_of(compiler)
        if isinstance(compiler, CpuCompiler):
            target = planned.job.targets[0]
            for lowered in [compiler.lowered(part, target) for part in parts]:
                lowered.values()
                lowered.reuse.to_bytes()
            continue
        for compiled in compiler.compile(parts).partitions:
            for code in compiled.codes.values():
                load_whole(code.constants)
