"""What one call of a bound session costs beside the network's own work.

The network is one RELU of 8 floats, so a call is nearly all overhead. Printed are nanoseconds per
call: the median over rounds and the fastest round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns

import numpy as np

from bench.arguments import add_rounds, parser
from circlet import Session
from circlet.formats import dumps
from circlet.ir import DType
from circlet.ops.build import builder


def tiny_network() -> bytes:
    """One RELU of 8 floats."""
    b = builder()
    x = b.input("x", DType.FLOAT32, (8,))
    return dumps(b.output(b.op("RELU", [x], name="y")).model(), "tflite")


def time_calls(call: Callable[[], object], calls: int, rounds: int) -> list[float]:
    """Nanoseconds per call, round by round, after one round to warm up."""
    times = []
    for _ in range(rounds + 1):
        start = perf_counter_ns()
        for _ in range(calls):
            call()
        times.append((perf_counter_ns() - start) / calls)
    return times[1:]


def main(arguments: Sequence[str]) -> None:
    """Print a line per way of calling."""
    known = parser("bound_call", __doc__)
    known.add_argument("--calls", type=int, default=20_000, help="in a round")
    add_rounds(known, 9)
    options = known.parse_args(arguments)
    x, data = np.ones(8, np.float32), tiny_network()
    print("threads  call           median     fastest")
    for threads in (1, 2):
        session = Session(data, threads=threads)
        bound = session.bind([x])
        ways: dict[str, Callable[[], object]] = {
            "an empty call": lambda: None,
            "bound.run()": bound.run,
            "bound()": bound,
            "session.run()": lambda session=session: session.run([x]),  # type: ignore[misc]
        }
        for name, call in ways.items():
            times = time_calls(call, options.calls, options.rounds)
            print(f"{threads:7}  {name:13} {median(times):7.0f} ns  {min(times):7.0f} ns")
