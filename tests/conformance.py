"""Runs every model of the corpus on every backend and compares with the golden outputs.

    python -m tests.conformance [--write] [--models PATTERNS] [--backends cpu,reference]
                                [--sets models,singleop] [--threads 1,2]
                                [--corpus FOLDER] [--suffixes .tflite,.onnx]

Integers must be equal bit for bit; floats are measured by max|difference| / max(1, max|golden|)
and must stay within 1e-4 for networks and 1e-5 for single operators. Hybrid ones (float activations
over integer weights) must stay within 1e-5 of the largest golden magnitude, be it below 1 or not.
Outputs of .onnx files must stay within 1e-3 of their golden's range, integers within one, or within
what ONNX Runtime differs by itself, with and without optimisation, where the index says so.
`--write` renews docs/conformance.md; with `--suffixes .onnx`, docs/conformance-onnx.md. Exits with
1 if anything is off that EXCEPTIONS does not list.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from circlet.errors import CircletError, UnsupportedOpsError
from circlet.formats import load
from circlet.ir import DType, Op
from circlet.limits import Limits
from circlet.runtime.session import Session

CORPUS = Path(__file__).parents[2] / "shared" / "corpora"
PAGE = Path(__file__).parents[1] / "docs" / "conformance.md"
ONNX_PAGE = PAGE.with_name("conformance-onnx.md")
BARS = {"models": 1e-4, "singleop": 1e-5}
HYBRID_BAR = 1e-5
ONNX_BAR = 1e-3
ROOMY = Limits(memory_bytes=4 << 30)  # one of the corpora is a picture of 12 million pixels
WEIGHTS = {DType.INT4, DType.INT8, DType.UINT8}
FOLDERS = {"models": ".", "singleop": "singleop"}

# Model -> why its outputs may differ from the golden.
_NO_OUTPUTS = "its first graph has no outputs, so there is nothing to run; refused (E-GRAPH)"
EXCEPTIONS: dict[str, str] = {
    "LiteRT__tflite_testdata_2_subgraphs": _NO_OUTPUTS,
    "LiteRT__tflite_testdata_empty_model": _NO_OUTPUTS,
    "ONE_recipe__FullyConnected_U8_000": (
        "its UINT8 weights hold int8 values, as old converters stored them; in two of eight "
        "outputs, both with a weight of -128, LiteRT is 0.10 away from the real sum of products "
        "(0.0380 and -0.5816 for 0.1419 and -0.4772), ours within 0.0012 (0.1413 and -0.4783), "
        "the error that quantising the activations has in the other six too"
    ),
}


@dataclass(frozen=True)
class Row:
    """One model on one backend with one thread count.

    `refused` are the kinds, with reasons, of operators that the first backend did not take.
    """

    model: str
    backend: str
    threads: int
    passed: bool
    detail: str
    native: str = ""
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Subject:
    """A model of one set of the corpus."""

    name: str
    kind: str = "models"
    suffix: str = ".tflite"
    corpus: Path = CORPUS

    @property
    def path(self) -> Path:
        """The model file."""
        return self.corpus / FOLDERS[self.kind] / "models" / f"{self.name}{self.suffix}"

    @property
    def golden(self) -> Path:
        """Inputs and what a peer answered."""
        return self.corpus / FOLDERS[self.kind] / "golden" / f"{self.name}{self.suffix}.npz"


def subjects(
    patterns: str = "*",
    kinds: Sequence[str] = ("models",),
    corpus: Path = CORPUS,
    suffixes: Sequence[str] = (".tflite",),
) -> list[Subject]:
    """The models of a corpus whose names fit one of the patterns, by name."""
    found = {
        (kind, path.name.removesuffix(suffix), suffix)
        for kind in kinds
        for pattern in patterns.split(",")
        for suffix in suffixes
        for path in corpus.glob(f"{FOLDERS[kind]}/models/{pattern}{suffix}")
    }
    return [Subject(name, kind, suffix, corpus) for kind, name, suffix in sorted(found)]


def check(subject: Subject, backend: str, threads: int) -> Row:
    """Run all golden cases of a model."""
    backends = ("cpu", "reference") if backend == "cpu" else (backend,)
    try:
        shapes = _shapes(subject)
        session = Session(
            subject.path, backends=backends, threads=threads, limits=ROOMY, shapes=shapes
        )
        results = list(_compare(session, subject)) if subject.golden.exists() else []
    except UnsupportedOpsError as error:
        kinds = sorted({entry.kind for entry in error.entries})
        return Row(subject.name, backend, threads, True, f"{error.code}: {', '.join(kinds)}")
    except CircletError as error:
        refused = not subject.golden.exists()
        return Row(subject.name, backend, threads, refused, f"{error.code}: {error.what}")
    native = sum(row["backend"] == "cpu" for row in session.placement)
    share = f"{native}/{len(session.placement)}"
    detail = "; ".join(text for _, text in results) or "loads; no golden"
    passed = all(ok for ok, _ in results)
    return Row(subject.name, backend, threads, passed, detail, share, _refusals(session))


def _shapes(subject: Subject) -> dict[str, tuple[int, ...]] | None:
    """Of .onnx files that leave sizes open, those of the first case."""
    if subject.suffix != ".onnx" or not subject.golden.exists():
        return None
    inputs = load(subject.path).main.inputs
    with np.load(subject.golden) as golden:
        first = min({name.split("/")[0] for name in golden.files}, key=_step_of)
        given = _case(golden, first, "in")
    return {
        tensor.name: given[str(index)].shape
        for index, tensor in enumerate(inputs)
        if str(index) in given and None in tensor.shape
    }


def _refusals(session: Session) -> tuple[tuple[str, str], ...]:
    found = {
        (str(row["kind"]), reason)
        for row in session.placement
        for backend, reason in cast("list[tuple[str, str]]", row["refused"])
        if backend == "cpu"
    }
    return tuple(sorted(found))


def _compare(session: Session, subject: Subject) -> Iterator[tuple[bool, str]]:
    measure = measure_of(subject)
    with np.load(subject.golden) as golden:
        for case in sorted({name.split("/")[0] for name in golden.files}, key=_step_of):
            inputs, wanted = _case(golden, case, "in"), _case(golden, case, "out")
            if not wanted:
                continue
            if case.startswith("sig_"):
                entered = session.entered(case.removeprefix("sig_"))
                results = entered.run({v.name: inputs[v.name] for v in entered.inputs})
            else:
                given = [inputs[str(i)] for i in _given(subject) if str(i) in inputs]
                results = _run_case(session, case, given)
            spread = _spread(subject, case) if measure.ranged else 0.0
            yield _judge(case, results, wanted, replace(measure, spread=spread))


@dataclass(frozen=True)
class Measure:
    """How far floats may be off: `bar` times the largest golden magnitude, or times `least`.

    `ranged` takes the range of the golden values instead, lets integers be off by one, and floats
    by as much as `spread`, which is how far the peer's own answers lie apart.
    """

    bar: float
    least: float
    ranged: bool = False
    spread: float = 0.0

    def unit(self, want: np.ndarray) -> float:
        """What differences are given in."""
        finite = want[np.isfinite(want)]
        if self.ranged:
            return float(np.ptp(finite.astype(np.float64))) if finite.size else 1.0
        return float(np.abs(finite).max(initial=self.least))

    def off(self, got: np.ndarray, want: np.ndarray) -> float:
        """The largest difference in such units, 0 if all is equal."""
        if self.ranged:
            got, want = got.astype(np.float64), want.astype(np.float64)
        difference = float(np.nan_to_num(np.abs(got - want)).max(initial=0))
        return difference / (self.unit(want) or 1.0) if difference else 0.0

    def peer_off(self, want: np.ndarray) -> float:
        """`spread` in such units."""
        return self.spread / (self.unit(want) or 1.0)


def _spread(subject: Subject, case: str) -> float:
    """How far outputs of ONNX Runtime differ by whether it optimises the network."""
    index = subject.corpus / "index.json"
    if not index.exists():
        return 0.0
    entry = _index(index).get(f"{subject.name}{subject.suffix}", {})
    known = entry.get("golden", {}).get("cases", {}).get(case, {})
    return float(known.get("spread_noopt_vs_opt") or 0.0)


@lru_cache(maxsize=4)
def _index(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8"))
    models = found.get("models", found)
    return models if isinstance(models, dict) else {Path(m["file"]).name: m for m in models}


def measure_of(subject: Subject) -> Measure:
    """The measure of a file: .onnx and hybrid ones have their own."""
    if subject.suffix == ".onnx":
        return Measure(ONNX_BAR, 0.0, ranged=True)
    ops = (op for graph in load(subject.path).graphs for op in graph.ops)
    if any(is_hybrid(op) for op in ops):
        return Measure(HYBRID_BAR, float(np.finfo(np.float32).tiny))
    return Measure(BARS[subject.kind], 1.0)


def is_hybrid(op: Op) -> bool:
    """Whether an operator multiplies float activations by integer weights."""
    first, results = op.input(0), [tensor.dtype for tensor in op.outputs]
    if first is None or first.dtype is not DType.FLOAT32 or DType.FLOAT32 not in results:
        return False
    weights = (tensor for tensor in op.inputs[1:] if tensor is not None)
    return any(t.dtype in WEIGHTS and t.is_constant and t.quant for t in weights)


def _case(golden: Mapping[str, np.ndarray], case: str, side: str) -> dict[str, np.ndarray]:
    """The arrays of one side of a case, by name or by number, numbers in order."""
    start = f"{case}/{side}/"
    named = {name.removeprefix(start): golden[name] for name in golden if name.startswith(start)}
    return dict(sorted(named.items(), key=lambda item: (len(item[0]), item[0])))


def _given(subject: Subject) -> list[int]:
    """Positions of the inputs that a caller gives: some files list weights among the inputs."""
    inputs = load(subject.path).main.inputs
    return [index for index, tensor in enumerate(inputs) if not tensor.is_constant]


def _run_case(session: Session, case: str, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs by number; a step other than the first goes on from the state of the one before."""
    if _step_of(case)[1] == 0:
        session.reset()
    shapes = {v.name: a.shape for v, a in zip(session.inputs, inputs, strict=True)}
    if any(shapes[value.name] != value.shape for value in session.inputs):
        session = session.resized(shapes)
    return {str(i): array for i, array in enumerate(session.run(inputs).values())}


