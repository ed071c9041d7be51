"""Opens and runs the named files under limits, one JSON line each: run in a subprocess."""

from __future__ import annotations

import json
import resource
import sys
import time
from math import prod

import numpy as np

from circlet.artifact.values import Value
from circlet.errors import CircletError
from circlet.formats.arrays import Wanted, random_array
from circlet.runtime.session import Session

PROCESSOR_SECONDS = 120
RUN_S = 4.0


MOST_RANDOM = 1 << 16


def random_input(value: Value) -> np.ndarray:
    """Random elements; those of a large input repeat."""
    count = min(prod(value.shape), MOST_RANDOM)
    elements = random_array(Wanted(value.name, value.dtype, (count,)))
    return np.resize(elements, value.shape)


def outcome(path: str, backend: str) -> dict[str, object]:
    start = time.process_time()
    try:
        session = Session(path, backends=(backend, "reference"), threads=1, cache=False)
        session.run([random_input(value) for value in session.inputs], timeout=RUN_S)
        result, text = "runs", ""
    except CircletError as error:
        result, text = error.code, str(error)
    return {"path": path, "result": result, "text": text, "s": time.process_time() - start}


if __name__ == "__main__":
    memory = (int(sys.argv[2]),) * 2
    resource.setrlimit(resource.RLIMIT_AS, memory)
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS,) * 2)
    for name in sys.argv[3:]:
        print(json.dumps(outcome(name, sys.argv[1])), flush=True)  # noqa: T201
