"""A profile as Samsung ONE's runtime writes its own: SNPE's JSON (version 2) and a Markdown table.

Operators are those of the user's file: what ONE's tools call `$<subgraph> subgraph $<operator>` is
the first file's operator of that number. Times are whole microseconds, as theirs are; memory by
operator is not counted, which ONE's release builds write as 0.
"""

from __future__ import annotations

import json

from circlet.profiling.result import OperatorRow, Profile

_RUNTIME = "runtime"
_NO_MEMORY = "0 | 0 | 0 | 0"
_MEMORY = "rss_min(kb) | rss_max(kb) | page_reclaims_min | page_reclaims_max"


def snpe_json(profile: Profile) -> str:
    """The benchmark file: the whole graph, and the operators of each backend."""
    fastest, slowest = profile.range_us
    graph = _times(round(profile.whole_us), round(fastest), round(slowest), _RUNTIME)
    backends: dict[str, dict[str, object]] = {}
    for row in profile.operators:
        if row.backend:
            name = f"$0 subgraph ${row.id} {_kind(row)}"
            least, most = row.range_us
            times = _times(round(row.us), round(least), round(most), row.backend)
            backends.setdefault(row.backend, {})[name] = times
    data = {"memory": {}, "runtime": {"Graph": graph}, **backends}
    return json.dumps({"version": "2", "Execution_Data": data}, indent=2) + "\n"


def one_markdown(profile: Profile) -> str:
    """The table of one session: the whole run, then the operators in the file's order."""
    lines = [
        f"# Session: 0, Subgraph: 0, Running count: {profile.runs}",
        "",
        f"| latency(us) | {_MEMORY} |",
        "| -- | -- | -- | -- | -- |",
        f"| {round(profile.whole_us)} | {_NO_MEMORY} |",
        "",
        "## Op ",
        f"| Op name | backend | latency(us) | latency(%) | {_MEMORY} |",
        "| -- | -- | -- | -- | -- | -- | -- | -- |",
        *(_line(row) for row in profile.operators if row.backend),
    ]
    return "\n".join(lines) + "\n"


def _line(row: OperatorRow) -> str:
    name = f"$0 subgraph @{row.id} {_kind(row)}"
    share = f"{100 * row.share:.2f}"
    return f"| {name} | {row.backend} | {row.us:.3f} | {share} | {_NO_MEMORY} |"


def _kind(row: OperatorRow) -> str:
    """The kind as one word: names of custom operators may hold anything."""
    return "_".join(row.kind.replace("|", "/").split()) or "OP"


def _times(average: int, least: int, most: int, runtime: str) -> dict[str, object]:
    return {"Avg_Time": average, "Max_Time": most, "Min_Time": least, "Runtime": runtime}
