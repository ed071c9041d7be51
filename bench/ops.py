"""Every operator alone beside the peers, the losses that cost most first.

Operators come from networks, each distinct one once, with the share of their network's work that
hangs on it, and from grids of sizes that exporters make, in .tflite and in .onnx files. Each is a
network of its own, which all engines run in turn in processes of their own, as `python -m bench`
does. A ratio is the best peer's time over Circlet's; `cost` is what would be gained, in per cent of
a network's work added over all networks, if the operator were as fast as the best peer. `least` is
the ratio of the shortest rounds, which a loaded machine disturbs less than medians.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from statistics import median

from bench import machine
from bench.arguments import add_networks, add_rounds, add_target, parser
from bench.measure import CORPUS, chosen, private_cache
from bench.onnx_grid import onnx_grid
from bench.ops_cases import Case, cases_of
from bench.ops_grid import grid
from bench.ratios import mean_ratio
from circlet.comparison.compare import compare
from circlet.comparison.networks import described
from circlet.comparison.ratios import Interval, best_peer, ratio_of

BAR = 0.8
_PEERS = {
    ".tflite": ("litert", "litert_cached", "openvino"),
    ".onnx": ("onnxruntime", "openvino"),
}
_SMALL_US = 2.0  # shorter calls compare how engines are called


@dataclass(frozen=True)
class Row:
    """One operator.

    Attributes:
        name, kind, share, networks: Of its case.
        us: Median microseconds of the rounds, by engine.
        best: The fastest peer.
        ratio: Its time over Circlet's.
        least: Its shortest round over Circlet's shortest.
        refused: Why engines do not run it.
    """

    name: str
    kind: str
    share: float
    networks: int
    us: Mapping[str, float]
    best: str = ""
    ratio: Interval | None = None
    least: float | None = None
    refused: Mapping[str, str] | None = None

    @property
    def cost(self) -> float:
        """Per cent of a network's work, over all networks, that a peer's speed would save."""
        return 0.0 if self.least is None else 100 * self.share * max(0.0, 1 - self.least)

    def line(self) -> str:
        """What to print of it."""
        if self.ratio is None or self.least is None:
            why = "; ".join(f"{name}: {text}" for name, text in (self.refused or {}).items())
            return f"{self.name:88} not compared: {why}"[:200]
        times = "  ".join(f"{name} {us:.1f}" for name, us in self.us.items())
        sign = "<" if self.least < BAR else " "
        return f"{self.name:88} {self.least:5.2f} {sign} ({self.ratio.middle:.2f})  {times} us"


def main(arguments: Sequence[str]) -> None:
    """Measure, print a line for each operator, then those below the bar, the costliest first."""
    known = parser("ops", __doc__)
    add_networks(known, "the public corpora")
    known.add_argument("--kinds", default="", help="of operators or families, separated by commas")
    known.add_argument("--most", type=int, default=100, help="of networks' operators")
    known.add_argument("--least-work", type=int, default=200_000, help="elementary operations")
    known.add_argument("--no-grid", action="store_true", help="operators of networks alone")
    known.add_argument("--only", default="*", help="a pattern of the cases' names")
    known.add_argument("--list", action="store_true", help="only say what would be measured")
    known.add_argument("--threads", type=int, default=1, help="of a run")
    add_rounds(known, 7)
    add_target(known)
    known.add_argument("--json", type=Path, help="file for the result")
    options = known.parse_args(arguments)
    paths = chosen(options.paths or sorted(CORPUS.glob("*.tflite")), options.models)
    found = cases_of(paths, options.least_work)[: options.most]
    found += [] if options.no_grid else [*grid(), *onnx_grid()]
    kinds = {kind for kind in options.kinds.split(",") if kind}
    if kinds:
        found = [case for case in found if case.kind in kinds]
    found = [case for case in found if fnmatch(case.name, options.only)]
    if not found:
        known.error(f"there is no operator of {options.kinds or options.models} {options.only}")
    if options.list:
        for case in found:
            print(f"{100 * case.share:7.1f} % in {case.networks:2}  {case.name}")
        return
    rows = []
    with private_cache():
        for row in measured(found, options.threads, options.rounds, options.target):
            print(row.line(), flush=True)
            rows.append(row)
            if options.json:
                record = {"machine": machine.facts(), "target": options.target}
                record["rows"] = [asdict(row) for row in rows]
                options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(summary(rows))


def measured(cases: Sequence[Case], threads: int, rounds: int, target: str) -> Iterator[Row]:
    """A row for each case, in order."""
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="bench-ops-") as name:
            folder = Path(name)
            path = folder / f"operator{case.suffix}"
            path.write_bytes(case.content)
            network = described(path)
            engines = (*_PEERS[case.suffix], "circlet")
            done = compare(network, threads, rounds, engines=engines, cache=folder, target=target)
        yield _row(case, done.rounds, done.refused)


def _row(case: Case, rounds: dict[str, list[float]], refused: Mapping[str, str]) -> Row:
    us = {engine: median(times) for engine, times in rounds.items()}
    facts = case.name, case.kind, case.share, case.networks, us
    best = best_peer(rounds)
    if not best or "circlet" not in rounds or us["circlet"] < _SMALL_US:
        return Row(*facts, refused={**refused, **({} if best else {"peers": "none runs it"})})
    least = min(min(times) for name, times in rounds.items() if name != "circlet")
    ratio = ratio_of(rounds, best)
    return Row(*facts, best, ratio, least / min(rounds["circlet"]), refused)


def summary(rows: Sequence[Row]) -> str:
    """Operators below the bar, those that cost networks most first; and means by kind."""
    kinds: dict[str, list[float]] = {}
    for row in rows:
        if row.least is not None:
            kinds.setdefault(row.kind, []).append(row.least)
    lines = ["", "geometric mean, lowest, and number of each kind:"]
    for kind, ratios in sorted(kinds.items(), key=lambda item: min(item[1])):
        lines.append(f"  {kind:32} {mean_ratio(ratios):6.2f} {min(ratios):6.2f} {len(ratios):4}")
    slow = [row for row in rows if row.least is not None and row.least < BAR]
    slow.sort(key=lambda row: (-row.cost, row.least or 0.0))
    lines += ["", f"below {BAR}, what costs networks most first (cost, ratio, networks):"]
    for row in slow:
        lines.append(f"  {row.cost:6.2f} {row.least:5.2f} {row.networks:3}  {row.name}")
    return "\n".join([*lines, f"{len(slow)} of {len(rows)} operators"])
