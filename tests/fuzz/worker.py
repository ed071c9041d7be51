"""Executes cases one by one under limits and prints what each did, a JSON line each."""

from __future__ import annotations

import argparse
import faulthandler
import json
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from tests.fuzz.case import Finding, Outcome, make_case, outcomes
from tests.fuzz.engine import ROOT, finding_path
from tests.fuzz.seeds import seeds
from tests.kept_units import keeping_units

MEMORY_BYTES = 1 << 30
HANG_S = 5.0
UNITS = ROOT / "build" / "fuzz-units"


def main() -> None:
    """Run cases from `--start` on; whoever reads the lines ends the process or counts them."""
    options = _options()
    _limit()
    with keeping_units(UNITS) if options.native else nullcontext():
        _run(options)


def _run(options: argparse.Namespace) -> None:
    known = seeds()
    current = Path(options.folder) / "current.tflite"
    for number in range(options.start, options.start + options.count):
        case = make_case(options.seed, number, known, options.only, options.native)
        current.write_bytes(case.data)
        _say({"number": number, "name": case.name, "maker": case.maker})
        for stage, outcome in _timed(outcomes(case)):
            finding = outcome.as_json() if isinstance(outcome, Finding) else None
            if finding:
                path = finding_path(current.parent, options.seed, number, case.maker)
                path.write_bytes(case.data)
            _say({"stage": stage, "outcome": "finding" if finding else outcome, "finding": finding})


def _timed(results: Iterator[tuple[str, Outcome]]) -> Iterator[tuple[str, Outcome]]:
    """Each stage may take so much processor time; more ends the process with its stack."""
    while True:
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        result = next(results, None)
        signal.setitimer(signal.ITIMER_PROF, 0)
        if result is None:
            return
        yield result


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("seed", "start", "count"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--native", type=float, default=0.0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
