"""Kernel calls as a trace that Chrome (about:tracing) and Perfetto show.

The format is the Trace Event Format: complete events ("ph": "X") with times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from circlet.profiling.result import CallRow, OperatorRow, Profile
from circlet.words import counted

_PROCESS = 1
_KERNELS, _OPERATORS, _FIRST_THREAD = 1, 2, 3


def chrome_trace(profile: Profile) -> str:
    """One run: a track of kernel calls, and beside it one of the source operators they compute.

    On several threads each has a track as well, with how long it worked on each call; at most as
    long as the call took, as they were timed in other runs.
    """
    names = {row.id: row for row in profile.operators}
    events = [
        _named("process_name", 0, f"{profile.model} ({counted(profile.threads, 'thread')})"),
        _named("thread_name", _OPERATORS, "source operators"),
        _named("thread_name", _KERNELS, "kernels"),
        *_events(profile, names),
        *_threads(profile),
    ]
    document = {"traceEvents": events, "displayTimeUnit": "ns", "otherData": _about(profile)}
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _named(what: str, thread: int, name: str) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": _PROCESS, "tid": thread, "args": {"name": name}}


def _about(profile: Profile) -> dict[str, object]:
    about = {"model": profile.model, "level": profile.level, "target": profile.target}
    return {**about, "runs": profile.runs, "whole_us": round(profile.whole_us, 3)}


def _events(profile: Profile, names: dict[int, OperatorRow]) -> Iterator[dict[str, object]]:
    whole = _event("run", _KERNELS, 0.0, profile.whole_us)
    yield {**whole, "args": {"runs": profile.runs}}
    for call in profile.calls:
        event = _event(call.kernel, _KERNELS, call.start_us, call.us)
        yield {**event, "cat": call.backend, "args": _arguments(call, names)}
        at = call.start_us
        for source, share in zip(call.sources, call.shares, strict=True):
            row = names[source]
            if share:
                event = _event(row.name, _OPERATORS, at, call.us * share)
                yield {**event, "cat": row.kind, "args": {"kind": row.kind, "id": row.id}}
            at += call.us * share


def _threads(profile: Profile) -> Iterator[dict[str, object]]:
    count = max((len(call.busy_us) for call in profile.calls), default=0)
    for thread in range(count):
        yield _named("thread_name", _FIRST_THREAD + thread, f"thread {thread}")
        for call in profile.calls:
            busy = min(call.us, call.busy_us[thread]) if call.busy_us else 0.0
            if busy:
                yield _event(call.kernel, _FIRST_THREAD + thread, call.start_us, busy)


def _event(name: str, thread: int, start_us: float, us: float) -> dict[str, object]:
    times = {"ts": round(start_us, 3), "dur": round(us, 3)}
    return {"name": name, "ph": "X", "pid": _PROCESS, "tid": thread, **times}


def _arguments(call: CallRow, names: dict[int, OperatorRow]) -> dict[str, object]:
    return {
        "kind": call.kind,
        "sources": [names[source].name for source in call.sources],
        "tasks": call.tasks,
        "macs": call.macs,
        "bytes": call.data_bytes + call.weights_bytes,
        "GOP/s": round(call.gops, 3),
        "GB/s": round(call.gbs, 3),
    }
