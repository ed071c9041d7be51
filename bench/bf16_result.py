"""Results of the class bf16 as data, their form as JSON, and their section of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.classes import MachineClass
from bench.ratios import mean_ratio
from bench.result import FOLDER, newest_file
from circlet.comparison.ratios import Interval
from circlet.words import counted


@dataclass(frozen=True)
class Row:
    """One network at one number of threads.

    Attributes:
        us: Median microseconds by engine; "circlet" is at bf16, "circlet_f32" at f32.
        gain: Circlet's time at f32 over that at bf16.
        ratio: OpenVINO's time at bf16 over Circlet's, if it runs the network.
        golden: Largest error at bf16 from what LiteRT's reference kernels answered, over the
            largest magnitude or 1; None where there is no such answer.
        peer: Largest difference of OpenVINO's outputs from Circlet's, measured in the same way.
    """

    network: str
    threads: int
    us: Mapping[str, float]
    gain: Interval
    ratio: Interval | None
    golden: float | None
    peer: float | None


@dataclass(frozen=True)
class Rounded:
    """One run of `python -m bench bf16`."""

    date: str
    machine: Mapping[str, object]
    rows: list[Row]

    def write(self) -> None:
        """Keep it as the newest run."""
        FOLDER.mkdir(exist_ok=True)
        target = FOLDER / f"bf16-{self.date.replace(':', '')}.json"
        target.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def newest(of: MachineClass | None = None) -> Rounded | None:
    """The newest run, on a class of machines if that is given; None where there is none."""
    found = newest_file("bf16", of, FOLDER)
    if found is None:
        return None
    data = json.loads(found.read_text(encoding="utf-8"))
    rows = [_row(fields) for fields in data["rows"]]
    return Rounded(data["date"], data["machine"], rows)


def _row(fields: dict[str, object]) -> Row:
    intervals = {key: fields[key] and Interval(**fields[key]) for key in ("gain", "ratio")}  # type: ignore[arg-type]
    return Row(**{**fields, **intervals})  # type: ignore[arg-type]


def section(found: Rounded | None) -> str:
    """What the page says of the class."""
    if found is None:
        return ""
    lines = [
        "## bf16, which has to be asked for",
        "",
        f'The networks of class fp32 with `precision="bf16"`, OpenVINO at its bf16 (LiteRT has '
        f"none); run of {found.date} (`python -m bench bf16`), on a machine with a load of "
        f"{found.machine.get('load', 0)}. Gain is Circlet's time at f32 over "
        "that at bf16, ratio OpenVINO's time over Circlet's, error the largest from the golden "
        "outputs over the largest magnitude or 1 (f32 is within 1e-4).",
        "",
        "| network | threads | Circlet f32 us | Circlet bf16 us | OpenVINO bf16 us | gain "
        "| ratio | error | OpenVINO's difference |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            _line(row)
            for row in sorted(found.rows, key=lambda row: (row.threads, -row.gain.middle))
        ),
        "",
        _means(found.rows),
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    times = (row.us.get(name) for name in ("circlet_f32", "circlet", "openvino"))
    cells = ["-" if us is None else f"{us:.1f}" if us < 1000 else f"{us:.0f}" for us in times]
    ratios = ["-" if one is None else f"{one.middle:.2f}" for one in (row.gain, row.ratio)]
    errors = ["-" if one is None else f"{one:.1g}" for one in (row.golden, row.peer)]
    return f"| {row.network} | {row.threads} | {' | '.join([*cells, *ratios, *errors])} |"


def _means(rows: list[Row]) -> str:
    texts = []
    for threads in sorted({row.threads for row in rows}):
        gains = [row.gain.middle for row in rows if row.threads == threads]
        ratios = [row.ratio.middle for row in rows if row.threads == threads and row.ratio]
        texts.append(
            f"Geometric means at {counted(threads, 'thread')}: gain "
            f"{mean_ratio(gains) or 0:.2f}, ratio {mean_ratio(ratios) or 0:.2f}."
        )
    return " ".join(texts)
