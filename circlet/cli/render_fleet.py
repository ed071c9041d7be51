"""Studies of a fleet and their fronts, for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

from circlet.cli.common import duration
from circlet.cli.console import console, say, show_table
from circlet.words import counted


def show_fleet(report: dict[str, Any]) -> None:
    """Print where each study stands, and its front."""
    say(f"studies in {report['storage']}: {len(report['studies'])}")
    for study in report["studies"]:
        facts, counts = study["facts"], study["counts"]
        say(f"{study['name']}@{study['fingerprint']}: {facts['cpu']}, {facts['cores']} cores")
        say("  " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        rows = [_row(point) for point in study["front"]]
        show_table(console(), ("time", "memory", "setting", "operators", "trial", "host"), rows)
    if report["output"]:
        say(f"written: {report['output']}")


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    setting = point["setting"]
    backends = Counter(point["placement"].values())
    return (
        duration(point["time_ns"] / 1e9),
        f"{point['memory_bytes']:,.0f} B",
        f"{counted(setting['threads'], 'thread')}, {setting['level']}",
        ", ".join(f"{count} {name}" for name, count in backends.most_common()),
        str(point["trial"]),
        point["host"],
    )
