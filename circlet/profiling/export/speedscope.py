"""A profile as speedscope (https://www.speedscope.app) reads it.

https://www.speedscope.app/file-format-schema.json: an evented profile of nested frames.
"""

from __future__ import annotations

import json

from circlet import __version__
from circlet.profiling.export.tables import BETWEEN
from circlet.profiling.result import Profile


def speedscope(profile: Profile) -> str:
    """One run as nested frames: the run, source operators in it, their kernels in those."""
    frames: dict[str, int] = {}
    events: list[dict[str, object]] = []

    def frame(name: str) -> int:
        return frames.setdefault(name, len(frames))

    def span(name: str, start: float, end: float) -> tuple[dict[str, object], dict[str, object]]:
        number = frame(name)
        opened = {"type": "O", "frame": number, "at": start}
        return opened, {"type": "C", "frame": number, "at": end}

    names = {row.id: f"{row.kind} {row.name}" for row in profile.operators}
    begin, end = span("run", 0.0, round(profile.whole_us, 3))
    events.append(begin)
    for call in profile.calls:
        at = call.start_us
        for source, share in zip(call.sources, call.shares, strict=True):
            until = at + call.us * share
            if share:
                outer = span(names[source], round(at, 3), round(until, 3))
                inner = span(call.kernel, round(at, 3), round(until, 3))
                events += [outer[0], inner[0], inner[1], outer[1]]
            at = until
    events.append(end)
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"circlet {__version__}",
        "name": f"{profile.model}; what is in no operator lies {BETWEEN}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [
            {
                "type": "evented",
                "name": profile.model,
                "unit": "microseconds",
                "startValue": 0,
                "endValue": round(profile.whole_us, 3),
                "events": events,
            }
        ],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"
