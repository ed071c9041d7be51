"""Runs ONNX's own backend tests over `circlet.onnx_backend` and prints them by operator.

    python -m tests.onnx_nodes [--backends reference,cpu] [--match PATTERN] [--json FILE]

The node, simple and pytorch-* cases that ship in the package onnx, default domain, without
training, strings, sequence maps and random generators. Prints a table of operators, every failure
with its reason, and the share that passed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
LEFT_OUT = {
    **dict.fromkeys(("Bernoulli", "RandomNormal", "RandomNormalLike"), "random"),
    **dict.fromkeys(("RandomUniform", "RandomUniformLike", "Multinomial"), "random"),
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit"), "strings"),
    **dict.fromkeys(("RegexFullMatch", "TfIdfVectorizer"), "strings"),
    "SequenceMap": "sequence map",
}
_LISTS = "a sequence or an optional enters or leaves the network, or its length is not known"
# Names of cases that are known to fail -> why.
KNOWN_FAILURES = {
    "test_affine_grid_2d*_expanded": "the rank of a function's result is not stated",
    "test_attention_*_bf16*": "BFLOAT16 is not rounded between nodes: one unit in the last place",
    "test_causal_conv_with_state*_past_state": "onnx cannot inline the function",
    **dict.fromkeys(("test_identity_*", "test_if_opt", "test_if_seq", "test_loop*_seq*"), _LISTS),
    **dict.fromkeys(("test_optional_*", "test_sequence_*", "test_split_to_sequence_*"), _LISTS),
}
_STRING = 8


@dataclass(frozen=True)
class Result:
    """One case on one backend; `reason` is "" where it passed."""

    name: str
    kind: str
    backend: str
    reason: str


def loaded(kinds: Sequence[str] = KINDS) -> list[Any]:
    """All cases of some kinds, as the package onnx has them."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [case for kind in kinds for case in load_model_tests(kind=kind)]


def cases(match: str = "*") -> Iterator[Any]:
    """The cases of ONNX's runner that count here, by name."""
    found = loaded()
    for case in sorted(found, key=lambda case: str(case.name)):
        if fnmatch.fnmatch(case.name, match) and left_out(case) is None:
            yield case


def model_of(case: Any) -> Any:
    """The model of a case."""
    import onnx

    return case.model or onnx.load(Path(case.model_dir) / "model.onnx")


def left_out(case: Any) -> str | None:
    """Why a case does not count, or None."""
    model = model_of(case)
    domains = {entry.domain for entry in model.opset_import} - {"", "ai.onnx"}
    if domains:
        return f"domain {min(domains)}"
    for node in model.graph.node:
        training = any(a.name == "training_mode" and a.i for a in node.attribute)
        if node.op_type in LEFT_OUT or training or "training" in case.name:
            return LEFT_OUT.get(node.op_type, "training")
    ends = [*model.graph.input, *model.graph.output]
    only_strings = any(value.type.tensor_type.elem_type == _STRING for value in ends)
    return "strings" if only_strings else None


def known_failure(name: str) -> str:
    """Why a case is known to fail; "" where it should pass."""
    found = (why for pattern, why in KNOWN_FAILURES.items() if fnmatch.fnmatch(name, pattern))
    return next(found, "")


def operator_of(case: Any) -> str:
    """The operator that a case is about."""
    model = model_of(case)
    return str(model.graph.node[0].op_type) if model.graph.node else "(none)"


def data_sets(case: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and outputs of a case."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(value) for value in inputs], [_array(value) for value in outputs]
        return
    from onnx import load_tensor, numpy_helper

    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        sides = [
            [
                numpy_helper.to_array(load_tensor(folder / f"{side}_{index}.pb"))
                for index in range(len(list(folder.glob(f"{side}_*.pb"))))
            ]
            for side in ("input", "output")
        ]
        yield sides[0], sides[1]


def _array(value: Any) -> Any:
    """An array, also where a case gives a message."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def run_case(case: Any, backend: str) -> str:
    """Why a case fails on a backend; "" where it passes."""
    from circlet import onnx_backend

    backends = ("cpu", "reference") if backend == "cpu" else (backend,)
    try:
        prepared = onnx_backend.prepare(model_of(case), backends=backends, cache=False)
        for inputs, wanted in data_sets(case):
            fault = difference(list(prepared.run(inputs)), wanted, case)
            if fault:
                return fault
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ""


def difference(got: Sequence[Any], wanted: Sequence[Any], case: Any) -> str:
    """How outputs differ by more than the case allows, as ONNX's runner compares."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, not {len(wanted)}"
    for made, right in zip(got, wanted, strict=True):
        want = np.asarray(right)
        if made.dtype != want.dtype:
            return f"type {made.dtype}, not {want.dtype}"
        if made.shape != want.shape:
            return f"shape {made.shape}, not {want.shape}"
        with np.errstate(all="ignore"):
            if not np.allclose(made, want, rtol=case.rtol, atol=case.atol, equal_nan=True):
                worst = np.nanmax(np.abs(made.astype(np.float64) - want.astype(np.float64)))
                return f"values differ by up to {worst:.3g}"
    return ""


def results(backends: Sequence[str], match: str = "*") -> Iterator[Result]:
    """Every case on every backend."""
    for case in cases(match):
        for backend in backends:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield Result(case.name, operator_of(case), backend, run_case(case, backend))


def table(found: Sequence[Result]) -> str:
    """Passed of all, by operator and backend; then each failure."""
    lines = []
    backends = sorted({result.backend for result in found})
    total = Counter((r.kind, r.backend) for r in found)
    passed = Counter((r.kind, r.backend) for r in found if not r.reason)
    for kind in sorted({result.kind for result in found}):
        shares = (f"{b} {passed[kind, b]}/{total[kind, b]}" for b in backends)
        lines.append(f"{kind:32} {'   '.join(shares)}")
    failures = [r for r in found if r.reason]
    lines += [f"FAIL {r.backend:9} {r.name}: {known_failure(r.name) or r.reason}" for r in failures]
    for backend in backends:
        count = sum(r.backend == backend for r in found)
        good = sum(r.backend == backend and not r.reason for r in found)
        lines.append(f"{backend}: {good} of {count} passed, {100 * good / max(count, 1):.1f} %")
    return "\n".join(lines)


def main() -> int:
    """Print the table; 0 if at least 98 % passed on each backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", default="reference,cpu")
    parser.add_argument("--match", default="*")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    found = list(results(options.backends.split(","), options.match))
    sys.stdout.write(table(found) + "\n")
    if options.json:
        rows = [vars(result) for result in found]
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    bars = Counter(r.backend for r in found if r.reason)
    return int(any(50 * n > sum(r.backend == b for r in found) for b, n in bars.items()))


if __name__ == "__main__":
    sys.exit(main())
