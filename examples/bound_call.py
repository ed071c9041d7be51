"""Binds a network to fixed buffers, which makes the cost of a call as small as it gets.

python examples/bound_call.py
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from circlet import Session
from circlet.sample import Sample


def main() -> None:
    """Print what a call with fresh arrays and a bound call take."""
    session = Session(Sample("int8").model_path, threads=1)
    picture = session.inputs[0].empty()  # starts on a cache line, which is read fastest
    call = session.bind([picture])
    for number in range(3):
        picture[...] = Sample("int8", number).image()  # fill the buffer in place
        call()
        print(f"picture {number} shows {call.outputs[0].argmax()}")
    print(f"run:        {per_call_us(lambda: session.run([picture])):8.2f} us")
    print(f"bound call: {per_call_us(call.run):8.2f} us")


def per_call_us(function: Callable[[], object], count: int = 1000) -> float:
    """Microseconds of a call, the mean of many."""
    start = perf_counter_ns()
    for _ in range(count):
        function()
    return (perf_counter_ns() - start) / count / 1000


if __name__ == "__main__":
    main()
