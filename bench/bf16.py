"""Float networks with operands rounded to bfloat16: how much faster, and how far off.

Circlet at bf16 and at f32 and OpenVINO at bf16 take turns; answers are held against the golden
outputs that lie beside the corpus. Writes bench/results/bf16-*.json, which the next `python -m
bench report` shows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from bench import load, machine
from bench.arguments import add_loaded, add_networks, add_rounds, add_threads, parser
from bench.bf16_result import Rounded, Row
from bench.measure import CORPUS, chosen, private_cache
from circlet import Session
from circlet.comparison.compare import compare
from circlet.comparison.networks import Network, described
from circlet.comparison.ratios import ratio_of
from circlet.errors import CircletError

_ENGINES = ("openvino", "circlet", "circlet_f32")


def main(arguments: Sequence[str]) -> None:
    """Measure the networks of class fp32 among those given."""
    known = parser("bf16", __doc__)
    add_networks(known, "the public corpora")
    add_threads(known)
    add_rounds(known, 11)
    add_loaded(known)
    options = known.parse_args(arguments)
    watch = load.watch(options.loaded)
    paths = chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models)
    threads = [int(count) for count in options.threads.split(",")]
    rows = []
    with private_cache():
        for path in paths:
            for row in _rows(path, threads, options.rounds):
                times = "  ".join(f"{name} {us:.1f}" for name, us in row.us.items())
                print(f"{row.network:40} {row.threads}T  {times} us  {row.gain.middle:.2f}")
                rows.append(row)
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    Rounded(date, machine.facts() | watch.facts(), rows).write()


def _rows(path: Path, threads: Sequence[int], rounds: int) -> Iterator[Row]:
    try:
        network = described(path)
    except (CircletError, OSError) as error:
        print(f"{path.stem}: {error}".splitlines()[0])
        return
    if network.kind == "fp32" and rounds_operands(path):
        for count in threads:
            row = _measured(network, count, rounds)
            if row is not None:
                yield row


def rounds_operands(path: Path) -> bool:
    """Whether the precision makes a difference to a network's code."""
    try:
        opened = Session(path, precision="bf16").opened
    except CircletError:
        return False
    steps = (step for part in opened.metadata["partitions"] for step in part.get("steps", ()))
    return any("bf16" in kernel for _, kernel in steps)


def _measured(network: Network, threads: int, rounds: int) -> Row | None:
    asked = replace(network, kind="bf16")
    with tempfile.TemporaryDirectory(prefix="bench-cache-") as cache:
        found = compare(asked, threads, rounds, engines=_ENGINES, cache=Path(cache))
    if not {"circlet", "circlet_f32"} <= found.rounds.keys():
        print(f"{network.name}: {found.refused}")
        return None
    has_peer = "openvino" in found.rounds
    return Row(
        network.name,
        threads,
        {engine: median(times) for engine, times in found.rounds.items()},
        ratio_of(found.rounds, "circlet_f32"),
        ratio_of(found.rounds, "openvino") if has_peer else None,
        golden_error(network.path),
        found.differences["openvino"].part if has_peer else None,
    )


def golden_error(path: Path) -> float | None:
    """The largest error of float outputs in the golden cases, None where there are none."""
    golden = path.parents[1] / "golden" / f"{path.name}.npz"
    if not golden.exists():
        return None
    session = Session(path, precision="bf16")
    with np.load(golden) as arrays:
        cases = dict.fromkeys(name.split("/")[0] for name in arrays.files)
        errors = [error for case in cases for error in _errors(session, arrays, case)]
    return max(errors, default=None)


def _errors(session: Session, arrays: Mapping[str, np.ndarray], case: str) -> Iterator[float]:
    """The error of each float output of one case; none where inputs have other sizes or names."""
    given = [arrays.get(f"{case}/in/{index}") for index in range(len(session.inputs))]
    shapes = [None if array is None else array.shape for array in given]
    if shapes != [value.shape for value in session.inputs]:
        return
    session.reset()
    for index, got in enumerate(session.run(given).values()):
        wanted = arrays.get(f"{case}/out/{index}")
        if wanted is not None and wanted.dtype.kind == "f":
            yield _error(got, wanted)


def _error(got: np.ndarray, wanted: np.ndarray) -> float:
    largest = max(1.0, float(np.abs(wanted).max(initial=0)))
    return float(np.abs(got.astype(np.float64) - wanted).max(initial=0)) / largest
