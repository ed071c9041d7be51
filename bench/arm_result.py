"""Instruction counts on emulated Arm processors as data, their form as JSON, and their page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.emulated.arm import CPUS
from bench.emulated.counting import Counts
from bench.ratios import mean_ratio
from bench.result import FOLDER
from circlet.comparison.outputs import TOLERANCES

PAGE = Path(__file__).parents[1] / "docs" / "performance-arm.md"
BARS = {"fp32": 1.2, "integer and hybrid": 1.5}
LEAST = 0.9
_GROUPS = {"fp32": ("fp32",), "integer and hybrid": ("integer", "hybrid")}


@dataclass(frozen=True)
class Row:
    """One network on one processor.

    Attributes:
        network, kind: The file's name, and the class that the bars are for.
        cpu: The name of one of `CPUS`.
        circlet, litert: What a run takes.
        part: The largest difference of LiteRT's outputs from Circlet's, in parts of their range.
        note: Why outputs cannot be compared, or "".
        why: Why there are no counts of both, or "".
    """

    network: str
    kind: str
    cpu: str
    circlet: Counts | None = None
    litert: Counts | None = None
    part: float = 0.0
    note: str = ""
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """LiteRT's instructions over Circlet's, where both are known."""
        if self.circlet is None or self.litert is None:
            return None
        return self.litert.instructions / self.circlet.instructions

    @property
    def moved_ratio(self) -> float | None:
        """Bytes that LiteRT loads and stores over those that Circlet does."""
        if self.circlet is None or self.litert is None:
            return None
        return self.litert.moved / max(1, self.circlet.moved)

    def line(self) -> str:
        """What to print of it."""
        head = f"{self.network:44} {self.kind:8} {self.cpu:8}"
        if self.circlet is None or self.litert is None:
            return f"{head} {self.why}"
        both = f"litert {self.litert.instructions:,} circlet {self.circlet.instructions:,}"
        return f"{head} {both}  {self.ratio:.2f}, bytes {self.moved_ratio:.2f}{self.mark()}"

    def mark(self) -> str:
        """A sign where the engines computed different things."""
        return " (differs)" if self.note or self.part > TOLERANCES.get(self.kind, 0.0) else ""


@dataclass(frozen=True)
class Counted:
    """One run of `python -m bench arm`.

    Attributes:
        circlet, litert: Versions.
    """

    date: str
    circlet: str
    litert: str
    rows: list[Row]

    @property
    def networks(self) -> int:
        """Networks that both engines were counted on."""
        return len({row.network for row in self.rows if row.ratio})

    def write(self, path: Path | None = None) -> None:
        """Keep it, as the newest run where no path is given."""
        FOLDER.mkdir(exist_ok=True)
        target = path or FOLDER / f"arm-{self.date.replace(':', '')}.json"
        target.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def newest() -> Counted:
    """The newest run; ends the program where there is none."""
    found = sorted(FOLDER.glob("arm-*.json"))
    if not found:
        sys.exit(f"no run of `python -m bench arm` in {FOLDER}")
    data = json.loads(found[-1].read_text(encoding="utf-8"))
    return Counted(**{**data, "rows": [_row(fields) for fields in data["rows"]]})


def _row(fields: Mapping[str, object]) -> Row:
    counts = {key: fields[key] and Counts(**fields[key]) for key in ("circlet", "litert")}  # type: ignore[arg-type]
    return Row(**{**fields, **counts})  # type: ignore[arg-type]


def write_page(counted: Counted) -> None:
    """Write docs/performance-arm.md."""
    PAGE.write_text(page(counted), encoding="utf-8")
    print(f"wrote {PAGE}")


def page(counted: Counted) -> str:
    """The whole page."""
    return "\n".join([*_head(counted), *_summary(counted.rows), *_tables(counted.rows)])


def _head(counted: Counted) -> list[str]:
    cpus = ", ".join(f"{cpu.name} (`-cpu {cpu.machine.cpu}`)" for cpu in CPUS)
    return [
        "# Arm, by executed instructions",
        "",
        f"Made by `python -m bench arm`, run of {counted.date}: Circlet {counted.circlet} and "
        f"LiteRT {counted.litert} on {counted.networks} networks of the public corpora. No figure "
        "here is a time, and no Arm processor was at hand: both engines ran on one thread under "
        "qemu's user mode, and a plugin of qemu's counted what they executed.",
        "",
        "**What the figures are worth.** An instruction count is a proxy. It says how much work "
        "the code leaves to the processor, and it is the same on any machine; it does not know "
        "which instructions share a port, how long they take, or what misses a cache. Bytes are "
        "those of all loads and stores, most of which a cache serves.",
        "",
        f"Processors: {cpus}. LiteRT is the aarch64 library of its Python package with its default "
        "delegate, XNNPACK, which chooses its kernels by what the processor says of itself; "
        "Circlet's artifact is compiled for the class. The second run counts, without start-up. "
        "Ratios are LiteRT's count over Circlet's: above 1 Circlet executes less. An asterisk "
        "marks outputs further apart than the [usual tolerance](benchmarking.md), `-` a count that "
        "is missing for the reason below the tables.",
        "",
    ]


def _summary(rows: Sequence[Row]) -> Iterator[str]:
    yield "| class | processor | networks | geometric mean, instructions | bar | lowest | bytes |"
    yield "|---|---|---|---|---|---|---|"
    for group, kinds in _GROUPS.items():
        for cpu in CPUS:
            own = [row for row in rows if row.kind in kinds and row.cpu == cpu.name and row.ratio]
            if own:
                yield _mean_line(group, cpu.name, own)
    yield ""
    yield f"No network is to be below {LEAST}."
    yield ""


def _mean_line(group: str, cpu: str, own: Sequence[Row]) -> str:
    ratios = [row.ratio or 0.0 for row in own]
    moved = mean_ratio([row.moved_ratio or 0.0 for row in own]) or 0.0
    lowest = min(own, key=lambda row: row.ratio or 0.0)
    return (
        f"| {group} | {cpu} | {len(own)} | {mean_ratio(ratios) or 0:.2f} | {BARS[group]} "
        f"| {min(ratios):.2f} ({lowest.network}) | {moved:.2f} |"
    )


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    for group, kinds in _GROUPS.items():
        yield f"## {group}"
        yield ""
        names = [cpu.name for cpu in CPUS]
        yield f"| network | {' | '.join(f'{n}: LiteRT | Circlet | ratio | bytes' for n in names)} |"
        yield "|---" + "|---" * 4 * len(names) + "|"
        networks = dict.fromkeys(row.network for row in rows if row.kind in kinds)
        for network in networks:
            cells = [_cells(rows, network, name) for name in names]
            if any("." in cell for cell in cells):
                yield f"| {network} | {' | '.join(cells)} |"
        yield ""
    yield "Counts are in millions. Without counts of both:"
    yield ""
    for row in rows:
        if row.why and row.cpu == CPUS[0].name:
            yield f"- {row.network}: {row.why}"
    yield ""


def _cells(rows: Sequence[Row], network: str, cpu: str) -> str:
    row = next((row for row in rows if row.network == network and row.cpu == cpu), None)
    if row is None or row.circlet is None or row.litert is None:
        return "- | - | - | -"
    star = "*" if row.mark() else ""
    both = " | ".join(_millions(one.instructions) for one in (row.litert, row.circlet))
    return f"{both} | {row.ratio:.2f}{star} | {row.moved_ratio:.2f}"


def _millions(count: int) -> str:
    return f"{count / 1e6:.3g}" if count < 1e9 else f"{count / 1e6:.0f}"
