"""Writes networks of the corpora as .onnx and runs them in ONNX Runtime beside `reference`.

    python -m tests.onnx_written [--match PART] [--folders models,singleop]

A network is right if its outputs are: floats within 1e-4 of the largest, whole numbers equal.
Where integers stand for real numbers, ONNX Runtime rounds by a step differently in places, and such
steps add up along a network: there each operator by itself must be within one step (two of 16
bits), given what `reference` computes ahead of it. LiteRT's kernels quantise the inputs of float
layers with integer weights while they run, which ONNX has no word for: those are within 5 % of
their largest output.

Prints what is not right, then how many networks had which verdict. Exits with 1 if ONNX Runtime
refused what was written, or got something else.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from circlet import Session
from circlet.commands.storing import make_storable
from circlet.errors import CircletError
from circlet.formats import dumps, load
from circlet.ir import DType, Graph, Model, Op, Tensor
from circlet.ops import get
from tests import corpora

RIGHT, REFUSED, UNREAD, NO_REFERENCE = "right", "refused", "unread", "reference cannot run it"
_HYBRID = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "BATCH_MATMUL"})
_FLOAT_BAR, _HYBRID_BAR = 1e-4, 5e-2
_STEPS = defaultdict(int, {8: 1, 16: 2})  # functions of 16 bits are tables, with straight lines
_TYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_}


@dataclass(frozen=True)
class Outcome:
    """What came of a network, and why it was not right."""

    verdict: str
    why: str = ""


def session(data: bytes) -> Any:
    """ONNX Runtime on a file, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def judged(path: Path) -> Outcome:
    """Convert a network and compare what ONNX Runtime makes of it."""
    try:
        model = load(path)
    except CircletError as error:
        return Outcome(UNREAD, error.what)
    try:
        make_storable(model, "onnx")
        data = dumps(model, "onnx")
    except CircletError as error:
        return Outcome(REFUSED, "; ".join(error.reasons) or error.what)
    return _ran(path, model, data)


def _ran(path: Path, model: Model, data: bytes) -> Outcome:
    import onnx

    try:
        onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    except Exception as error:
        return Outcome("invalid", str(error))
    try:
        engine = session(data)
        given = inputs(path, engine.get_inputs())
        got = engine.run(None, given)
    except Exception as error:
        return Outcome("ONNX Runtime refuses it", str(error))
    try:
        reference = Session(str(path), backends=["reference"], cache=False)
        wanted = reference.run(list(given.values())).values()
    except CircletError as error:
        return Outcome(NO_REFERENCE, error.what)
    faults = [fault for pair in zip(got, wanted, strict=True) if (fault := _off(*pair))]
    if not faults:
        return Outcome(RIGHT)
    if not is_rounded(model):
        return Outcome("differs", faults[0])
    alone = operators_off(model, list(given.values()))
    return Outcome("differs", "; ".join(alone)) if alone else Outcome(RIGHT)


def is_rounded(model: Model) -> bool:
    """Whether integers stand for real numbers somewhere."""
    tensors = (t for graph in model.graphs for op in graph.ops for t in (*op.inputs, *op.outputs))
    return any(t is not None and t.quant is not None and t.quant.is_affine for t in tensors)


