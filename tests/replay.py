"""Replay: each operator alone, on the values that LiteRT's reference kernels had at that point.

`python -m tests.replay MODEL... [--case rand|img] [--json]` prints one line per operator kind and
types over all models, names the kinds without a record, and exits with 1 where any value differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from circlet.errors import CircletError
from circlet.formats import load
from circlet.ir import Op, Tensor
from circlet.ops import dtype_text, find, unsupported_reason
from circlet.ops.state import initial_value, updated
from tests.peer import PeerRefusedError, run_peer

FLOAT_BAR = 1e-5


@dataclass(frozen=True)
class Row:
    """What one operator gave beside the peer.

    Attributes:
        position: Place of the operator in the graph.
        kind: Operator kind.
        types: Its types, as operator records write them.
        name: The user's name of it.
        values: Output elements compared.
        mismatches: Elements that differ; for floats, 1 where the bar is passed.
        worst: Largest difference: steps for integers, the relative measure for floats.
        skipped: Why it was not compared, or "".
    """

    position: int
    kind: str
    types: str
    name: str
    values: int = 0
    mismatches: int = 0
    worst: float = 0.0
    skipped: str = ""


def replay(path: Path, case: str = "rand", *, isolated: bool = True) -> list[Row]:
    """One row per operator of the main graph; PeerRefusedError where LiteRT cannot run it.

    `isolated` runs the peer in a process of its own.
    """
    model = load(path)
    known = run_peer(path, model.main, case, isolated=isolated)
    return [_replay_op(position, op, known) for position, op in enumerate(model.main.ops)]


def compare(actual: np.ndarray, wanted: np.ndarray) -> tuple[int, float]:
    """(mismatches, worst difference) of one output."""
    if actual.shape != wanted.shape or actual.dtype != wanted.dtype:
        return wanted.size, float("inf")
    if wanted.size == 0:
        return 0, 0.0
    if wanted.dtype.kind not in "fc":
        difference = np.abs(actual.astype(np.int64) - wanted.astype(np.int64))
        return int(np.count_nonzero(difference)), float(difference.max())
    same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        wide = np.result_type(wanted.dtype, np.float64)
        difference = np.where(same, 0.0, np.abs(np.subtract(actual, wanted, dtype=wide)))
    finite = wanted[np.isfinite(wanted)]
    measure = float(difference.max() / max(1.0, np.abs(finite).max(initial=0.0)))
    return int(not measure <= FLOAT_BAR), measure


def _replay_op(position: int, op: Op, known: dict[Tensor, np.ndarray]) -> Row:
    def row(**facts: object) -> Row:
        return Row(position, op.label, dtype_text(op), op.name, **facts)  # type: ignore[arg-type]

    record, reason = find(op.label), unsupported_reason(op)
    if record is None or reason is not None:
        return row(skipped=reason or "no record for this kind")
    broken = [rule.message for rule in record.rules if not rule.holds(op)]
    if broken:
        return row(values=1, mismatches=1, worst=float("inf"), skipped=f"rule: {broken[0]}")
    absent = [t for t in (*op.inputs, *op.outputs) if t is not None and t not in known]
    if absent:
        return row(skipped=f"the peer keeps no value of {absent[0].name}")
    before = known | {tensor: initial_value(tensor) for tensor in updated(op)}
    results = record.evaluate(op, [None if t is None else before[t] for t in op.inputs])
    written = [*op.outputs, *updated(op)]
    pairs = [(actual, known[t]) for actual, t in zip(results, written, strict=True)]
    judged = [compare(actual, wanted) for actual, wanted in pairs]
    return row(
        values=sum(wanted.size for _, wanted in pairs),
        mismatches=sum(count for count, _ in judged),
        worst=max((worst for _, worst in judged), default=0.0),
    )


def summary(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows added up by kind, types and reason for skipping, in order of first use."""
    table: dict[tuple[str, str, str], dict[str, object]] = {}
    for row in rows:
        key = row.kind, row.types, row.skipped
        line = table.setdefault(
            key,
            {"kind": row.kind, "types": row.types, "ops": 0, "values": 0}
            | {"mismatches": 0, "worst": 0.0, "skipped": row.skipped},
        )
        line["ops"] = int(str(line["ops"])) + 1
        line["values"] = int(str(line["values"])) + row.values
        line["mismatches"] = int(str(line["mismatches"])) + row.mismatches
        line["worst"] = max(float(str(line["worst"])), row.worst)
    return list(table.values())


def _line(row: dict[str, object]) -> str:
    head = f"{row['kind']:24} {row['ops']:>4} ops {row['values']:>9} values"
    facts = f"{row['mismatches']:>7} differ, worst {row['worst']:<10.3g}"
    return f"{head} {facts} {row['types']} {row['skipped']}".rstrip()


def _replay_all(paths: Iterable[Path], case: str) -> list[Row]:
    """The rows of every model that LiteRT runs; the others are named on stderr."""
    rows: list[Row] = []
    for path in paths:
        try:
            rows += replay(path, case)
        except (PeerRefusedError, CircletError) as error:
            sys.stderr.write(f"{path.name} was not replayed: {error}\n")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 where a value differs, 2 where nothing could be replayed."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument("--case", default="rand")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = _replay_all(options.model, options.case)
    differing = [asdict(row) for row in rows if row.mismatches]
    lines = summary(rows)
    if options.json:
        sys.stdout.write(json.dumps({"kinds": lines, "differing": differing}, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{_line(line)}\n" for line in lines)
        sys.stdout.writelines(f"differs: {row}\n" for row in differing)
    return 1 if differing else 0 if rows else 2


if __name__ == "__main__":
    sys.exit(main())
