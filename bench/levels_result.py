"""Times and answers of the optimisation levels as data, and their page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from math import inf

from bench import load
from bench.ratios import MET, SMALL_MARGIN_US, mean_ratio
from bench.result import FOLDER, newest_file
from circlet.comparison.outputs import Difference
from circlet.comparison.ratios import Interval
from circlet.words import counted

TOLERANCES = {"O1": 1e-6, "O2": 1e-4, "file": 1e-4}
"""Largest difference of floats that may be, over the largest magnitude or 1; integers are equal."""

_COLUMNS = {"O2": "O0 / O2", "O1": "O0 / O1", "file": "file / optimised"}
_PAGE = """# O2 beside O0

What optimising gives: sessions at O0, O1 and O2 on each public network, and the file beside what
`circlet optimize` at O2 makes of it, in the same format, in LiteRT (.tflite) or ONNX Runtime
(.onnx), all in turn on the same CPUs and inputs ([how](benchmarking.md)).

Ratios are the time before over the time after, above 1 where optimising gains, with 95 % intervals
of the median over rounds. *Slower* is what lies below {met} with its whole interval, and takes more
than {margin:.0f} us longer. Differences are those of answers to random inputs, from O0's and from
those to the original file: of floats over the largest magnitude or 1, of integers of a byte or two
in steps. A dash stands where an engine does not run a file, or it cannot be written.

Made by `python -m bench levels`; run of {date}, {rounds} rounds. Machine: {machine}.

{note}{summary}

{tables}
"""


@dataclass(frozen=True)
class Row:
    """One network at one number of threads.

    Attributes:
        us: Median microseconds: "circlet_o0", "circlet_o1", "circlet" at O2, and a peer on the file
            and, with " O2" behind its name, on the optimised one.
        gains: The time before over that after, for "O1" and "O2" from O0, "file" for the peer.
        differences: Of the answers, by the same names.
        refused: Why engines did not run, or the optimised file could not be written.
    """

    network: str
    threads: int
    us: Mapping[str, float] = field(default_factory=dict)
    gains: Mapping[str, Interval] = field(default_factory=dict)
    differences: Mapping[str, Difference] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is called in sentences."""
        return f"{self.network} ({self.threads}T)"

    @property
    def text(self) -> str:
        """What is printed."""
        shown = [f"{self.network:52} {self.threads}T"]
        for name, gain in self.gains.items():
            shown.append(f"{name} {gain.middle:.2f} [{gain.low:.2f} {gain.high:.2f}]")
            shown.append(f"off by {_apart(self.differences.get(name))}")
        shown += [f"slower: {name}" for name in self.slower]
        shown += [f"other answers: {name}" for name in self.wrong]
        return "  ".join([*shown, *(f"{name}: {why}" for name, why in self.refused.items())])

    @property
    def slower(self) -> list[str]:
        """Where optimising costs more than noise."""
        return [name for name, gain in self.gains.items() if self._is_slower(name, gain)]

    @property
    def wrong(self) -> list[str]:
        """Where answers are further apart than they may be."""
        return [name for name, one in self.differences.items() if not _agrees(name, one)]

    def _is_slower(self, name: str, gain: Interval) -> bool:
        before, after = self._times(name)
        return gain.high < MET and after > before + SMALL_MARGIN_US

    def _times(self, name: str) -> tuple[float, float]:
        """Microseconds before and after."""
        if name != "file":
            return self.us["circlet_o0"], self.us["circlet" if name == "O2" else "circlet_o1"]
        optimised = next(engine for engine in self.us if engine.endswith(" O2"))
        return self.us[optimised.removesuffix(" O2")], self.us[optimised]


@dataclass(frozen=True)
class Levels:
    """One run of `python -m bench levels`."""

    date: str
    machine: Mapping[str, object]
    rounds: int
    rows: list[Row]

    def write(self) -> None:
        """Keep it as the newest run."""
        FOLDER.mkdir(exist_ok=True)
        target = FOLDER / f"levels-{self.date.replace(':', '')}.json"
        target.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @property
    def summary(self) -> str:
        """Means, what is slower, and what answers otherwise, in sentences."""
        said = []
        for name, column in _COLUMNS.items():
            rows = [row for row in self.rows if name in row.gains]
            mean = mean_ratio([row.gains[name].middle for row in rows])
            slower = ", ".join(row.label for row in rows if name in row.slower) or "none"
            wrong = ", ".join(row.label for row in self.rows if name in row.wrong) or "none"
            measured = f"{len(rows)} measured, geometric mean {mean or 0:.2f}"
            said.append(f"{column}: {measured}; slower: {slower}; other answers: {wrong}.")
        return "\n".join(f"- {sentence}" for sentence in said)

    def page(self) -> str:
        """The whole page, as Markdown."""
        why = load.reason(self.machine)
        return _PAGE.format(
            met=MET,
            margin=SMALL_MARGIN_US,
            date=self.date,
            rounds=self.rounds,
            machine=", ".join(f"{key} {value}" for key, value in self.machine.items()),
            note=f"**Measured under load, so ratios may be noise**: {why}.\n\n" if why else "",
            summary=self.summary,
            tables="\n\n".join(self._tables()),
        )

    def _tables(self) -> Iterator[str]:
        for threads in sorted({row.threads for row in self.rows}):
            head = f"## {counted(threads, 'thread')}"
            names = ["network", "O0 us", "O2 us"]
            names += [part for column in _COLUMNS.values() for part in (column, "interval", "off")]
            lines = [" | ".join(names), "|".join(["---"] * len(names))]
            lines += [" | ".join(_cells(row)) for row in self.rows if row.threads == threads]
            yield "\n".join([head, "", *(f"| {line} |" for line in lines)])


def newest() -> Levels | None:
    """The newest run; None where there is none."""
    found = newest_file("levels", folder=FOLDER)
    if found is None:
        return None
    data = json.loads(found.read_text(encoding="utf-8"))
    return Levels(data["date"], data["machine"], data["rounds"], [_row(r) for r in data["rows"]])


def _row(fields: dict[str, dict[str, dict[str, object]]]) -> Row:
    gains = {name: Interval(**one) for name, one in fields.pop("gains").items()}  # type: ignore[arg-type]
    apart = {name: Difference(**one) for name, one in fields.pop("differences").items()}  # type: ignore[arg-type]
    return Row(**fields, gains=gains, differences=apart)  # type: ignore[arg-type]


def _cells(row: Row) -> Iterator[str]:
    yield row.network
    for engine in ("circlet_o0", "circlet"):
        yield f"{row.us[engine]:.1f}" if engine in row.us else "-"
    for name in _COLUMNS:
        gain, apart = row.gains.get(name), row.differences.get(name)
        yield "-" if gain is None else f"{gain.middle:.2f}{' slower' * (name in row.slower)}"
        yield "-" if gain is None else f"{gain.low:.2f} to {gain.high:.2f}"
        yield _apart(apart)


def _apart(found: Difference | None) -> str:
    if found is None:
        return "-"
    if found.note:
        return found.note
    steps = f", {found.steps} step{'s' * (found.steps != 1)}" if found.steps else ""
    return "0" if not found.part else f"{found.part:.1g}{steps}"


def _agrees(name: str, found: Difference) -> bool:
    """Whether answers are as near as they have to be; those of integers are the same."""
    if found.note or found.part == inf:
        return False
    return not found.steps and found.part <= TOLERANCES[name]
