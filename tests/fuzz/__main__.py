"""`python -m tests.fuzz`: prints executions, outcomes and findings; exit status 1 on findings."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from circlet.artifact.file import SUFFIX
from tests.fuzz.case import SHARES, Case, Finding, outcomes
from tests.fuzz.collected import collect
from tests.fuzz.engine import Request, fuzz, fuzz_side_by_side

_SECONDS = 60
_NATIVE_SHARE = 0.4


def main() -> int:
    """Run what the command line asks for."""
    options = _options()
    if options.files:
        return _replay(options.files)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="circlet-fuzz-"))
    seconds = options.seconds
    if seconds is None and options.count is None:
        seconds = _SECONDS
    request = Request(
        options.seed, folder, options.count, seconds, options.native, options.start, options.only
    )
    if options.tally is not None:
        report = collect(request, options.jobs, options.tally)
    else:
        report = fuzz_side_by_side(request, options.jobs) if options.jobs > 1 else fuzz(request)
    sys.stdout.write(report.table() + "\n")
    return 1 if report.findings else 0


def _replay(files: list[Path]) -> int:
    """Read and run given files in this process; a crash of one is a crash of this."""
    found = False
    for path in files:
        digits = path.stem.rpartition("-")[2]
        number = int(digits) if digits.isdigit() else 0
        maker = "artifact" if path.suffix == SUFFIX else "file"
        case = Case(number, path.name, path.read_bytes(), True, maker)
        for stage, outcome in outcomes(case):
            found = found or isinstance(outcome, Finding)
            shown = outcome.text if isinstance(outcome, Finding) else outcome
            sys.stdout.write(f"{path.name}: {stage}: {shown}\n")
            sys.stdout.flush()
    return 1 if found else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="files to replay instead")
    parser.add_argument("--seconds", type=float, help=f"wall time, {_SECONDS} without a count")
    parser.add_argument("--count", type=int, help="run exactly so many cases")
    parser.add_argument("--seed", type=int, default=0, help="which sequence of cases")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--native",
        nargs="?",
        type=float,
        default=0.0,
        const=_NATIVE_SHARE,
        metavar="SHARE",
        help=f"have generated code run that share of the cases as well ({_NATIVE_SHARE})",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", default="", choices=[*SHARES], help="cases of one maker only")
    parser.add_argument("--folder", type=Path, help="where the inputs of findings are kept")
    parser.add_argument(
        "--tally", type=Path, help="JSON file of what earlier runs did of --count; go on from there"
    )
    options = parser.parse_args()
    if options.tally is not None and (options.count is None or options.folder is None):
        parser.error("--tally goes with --count, and with a --folder that keeps the findings")
    return options


if __name__ == "__main__":
    sys.exit(main())
