"""The order in which rows of a kind are asked: by rank, whatever was imported first."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from circlet.backends.cpu import lower
from circlet.backends.cpu.lowering import LOWERINGS, Lowering, LoweringTable, Rank
from circlet.ir import DType
from circlet.ops.build import builder
from circlet.target.targets import parse_target
from tests.tiers import slow

_IMPORTS = """
import importlib, json, sys, types
from pathlib import Path

import circlet.backends.cpu

package = types.ModuleType("circlet.backends.cpu.lower")
package.__path__ = [str(Path(circlet.backends.cpu.__file__).parent / "lower")]
sys.modules[package.__name__] = package
for name in sys.argv[1:]:
    importlib.import_module(f"{package.__name__}.{name}")
from circlet.backends.cpu.lowering import LOWERINGS

print(json.dumps({kind: [row.name for row in rows] for kind, rows in LOWERINGS.rows.items()}))
"""


@pytest.mark.parametrize("seed", [0, *slow(1, 2)])
def test_the_order_of_imports_means_nothing(seed: int) -> None:
    shuffled = random.Random(seed).sample(lower.FAMILIES, len(lower.FAMILIES))
    command = [sys.executable, "-c", _IMPORTS, *shuffled]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    for kind, names in found.items():
        assert names == [row.name for row in LOWERINGS.rows[kind]], kind


def test_rows_of_one_kind_have_ranks_of_their_own() -> None:
    table = LoweringTable()
    table.add(_row("first", Rank.INT8))
    table.add(_row("second", Rank.INT16))
    with pytest.raises(ValueError, match="third and first of ABS have the rank INT8"):
        table.add(_row("third", Rank.INT8))


def test_the_lowest_rank_that_takes_an_operator_wins() -> None:
    made = builder()
    made.output(made.op("ABS", [made.input("x", DType.FLOAT32, (3,))]))
    (op,) = made.graph.ops
    table = LoweringTable()
    table.add(_row("last", Rank.COMPUTED_INT16))
    table.add(_row("best", Rank.INT8))
    table.add(_row("choosy", Rank.MATRIX_UNIT, "needs tiles"))
    chosen = table.choose(op, parse_target("x86_64+v3"))
    assert isinstance(chosen, Lowering) and chosen.name == "best"


def _row(name: str, rank: Rank, reason: str | None = None) -> Lowering:
    return Lowering("ABS", name, lambda op, target: reason, lambda op, context: None, rank=rank)
