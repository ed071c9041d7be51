"""O2 beside O0, and what `circlet optimize` writes beside the originals: times and answers.

Sessions at O0, O1 and O2 take turns on each network, and so do the file and its optimised form in
LiteRT (.tflite) or in ONNX Runtime (.onnx). Answers of O1 and O2 are held against those of O0, and
those to the optimised file against those to the original. Writes bench/results/levels-*.json; of a
run over all of the public corpora it makes docs/levels.md, as `--page` does of the newest result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench import load, machine
from bench.arguments import add_loaded, add_networks, add_rounds, add_threads, parser
from bench.levels_result import Levels, Row, newest
from bench.measure import CORPUS, chosen, private_cache
from bench.report import DOCS
from circlet import optimize
from circlet.comparison.compare import Compared, compare
from circlet.comparison.networks import Network, described
from circlet.comparison.outputs import difference
from circlet.comparison.ratios import ratio_of
from circlet.errors import CircletError

PAGE = DOCS / "levels.md"
_LEVELS = ("circlet_o0", "circlet_o1", "circlet")
_PEERS = {".tflite": "litert", ".onnx": "onnxruntime"}


def main(arguments: Sequence[str]) -> None:
    """Measure, print a line per network and number of threads, write the result and the page."""
    known = parser("levels", __doc__)
    add_networks(known, "the public corpora")
    add_threads(known, "1")
    add_rounds(known, 7)
    add_loaded(known)
    known.add_argument("--page", action="store_true", help="make the page of the newest result")
    options = known.parse_args(arguments)
    if options.page:
        found = newest()
        if found is None:
            known.error("there is no result")
        PAGE.write_text(found.page(), encoding="utf-8")
        return
    is_page_made = not (options.paths or options.models != "*")
    watch = load.watch(options.loaded or not is_page_made)
    rows: list[Row] = []
    with private_cache():
        for path in chosen(options.paths or [CORPUS], options.models):
            for threads in map(int, options.threads.split(",")):
                rows.append(measured(path, threads, options.rounds))
                print(rows[-1].text, flush=True)
    date = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = Levels(date, machine.facts() | watch.facts(), options.rounds, rows)
    print(made.summary)
    if is_page_made:
        made.write()
        PAGE.write_text(made.page(), encoding="utf-8")


def measured(path: Path, threads: int, rounds: int) -> Row:
    """One network at one number of threads; what cannot be measured says why."""
    try:
        network = described(path)
    except (CircletError, OSError) as error:
        return Row(path.name, threads, refused={"circlet": f"{error}".splitlines()[0]})
    peer = _PEERS.get(path.suffix, "")
    engines = (*_LEVELS, *filter(None, [peer]))
    with tempfile.TemporaryDirectory(prefix="bench-levels-") as folder:
        target = Path(folder) / path.name
        why = _written(path, target) if peer else ""
        files = {f"{peer} O2": target} if peer and not why else {}
        found = compare(network, threads, rounds, engines=engines, cache=Path(folder), files=files)
    refused = found.refused | ({f"{peer} O2": why} if why else {})
    return _row(network, threads, found, peer, refused)


def _written(path: Path, target: Path) -> str:
    """Optimise a file for its own format; why that cannot be, or ""."""
    try:
        optimize(path, "O2", format=path.suffix[1:]).save(target)
    except CircletError as error:
        return f"{error}".splitlines()[0]
    return ""


def _row(
    network: Network, threads: int, found: Compared, peer: str, refused: dict[str, str]
) -> Row:
    rounds, outputs = found.rounds, found.outputs
    pairs = {"O1": ("circlet_o0", "circlet_o1"), "O2": ("circlet_o0", "circlet")}
    pairs["file"] = (peer, f"{peer} O2")
    return Row(
        network.path.name,
        threads,
        {engine: median(times) for engine, times in rounds.items()},
        {
            name: ratio_of(rounds, before, after)
            for name, (before, after) in pairs.items()
            if before in rounds and after in rounds
        },
        {
            name: difference(outputs[before], outputs[after])
            for name, (before, after) in pairs.items()
            if before in outputs and after in outputs
        },
        refused,
    )
