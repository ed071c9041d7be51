"""Compile times as data, their form as JSON, and their section of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from bench.classes import MachineClass
from bench.result import FOLDER, newest_file


@dataclass(frozen=True)
class Row:
    """One network: its operators, its distinct kernels, and how long compiling it took.

    Attributes:
        plan_s: Of that, reading, optimising and lowering it: all but the C compiler.
    """

    network: str
    ops: int
    kernels: int
    seconds: float
    plan_s: float


@dataclass(frozen=True)
class CompileTimes:
    """One run of `python -m bench compile_time`."""

    date: str
    machine: Mapping[str, object]
    rows: list[Row]

    def write(self) -> None:
        """Keep it as the newest run."""
        FOLDER.mkdir(exist_ok=True)
        target = FOLDER / f"compile-{self.date.replace(':', '')}.json"
        target.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def newest(of: MachineClass | None = None) -> CompileTimes | None:
    """The newest run, on a class of machines if that is given; None where there is none."""
    found = newest_file("compile", of, FOLDER)
    if found is None:
        return None
    data = json.loads(found.read_text(encoding="utf-8"))
    rows = [Row(**fields) for fields in data["rows"]]
    return CompileTimes(data["date"], data["machine"], rows)


def section(found: CompileTimes | None) -> str:
    """What the page says of compile times."""
    if found is None:
        return ""
    lines = [
        "## Compile time",
        "",
        "Seconds to compile with an empty cache, by a compiler that has run before, and of that "
        "what is not the C compiler's; synthetic networks have alike or distinct blocks "
        f"(`python -m bench compile_time`, run of {found.date}).",
        "",
        "| network | operators | kernels | seconds | without the C compiler |",
        "|---|---|---|---|---|",
        *(
            f"| {row.network} | {row.ops} | {row.kernels} | {row.seconds:.2f} | {row.plan_s:.2f} |"
            for row in found.rows
        ),
    ]
    return "\n".join(lines)
