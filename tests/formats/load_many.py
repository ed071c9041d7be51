"""Loads the named files under limits and prints one JSON line for each: run in a subprocess."""

from __future__ import annotations

import json
import resource
import sys
import time

from circlet.errors import CircletError
from circlet.formats import load

MEMORY_BYTES = 1 << 30
PROCESSOR_SECONDS = 60


def outcome(path: str) -> dict[str, object]:
    start = time.process_time()
    try:
        load(path)
        result, text = "loads", ""
    except CircletError as error:
        result, text = error.code, str(error)
    return {"path": path, "result": result, "text": text, "s": time.process_time() - start}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    for name in sys.argv[1:]:
        print(json.dumps(outcome(name)), flush=True)  # noqa: T201