def _off(got: np.ndarray, wanted: np.ndarray, bar: float = _FLOAT_BAR, steps: int = 0) -> str:
    """How two results differ, or ""."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} for {wanted.dtype}{wanted.shape}"
    if not got.size or np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"):
        return ""
    if got.dtype.kind != "f":
        worst = int(np.abs(got.astype(np.int64) - wanted.astype(np.int64)).max())
        return f"{worst} steps" if worst > steps else ""
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
    near = np.allclose(got, wanted, rtol=bar, atol=bar * max(largest, 1e-6), equal_nan=True)
    return "" if near else f"{np.abs(got - wanted).max():.3g} of {largest:.3g}"


def operators_off(model: Model, given: Sequence[np.ndarray]) -> list[str]:
    """The operators of the main graph that by themselves differ by more than they may."""
    open_inputs = [tensor for tensor in model.main.inputs if not tensor.is_constant]
    values: dict[Tensor, np.ndarray] = dict(zip(open_inputs, given, strict=True))
    found = []
    for op in model.main.ops:
        arrays = [None if t is None else t.data if t.is_constant else values[t] for t in op.inputs]
        results = get(op).evaluate(op, arrays)
        values.update(zip(op.outputs, results, strict=False))
        if any(t is not None and t.dtype is DType.COMPLEX64 for t in (*op.inputs, *op.outputs)):
            continue  # no input or output of an .onnx file is complex
        fault = _operator_off(op, model.main, values, results)
        found += [f"{op.name} ({op.label}): {fault}"] if fault else []
    return found


def _operator_off(
    op: Op, graph: Graph, values: Mapping[Tensor, np.ndarray], results: Sequence[np.ndarray]
) -> str:
    given = [t for t in dict.fromkeys(op.inputs) if t is not None and not t.is_constant]
    alone = Graph("alone", given, [*op.outputs], [op], tensors=graph.tensors)
    engine = session(dumps(Model([alone]), "onnx"))
    names = [each.name for each in engine.get_inputs()]
    got = engine.run(None, {n: values[t] for n, t in zip(names, given, strict=True)})
    bar = _HYBRID_BAR if op.kind in _HYBRID else _FLOAT_BAR
    steps = _STEPS[op.outputs[0].dtype.bits] if is_rounded(Model([alone])) else 0
    faults = [_off(*pair, bar, steps) for pair in zip(got, results, strict=False)]
    return next(filter(None, faults), "")


def inputs(path: Path, stated: Sequence[Any]) -> dict[str, np.ndarray]:
    """The inputs of a network's golden, or numbers of a fixed seed; open sizes are 1."""
    return _golden(path, stated) or _random(stated)


def _golden(path: Path, stated: Sequence[Any]) -> dict[str, np.ndarray]:
    folder = path.parent.parent if path.parent.name == "models" else path.parent
    file = folder / "golden" / f"{path.name}.npz"
    file = file if file.exists() else file.with_name(f"{path.stem}.npz")
    if not file.exists():
        return {}
    with np.load(file, allow_pickle=False) as stored:
        keys = [key for key in stored.files if "/in/" in key and not key.startswith("sig_")]
        case = keys[0].partition("/")[0] if keys else ""
        wanted = [f"{case}/in/{index}" for index in range(len(stated))]
        if not set(wanted) <= set(keys):
            return {}
        found = {s.name: stored[key] for s, key in zip(stated, wanted, strict=True)}
    fits = (found[s.name].dtype == _dtype_of(s) for s in stated)
    return found if all(fits) else {}


def _dtype_of(stated: Any) -> np.dtype[Any]:
    name = stated.type.removeprefix("tensor(").removesuffix(")")
    return np.dtype(_TYPES.get(name, name))


def _random(stated: Sequence[Any]) -> dict[str, np.ndarray]:
    generator, made = np.random.default_rng(0), {}
    for each in stated:
        sizes = [size if isinstance(size, int) else 1 for size in each.shape]
        dtype = _dtype_of(each)
        if dtype.kind == "f":
            made[each.name] = generator.standard_normal(sizes).astype(dtype)
            continue
        low, high = (0, 2) if dtype.kind == "b" else (0, 3)
        if dtype.itemsize < 4 and dtype.kind != "b":
            low, high = np.iinfo(dtype).min, int(np.iinfo(dtype).max) + 1
        made[each.name] = generator.integers(low, high, sizes).astype(dtype)
    return made


def networks(folders: Sequence[str], match: str = "") -> list[Path]:
    """The .tflite and .circle files of some folders of the corpora."""
    found = (path for folder in folders for path in sorted((corpora.ROOT / folder).glob("**/*")))
    return [p for p in found if p.suffix in (".tflite", ".circle") and match in p.name]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="tests.onnx_written", description=__doc__)
    parser.add_argument("--match", default="")
    parser.add_argument("--folders", default="models,singleop")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    for path in networks(options.folders.split(","), options.match):
        outcome = judged(path)
        counts[outcome.verdict] += 1
        if outcome.verdict != RIGHT:
            sys.stdout.write(f"{path.name}: {outcome.verdict}: {outcome.why}\n")
            sys.stdout.flush()
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    sys.stdout.write(f"{summary}\n")
    return int(any(verdict not in (RIGHT, REFUSED, UNREAD, NO_REFERENCE) for verdict in counts))


if __name__ == "__main__":
    sys.exit(main())
