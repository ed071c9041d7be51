"""Writes the tables of docs/costs.md: how far predictions miss.

circlet costs MODEL... --backend cpu,litert --check --json > report.json
python tools/cost_errors.py report.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "costs.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"
_FEWEST = 8  # operators of a family that is listed by itself


def tables(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the tables, and of what they were measured on."""
    machine = report["machine"]
    others = report["others"]
    load = "" if others is None else f", while other processes used {others:.1f} cores in the mean"
    yield f"Measured on {machine['cpu']}, {machine['cores']} cores{load}."
    yield ""
    backends = list(dict.fromkeys(row["backend"] for row in report["partitions"]))
    yield from _networks(report["networks"], backends)
    yield ""
    yield from _families(report["misses"], backends)


def _networks(networks: Sequence[Mapping[str, Any]], backends: Sequence[str]) -> Iterator[str]:
    yield "| network, us predicted / measured | " + " | ".join(backends) + " |"
    yield "|---|" + "---:|" * len(backends)
    for network in networks:
        found = {whole["backend"]: whole for whole in network["wholes"]}
        cells = (_ratio(found[backend]) for backend in backends)
        yield f"| {Path(network['model']).stem} | {' | '.join(cells)} |"


def _ratio(whole: Mapping[str, Any]) -> str:
    if not whole["predicted_us"] or not whole["measured_us"]:
        return "-"
    predicted, measured = whole["predicted_us"][0], whole["measured_us"][0]
    return f"{predicted:,.0f} / {measured:,.0f} = {predicted / measured:.2f}"


def _families(misses: Sequence[Mapping[str, Any]], backends: Sequence[str]) -> Iterator[str]:
    columns = [(name, left) for name in backends for left in ("operator", "network")]
    yield "| family | " + " | ".join(f"{name}, {left}" for name, left in columns) + " |"
    yield "|---|" + "---:|" * len(columns)
    families: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for miss in misses:
        key = miss["backend"], miss["left_out"]
        families.setdefault(miss["family"], {})[key] = miss
    for family, found in sorted(families.items()):
        if max(miss["count"] for miss in found.values()) >= _FEWEST:
            cells = (_cell(found.get(column)) for column in columns)
            yield f"| {family} | {' | '.join(cells)} |"


def _cell(miss: Mapping[str, Any] | None) -> str:
    return "-" if miss is None else f"{miss['median']:.2f}, {miss['worst']:.2f} ({miss['count']})"


def main() -> None:
    """Entry point of the tool."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("report", type=Path)
    report = json.loads(parser.parse_args().report.read_text(encoding="utf-8"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    text = "\n".join(tables(report))
    PAGE.write_text(f"{head}{BEGIN}{text}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