def _step_of(case: str) -> tuple[str, int]:
    """The name of a case, and which of its steps this is: steps follow each other on one state."""
    name, _, step = case.partition("_step")
    return (name, int(step)) if step.isdigit() else (case, 0)


def _judge(
    case: str,
    results: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    measure: Measure,
) -> tuple[bool, str]:
    off, worst, peer = 0, 0.0, 0.0
    for name, want in wanted.items():
        got = results[name]
        if got.shape != want.shape:
            return False, f"{case}: shape {list(got.shape)}, not {list(want.shape)}"
        if want.dtype.kind in "fc":
            worst = max(worst, measure.off(got, want))
            peer = max(peer, measure.peer_off(want))
            off += int((np.isnan(got) != np.isnan(want)).sum())
        elif measure.ranged and want.dtype.kind in "iu":
            off += int((np.abs(got.astype(np.float64) - want.astype(np.float64)) > 1).sum())
        else:
            off += int((got != want).sum())
    text = f"{case}: {off} differ" if off else f"{case}: {worst:.1e}" if worst else f"{case}: equal"
    if peer >= worst > measure.bar:
        text += f", the peer by itself {peer:.1e}"
    return off == 0 and worst <= max(measure.bar, peer), text


def main() -> int:
    """Print the table; write the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--models", default="*", help="patterns of names, separated by commas")
    parser.add_argument("--sets", default="models,singleop")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a folder laid out like it")
    parser.add_argument("--suffixes", default=".tflite", help=".tflite,.onnx for both")
    parser.add_argument("--backends", default="reference,cpu")
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    suffixes = options.suffixes.split(",")
    chosen = subjects(options.models, options.sets.split(","), options.corpus, suffixes)
    if not chosen:
        parser.error(f"no model of the corpus fits {options.models}")
    rows = []
    for subject in chosen:
        for backend in options.backends.split(","):
            counts = [1] if backend == "reference" else map(int, options.threads.split(","))
            for threads in counts:
                rows.append(check(subject, backend, threads))
                _print(rows[-1])
    if options.write:
        if suffixes == [".onnx"]:
            ONNX_PAGE.write_text(page(rows, _ONNX_INTRODUCTION), encoding="utf-8")
        else:
            PAGE.write_text(page(rows), encoding="utf-8")
    unexplained = [row for row in rows if not row.passed and row.model not in EXCEPTIONS]
    sys.stdout.write(f"{len(rows)} runs, {len(unexplained)} unexplained differences\n")
    return 1 if unexplained else 0


def _print(row: Row) -> None:
    mark = "ok " if row.passed else "OFF"
    line = f"{mark} {row.model:48} {row.backend:9} {row.threads} {row.native:8} {row.detail}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


_INTRODUCTION = (
    "# Conformance",
    "",
    "Made by `python -m tests.conformance --write`: every .tflite model of the public corpus",
    "against outputs of LiteRT 2.3.0's reference kernels (`BUILTIN_REF`). Integers must be",
    "equal bit for bit; floats are max|difference| / max(1, max|golden|), bar 1e-4 for",
    "networks and 1e-5 for single operators. Hybrid files (float activations over integer",
    "weights) are measured by max|difference| / max|golden|, bar 1e-5.",
)
_ONNX_INTRODUCTION = (
    "# Conformance of .onnx networks",
    "",
    "Made by `python -m tests.conformance --write --suffixes .onnx`: every .onnx model of the",
    "public corpus against outputs of ONNX Runtime. Floats are max|difference| / the range of",
    "the golden output, bar 1e-3; integers must be within one.",
)


def page(rows: Sequence[Row], introduction: Sequence[str] = _INTRODUCTION) -> str:
    """The table as Markdown."""
    lines = [
        *introduction,
        "`native` counts the operators, after optimisation, that run in generated code.",
        "`reference` is numpy and decides about threads itself, so it has one row.",
        "",
        "| model | backend | threads | native | result |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        result = row.detail if row.passed else f"**off** {row.detail}"
        lines.append(f"| {row.model} | {row.backend} | {row.threads} | {row.native} | {result} |")
    lines += ["", "## Operators that numpy runs", "", *_refusal_table(rows)]
    lines += ["", "## Exceptions", ""]
    shown = {row.model for row in rows}
    known = [f"- `{name}`: {reason}" for name, reason in EXCEPTIONS.items() if name in shown]
    lines += known or ["None."]
    return "\n".join(lines) + "\n"


def _refusal_table(rows: Sequence[Row]) -> list[str]:
    """The operators that the cpu backend did not take, by reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for refusal in row.refused if row.backend == "cpu" else ():
            reasons.setdefault(refusal, []).append(row.model)
    lines = ["| operator | why it is not native | files |", "|---|---|---|"]
    for (kind, reason), models in sorted(reasons.items()):
        names = sorted(set(models))
        shown = ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} more"
        lines.append(f"| {kind} | {reason} | {shown} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
