"""Runs the generated code of the public models under sanitizers.

    python -m tests.sanitize [--models PATTERNS] [--mode guard,ubsan,asan] [--timeout S]

Every tensor and every constant gets pages of its own between pages that may not be touched, and
kernels are called one by one: whatever strays ends the process, and the step that ran is named.
Tensors end where their pages do under `guard`, and start where they start under the others.
`ubsan` compiles with UndefinedBehaviorSanitizer, `asan` with GCC's AddressSanitizer, which knows
the last byte of each tensor. Answers are compared with the golden ones. Exits with 1 on a finding.
"""

from __future__ import annotations

import argparse
import sys

from tests.conformance import subjects
from tests.sanitize.engine import sanitize
from tests.sanitize.modes import MODES


def main() -> int:
    """Print a line for each network and mode."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="*", help="patterns of names, separated by commas")
    parser.add_argument("--mode", default=",".join(MODES))
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for a network")
    options = parser.parse_args()
    chosen = subjects(options.models)
    if not chosen:
        parser.error(f"no model of the corpus fits {options.models}")
    findings = 0
    for mode in options.mode.split(","):
        if MODES[mode].missing:
            sys.stdout.write(f"-- {mode}: {MODES[mode].missing}\n")
            continue
        for subject in chosen:
            outcome = sanitize(subject.name, mode, options.timeout)
            findings += bool(outcome.finding)
            mark = f"BAD {outcome.finding}" if outcome.finding else "ok "
            sys.stdout.write(f"{mode:9} {subject.name:48} {mark} {outcome.detail}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{findings} findings\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
