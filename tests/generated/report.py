"""What was found, as a table by kind and a list of findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.generated.nodes.undefined import NODE_EXCLUSIONS
from tests.generated.outcome import C, Outcome
from tests.generated.undefined import EXCLUSIONS, UNORDERED


@dataclass
class Row:
    """Counts of the cases of one kind.

    Attributes:
        refused: Broke a rule of the record, and were refused.
        failed: Were stopped in a run, with a code.
        native: Ran in native code.
        judged: Compared with the judge.
        excused: Not compared, for a reason of `undefined.py`.
        unjudged: The judge refused them, or ended.
        findings: Cases with something that should not be.
    """

    kind: str
    cases: int = 0
    refused: int = 0
    failed: int = 0
    native: int = 0
    judged: int = 0
    excused: int = 0
    unjudged: int = 0
    findings: int = 0

    def add(self, outcome: Outcome[C]) -> None:
        """Count one case."""
        self.cases += 1
        self.refused += outcome.status == "refused"
        self.failed += outcome.status == "failed"
        self.native += outcome.native
        self.judged += outcome.judged in ("agreed", "differs")
        self.excused += outcome.judged == "excused"
        self.unjudged += outcome.judged in ("refused", "crashed", "no file")
        self.findings += bool(outcome.findings)


COLUMNS = ("cases", "refused", "failed", "native", "judged", "excused", "unjudged", "findings")


def rows(outcomes: Iterable[Outcome[C]]) -> list[Row]:
    """One row for each kind, in order of first use."""
    found: dict[str, Row] = {}
    for outcome in outcomes:
        kind = outcome.case.kind
        found.setdefault(kind, Row(kind)).add(outcome)
    return list(found.values())


def table(found: Sequence[Row]) -> str:
    """The rows, and their sum."""
    total = Row("all")
    for column in COLUMNS:
        setattr(total, column, sum(getattr(row, column) for row in found))
    lines = [f"{'kind':36}" + "".join(f"{column:>9}" for column in COLUMNS)]
    for row in (*found, total):
        counts = "".join(f"{getattr(row, column):>9}" for column in COLUMNS)
        lines.append(f"{row.kind:36}{counts}")
    return "\n".join(lines)


def findings(outcomes: Iterable[Outcome[C]]) -> list[str]:
    """One line for each finding: against what, which case, and what."""
    return [
        f"{against}: {outcome.case}: {text}"
        for outcome in outcomes
        for against, text in outcome.findings
    ]


def unjudged(outcomes: Iterable[Outcome[C]]) -> list[str]:
    """One line for each case that the judge did not answer."""
    kept = [o for o in outcomes if o.judged in ("refused", "crashed", "no file")]
    return [f"{outcome.case}: {outcome.why}" for outcome in kept]


def exclusions() -> str:
    """The tables of what is not compared with a judge, as Markdown."""
    lines = []
    for judge, found in (
        ("LiteRT", [(e.kinds, e.reason) for e in EXCLUSIONS]),
        ("Between backends", [(UNORDERED.kinds, UNORDERED.reason)]),
        ("ONNX", [(e.operators, e.reason) for e in NODE_EXCLUSIONS]),
    ):
        lines += [f"| {judge}: operators | why |", "|---|---|"]
        lines += [f"| {', '.join(sorted(kinds))} | {reason} |" for kinds, reason in found]
        lines.append("")
    return "\n".join(lines).rstrip()
