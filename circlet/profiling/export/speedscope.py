"""A profile as speedscope (https://www.speedscope.app) reads it.

https://www.speedscope.app/file-format-schema.json: an evented profile of nested frames.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from circlet import __version__
from circlet.profiling.export.tables import BETWEEN
from circlet.profiling.result import Profile

_RUN = "run"


def speedscope(profile: Profile) -> str:
    """One run as nested frames: the run, source operators in it, their kernels in those."""
    frames: dict[str, int] = {}
    spans = list(_spans(profile))
    for _, name, _ in spans:
        frames.setdefault(name, len(frames))
    end = round(profile.whole_us, 3)
    events = [{"type": kind, "frame": frames[name], "at": at} for kind, name, at in spans]
    run = {"type": "evented", "name": profile.model, "unit": "microseconds"}
    document = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": f"circlet {__version__}",
        "name": f"{profile.model}; what is in no operator lies {BETWEEN}",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": [{**run, "startValue": 0, "endValue": end, "events": events}],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _spans(profile: Profile) -> Iterator[tuple[str, str, float]]:
    """Frames that open ("O") and close ("C"), by name and in the order of time."""
    names = {row.id: f"{row.kind} {row.name}" for row in profile.operators}
    yield "O", _RUN, 0.0
    for call in profile.calls:
        start = call.start_us
        for source, share in zip(call.sources, call.shares, strict=True):
            begin, end = round(start, 3), round(start + call.us * share, 3)
            if share:
                yield "O", names[source], begin
                yield "O", call.kernel, begin
                yield "C", call.kernel, end
                yield "C", names[source], end
            start += call.us * share
    yield "C", _RUN, round(profile.whole_us, 3)
