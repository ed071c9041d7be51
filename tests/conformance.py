"""Runs every model of the corpus on every backend and compares with the golden outputs.

    python -m tests.conformance [--write] [--models PATTERN] [--backends cpu,reference]

Integers must be equal bit for bit; floats are measured by max|difference| / max(1, max|golden|)
and must stay within 1e-4. `--write` renews docs/conformance.md. Exits with 1 if anything that is
not listed in EXCEPTIONS is off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from circlet.errors import CircletError, UnsupportedOpsError
from circlet.runtime.session import Session

CORPUS = Path(__file__).parents[2] / "shared" / "corpora"
PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
FLOAT_BAR = 1e-4

# Model -> why its outputs may differ from the golden.
EXCEPTIONS: dict[str, str] = {}


@dataclass(frozen=True)
class Row:
    """One model on one backend with one thread count."""

    model: str
    backend: str
    threads: int
    passed: bool
    detail: str
    native: str = ""


def models(pattern: str = "*") -> list[str]:
    """Names of the corpus' .tflite models, without the suffix."""
    return sorted(p.stem for p in CORPUS.glob(f"models/{pattern}.tflite"))


def check(model: str, backend: str, threads: int) -> Row:
    """Run all golden cases of a model."""
    backends = ("cpu", "reference") if backend == "cpu" else (backend,)
    try:
        session = Session(CORPUS / f"models/{model}.tflite", backends=backends, threads=threads)
    except UnsupportedOpsError as error:
        kinds = sorted({entry.kind for entry in error.entries})
        return Row(model, backend, threads, True, f"{error.code}: {', '.join(kinds)}")
    except CircletError as error:
        return Row(model, backend, threads, False, f"{error.code}: {error.what}")
    path = CORPUS / f"golden/{model}.tflite.npz"
    if not path.exists():
        return Row(model, backend, threads, True, "no golden")
    native = sum(row["backend"] == "cpu" for row in session.placement)
    share = f"{native}/{len(session.placement)}"
    worst = list(_compare(session, path))
    detail = "; ".join(text for _, text in worst) or "no case for the first graph"
    return Row(model, backend, threads, all(ok for ok, _ in worst), detail, share)


def _compare(session: Session, path: Path) -> Iterator[tuple[bool, str]]:
    with np.load(path) as golden:
        for case in sorted({name.split("/")[0] for name in golden.files}, key=_step_of):
            if _step_of(case)[1] == 0:
                session.reset()
            if f"{case}/out/0" not in golden.files or f"{case}/in/0" not in golden.files:
                continue
            inputs = [golden[f"{case}/in/{i}"] for i in range(len(session.inputs))]
            if any(a.shape != v.shape for a, v in zip(inputs, session.inputs, strict=True)):
                yield True, f"{case}: needs resizing"
                continue
            results = list(session.run(inputs).values())
            wanted = [golden[f"{case}/out/{i}"] for i in range(len(results))]
            yield _judge(case, results, wanted)


def _step_of(case: str) -> tuple[str, int]:
    """The name of a case, and which of its steps this is: steps follow each other on one state."""
    name, _, step = case.partition("_step")
    return (name, int(step)) if step.isdigit() else (case, 0)


def _judge(
    case: str, results: Sequence[np.ndarray], wanted: Sequence[np.ndarray]
) -> tuple[bool, str]:
    off, worst = 0, 0.0
    for got, want in zip(results, wanted, strict=True):
        if want.dtype.kind == "f":
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            worst = max(worst, float(np.abs(got - want).max(initial=0)) / scale)
        else:
            off += int((got != want).sum())
    text = f"{case}: {off} differ" if off else f"{case}: {worst:.1e}" if worst else f"{case}: equal"
    return off == 0 and worst <= FLOAT_BAR, text


def main() -> int:
    """Print the table; write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--models", default="*")
    parser.add_argument("--backends", default="reference,cpu")
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    rows = []
    for model in models(options.models):
        for backend in options.backends.split(","):
            counts = [1] if backend == "reference" else map(int, options.threads.split(","))
            for threads in counts:
                rows.append(check(model, backend, threads))
                _print(rows[-1])
    if options.write:
        PAGE.write_text(page(rows), encoding="utf-8")
    unexplained = [row for row in rows if not row.passed and row.model not in EXCEPTIONS]
    sys.stdout.write(f"{len(rows)} runs, {len(unexplained)} unexplained differences\n")
    return 1 if unexplained else 0


def _print(row: Row) -> None:
    mark = "ok " if row.passed else "OFF"
    line = f"{mark} {row.model:48} {row.backend:9} {row.threads} {row.native:8} {row.detail}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def page(rows: Sequence[Row]) -> str:
    """The table as Markdown."""
    lines = [
        "# Conformance",
        "",
        "Made by `python -m tests.conformance --write`: every .tflite model of the public corpus",
        "against outputs of LiteRT 2.3.0's reference kernels (`BUILTIN_REF`). Integers must be",
        "equal bit for bit; floats are max|difference| / max(1, max|golden|), bar 1e-4.",
        "`native` counts the operators, after optimisation, that run in generated code.",
        "`reference` is numpy and decides about threads itself, so it has one row.",
        "",
        "| model | backend | threads | native | result |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        result = row.detail if row.passed else f"**off** {row.detail}"
        lines.append(f"| {row.model} | {row.backend} | {row.threads} | {row.native} | {result} |")
    lines += ["", "## Exceptions", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in EXCEPTIONS.items()] or ["None."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
