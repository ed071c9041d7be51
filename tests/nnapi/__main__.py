"""Runs cases of the Android Neural Networks API and says how many gave what is expected.

    python -m tests.nnapi [FOLDER] [--backend reference|cpu] [--case GLOB] [--op NAME] [--json OUT]

FOLDER (by default the public corpus) holds files in the format that docs/nnapi.md describes. Ends
with 0 where every case passed. Kernels that were compiled before are found in the folder of --kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.corpora import ROOT
from tests.kept_units import keeping_units
from tests.nnapi.cases import cases, files
from tests.nnapi.execute import BACKENDS, Result, run_case
from tests.nnapi.left_out import why_left_out
from tests.nnapi.report import rows, summary

KEPT = Path(__file__).resolve().parents[2] / "build" / "nnapi-units"
_PROGRESS = 100


def main() -> int:
    """Run the cases that are asked for; 1 where one failed, 2 where there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "nnapi")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="reference")
    parser.add_argument("--case", default="*", metavar="GLOB")
    parser.add_argument("--op", default="", metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="OUT")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=cores, help="of cpu: cases side by side")
    parser.add_argument("--kept", type=Path, default=KEPT, metavar="FOLDER")
    options = parser.parse_args()
    if not options.folder.exists() or not files(options.folder):
        sys.stderr.write(f"no cases at {options.folder}\n")
        return 2
    jobs = options.jobs if options.backend == "cpu" else 1
    start = time.perf_counter()
    with keeping_units(options.kept):
        results, left_out = run(
            options.folder, options.backend, options.case, options.op, max(1, jobs)
        )
    seconds = time.perf_counter() - start
    if options.json:
        options.json.write_text(json.dumps(rows(results), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(summary(results, left_out, options.backend, seconds) + "\n")
    return int(not results) * 2 or int(any(result.reason for result in results))


def run(
    folder: Path, backend: str, name: str = "*", kind: str = "", jobs: int = 1
) -> tuple[list[Result], dict[str, str]]:
    """What became of the cases, and those that do not count, with the reason.

    `jobs` cases run side by side: while one waits for the C compiler, others go on.
    """
    chosen, left_out = [], {}
    for case in cases(folder, name, kind):
        if why := why_left_out(case.name):
            left_out[case.name] = why
        else:
            chosen.append(case)
    results: list[Result] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(jobs) as pool:
        warnings.simplefilter("ignore")
        for result in pool.map(lambda case: run_case(case, backend), chosen):
            results.append(result)
            if len(results) % _PROGRESS == 0:
                sys.stderr.write(f"{len(results)} of {len(chosen)} cases\n")
    return results, left_out


if __name__ == "__main__":
    sys.exit(main())
